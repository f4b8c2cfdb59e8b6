//! Paths to every network namespace that processes are in or hold open, or that is mounted somewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;

use super::gaps::Gaps;

/// How the kernel names the files of network namespaces; a number follows.
const NETWORK: &str = "net:[";

/// So many paths are kept of one namespace: a process may end before its path is used.
const MOST_PATHS: usize = 8;

/// The paths, and what could not be read.
#[derive(Debug, Default)]
pub struct Paths {
    /// Those of each namespace, by the kernel's name for it.
    pub by_name: BTreeMap<String, Vec<String>>,
    pub gaps: Gaps,
}

impl Paths {
    /// Goes over all processes. Leaves out the namespaces that are known.
    pub fn observe(known: &BTreeSet<String>) -> Self {
        let (mut found, mut mounts) = (Self::default(), BTreeSet::new());
        let entries = match fs::read_dir("/proc") {
            Ok(entries) => entries,
            Err(error) => {
                found.gaps.add(format!("/proc: {error}"));
                return found;
            }
        };
        for name in entries.flatten().map(|entry| entry.file_name()) {
            let pid = name.to_str().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
            if let Some(pid) = pid {
                found.look_at(&format!("/proc/{pid}"), known, &mut mounts);
            }
        }
        found
    }

    fn look_at(&mut self, process: &str, known: &BTreeSet<String>, mounts: &mut BTreeSet<String>) {
        let own = format!("{process}/ns/net");
        if let Some(name) = self.target(&own) {
            self.offer(known, name, own);
        }
        let is_new = self.target(&format!("{process}/ns/mnt")).is_some_and(|namespace| mounts.insert(namespace));
        if is_new {
            let file = format!("{process}/mountinfo");
            let text = fs::read_to_string(&file);
            for (name, point) in self.or_gap(&file, text).iter().flat_map(|text| mounted(text)) {
                self.offer(known, name, format!("{process}/root{point}"));
            }
        }
        let folder = format!("{process}/fd");
        let entries = fs::read_dir(&folder);
        for entry in self.or_gap(&folder, entries).into_iter().flatten().flatten() {
            let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
            if let Some(name) = self.target(&path).filter(|target| target.starts_with(NETWORK)) {
                self.offer(known, name, path);
            }
        }
    }

    fn offer(&mut self, known: &BTreeSet<String>, name: String, path: String) {
        if !known.contains(&name) {
            let paths = self.by_name.entry(name).or_default();
            if paths.len() < MOST_PATHS {
                paths.push(path);
            }
        }
    }

    /// Where a link of `/proc` leads; `None` when its process has ended.
    fn target(&mut self, path: &str) -> Option<String> {
        let target = self.or_gap(path, fs::read_link(Path::new(path)))?;
        target.into_os_string().into_string().ok()
    }

    /// What was read; `None` when the process has ended, or is not to be seen.
    fn or_gap<T>(&mut self, path: &str, read: io::Result<T>) -> Option<T> {
        read.inspect_err(|error| {
            if !has_ended(error) {
                self.gaps.add(format!("{path}: {error}"));
            }
        })
        .ok()
    }
}

/// A process that has ended has no files, and one that nobody has waited for yet is in no mount namespace.
fn has_ended(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH | libc::EINVAL))
}

/// The network namespaces that are mounted, with their places, from `mountinfo` of proc(5), in which a blank is `\040`.
fn mounted(mountinfo: &str) -> Vec<(String, String)> {
    let mounted = |line: &str| {
        let mut fields = line.split(' ').skip(3);
        let (root, point) = (fields.next()?, fields.next()?);
        let decoded = point.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\");
        root.starts_with(NETWORK).then(|| (root.to_owned(), decoded))
    };
    mountinfo.lines().filter_map(mounted).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_are_found_where_they_are_mounted() {
        let mountinfo = "\
25 1 0:23 / /run rw,nosuid - tmpfs tmpfs rw
30 25 0:4 net:[4026532296] /run/netns/a rw shared:5 - nsfs nsfs rw
31 25 0:4 mnt:[4026532297] /run/mnt rw - nsfs nsfs rw
32 25 0:4 net:[4026532298] /run/net\\040ns/b rw - nsfs nsfs rw
";
        let found = mounted(mountinfo);
        let found: Vec<_> = found.iter().map(|(name, point)| (name.as_str(), point.as_str())).collect();
        assert_eq!(found, [("net:[4026532296]", "/run/netns/a"), ("net:[4026532298]", "/run/net ns/b")]);
    }

    #[test]
    fn only_an_ended_process_is_no_gap() {
        let mut paths = Paths::default();
        for errno in [libc::ENOENT, libc::ESRCH, libc::EINVAL] {
            assert_eq!(paths.or_gap::<()>("p", Err(io::Error::from_raw_os_error(errno))), None);
            assert_eq!(paths.gaps.text(), None);
        }
        paths.or_gap::<()>("/proc/7/ns/net", Err(io::Error::from_raw_os_error(libc::EACCES)));
        assert_eq!(paths.gaps.text().as_deref(), Some("/proc/7/ns/net: Permission denied (os error 13)"));
    }
}
