//! The network namespaces of the machine, by the processes that are in them.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::PathBuf;

use crate::identity::identity;
use crate::netns::Netns;

/// The path of a namespace, by way of the first process found in it; `None` when there is none. Each namespace of
/// the machine is entered at most once. Processes of other PID namespaces that `/proc` does not show are not seen.
///
/// # Errors
/// When `/proc` cannot be listed.
pub fn path_by_process(wanted: &str) -> io::Result<Option<String>> {
    Ok(paths_by_process()?.into_iter().find(|path| is(path, wanted)))
}

/// A path to each namespace in which a process is, by way of the first one.
fn paths_by_process() -> io::Result<Vec<String>> {
    let mut seen: HashSet<PathBuf> = HashSet::new();
    let mut paths = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let path = format!("/proc/{pid}/ns/net");
        // One that has ended is in no namespace.
        let Ok(namespace) = fs::read_link(&path) else { continue };
        if seen.insert(namespace) {
            paths.push(path);
        }
    }
    Ok(paths)
}

fn is(path: &str, wanted: &str) -> bool {
    let Ok(netns) = Netns::open(path) else { return false };
    let told = netns.inside(identity).map(|told| told.ok().flatten());
    told.inspect_err(|error| log::debug!("{path}: {error}")).is_ok_and(|told| told.as_deref() == Some(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_found_and_nobody_is_where_nobody_can_be() {
        let own = identity().expect("an identity").expect("the kernel has cookies since 5.14");
        assert!(path_by_process(&own).expect("listed").is_some());
        assert_eq!(path_by_process("boot:0").expect("listed"), None);
    }
}
