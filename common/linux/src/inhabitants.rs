//! Finds the network namespaces of the machine by the processes in them, and tells whether `/proc` hides some.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use cni_core::error::Error;
use cni_files::FileError;
use cni_kernel::netlink::Socket;
use cni_kernel::netns::Netns;
use cni_model::link::Link;
use cni_model::netns::{NumberedLink, Occupancy};

use crate::ledger::identity;

const PROCESSES: &str = "/proc";

/// The path of a namespace through the first process found in it; `None` if no process is in it. Each namespace of the
/// machine is entered at most once. Processes of other PID namespaces that `/proc` does not show are not found.
pub fn path_by_process(wanted: &str) -> io::Result<Option<String>> {
    Ok(paths_by_process()?.into_iter().find(|path| is(path, wanted)))
}

/// Looks for a process, or a thread of one, in the namespace that has a number for that of the socket, and in which a link has
/// this index. Threads have namespaces of their own: a runtime may have one inside. Of a process that has more rights than
/// this one only the list of its links can be read.
pub fn occupancy(number: i32, index: u32, socket: &mut Socket) -> Result<Occupancy, Error> {
    let NumberedLink::Link(link) = socket.numbered_link(number, index)? else { return Ok(Occupancy::Empty) };
    if let Some(reason) = hidden_processes() {
        return Ok(Occupancy::Unknown(reason));
    }
    let (mut seen, mut unseen) = (HashSet::new(), None);
    for thread in threads().map_err(FileError::of("list", Path::new(PROCESSES)))? {
        let path = format!("{thread}/ns/net");
        match fs::read_link(&path).and_then(|namespace| Ok((namespace, File::open(&path)?))) {
            Ok((namespace, file)) => {
                if seen.insert(namespace) && socket.netns_id(file.as_fd())? == Some(number) {
                    return Ok(Occupancy::Occupied(path));
                }
            }
            Err(error) if has_ended(&error) || lacks(&thread, &link) => {}
            Err(error) => unseen = Some(format!("{path} cannot be read: {error}")),
        }
    }
    Ok(unseen.map_or(Occupancy::Empty, Occupancy::Unknown))
}

/// Whether a thread's namespace certainly does not have a link, by the lists of links that any user may read.
fn lacks(thread: &str, link: &Link) -> bool {
    let list = |name: &str| fs::read_to_string(format!("{thread}/net/{name}"));
    let has_ended = |error: &io::Error| has_ended(error) || error.raw_os_error() == Some(libc::EINVAL);
    let names = match list("dev") {
        Ok(names) => names,
        Err(error) => return has_ended(&error),
    };
    let is_named = names.lines().any(|line| line.split(':').next().is_some_and(|name| name.trim() == link.name));
    let index = listed_index(&list("igmp").unwrap_or_default(), &list("if_inet6").unwrap_or_default(), &link.name);
    !is_named || index.is_some_and(|index| index != link.index)
}

/// The index of the link of a name, by `/proc/net/igmp` and `/proc/net/if_inet6`. Neither has all links.
fn listed_index(igmp: &str, if_inet6: &str, name: &str) -> Option<u32> {
    let v4 = igmp.lines().find_map(|line| {
        let mut fields = line.split_whitespace();
        let (index, device) = (fields.next()?, fields.next()?);
        (device == name).then(|| index.parse().ok()).flatten()
    });
    v4.or_else(|| {
        if_inet6.lines().find_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let [_, index, .., device] = fields[..] else { return None };
            (device == name).then(|| u32::from_str_radix(index, 16).ok()).flatten()
        })
    })
}

/// The folders of all threads.
fn threads() -> io::Result<Vec<String>> {
    let mut paths = Vec::new();
    for process in numbers(PROCESSES)? {
        let folder = format!("{PROCESSES}/{process}/task");
        // A process that has ended has no threads.
        let threads = numbers(&folder).unwrap_or_default();
        paths.extend(threads.into_iter().map(|thread| format!("{folder}/{thread}")));
    }
    Ok(paths)
}

/// The numbers of the processes or threads in a folder of `/proc`.
pub(crate) fn numbers(folder: &str) -> io::Result<Vec<i32>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        found.extend(entry?.file_name().to_str().and_then(|name| name.parse::<i32>().ok()));
    }
    Ok(found)
}

fn has_ended(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH))
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
    let reported = netns.inside(identity).map(|reported| reported.ok().flatten());
    reported
        .inspect_err(|error| log::debug!("{path}: {error}"))
        .is_ok_and(|reported| reported.as_deref() == Some(wanted))
}

/// `PROC_PID_INIT_INO` of `linux/proc_ns.h`: the file number of the machine's first PID namespace.
const FIRST_PID_NAMESPACE: u64 = 0xEFFF_FFFC;

/// The reason why `/proc` does not show all processes of the machine, if so.
pub fn hidden_processes() -> Option<String> {
    match fs::metadata("/proc/self/ns/pid") {
        Ok(namespace) if namespace.ino() == FIRST_PID_NAMESPACE => {}
        Ok(_) => return Some("this process is in a PID namespace that does not show all processes".to_owned()),
        Err(error) => return Some(format!("/proc/self/ns/pid: {error}")),
    }
    match fs::read_to_string("/proc/self/mountinfo") {
        Ok(mounts) => hides_processes(&mounts).then(|| "/proc is mounted with hidepid".to_owned()),
        Err(error) => Some(format!("/proc/self/mountinfo: {error}")),
    }
}

/// Whether the file system mounted last at `/proc` hides processes of other users, by `mountinfo` of proc(5).
fn hides_processes(mounts: &str) -> bool {
    let options = |line: &str| {
        let (mount, file_system) = line.split_once(" - ")?;
        let is_proc = mount.split(' ').nth(4) == Some("/proc");
        is_proc.then(|| file_system.split(' ').nth(2).unwrap_or_default().to_owned())
    };
    let hides = |option: &str| option.strip_prefix("hidepid=").is_some_and(|value| !["0", "off"].contains(&value));
    mounts.lines().filter_map(options).next_back().is_some_and(|options| options.split(',').any(hides))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_of_a_link_is_listed_by_its_ipv4_or_its_ipv6_addresses() {
        let igmp = "Idx\tDevice    : Count Querier\tGroup    Users Timer\tReporter\n1\tlo        :     1      V3\n\t\t\t\t010000E0     1 0:00000000\t\t0\n4\teth0      :     1      V3\n";
        let if_inet6 = "fe8000000000000000fc00fffe000001 0a 40 20 80     eth1\n";
        let index = |name| listed_index(igmp, if_inet6, name);
        assert_eq!([index("eth0"), index("eth1"), index("eth2")], [Some(4), Some(10), None]);
    }

    #[test]
    fn this_process_is_found_and_nobody_is_where_nobody_can_be() {
        let own = identity().expect("an identity").expect("the kernel has cookies since 5.14");
        assert!(path_by_process(&own).expect("listed").is_some());
        assert_eq!(path_by_process("boot:0").expect("listed"), None);
    }

    #[test]
    fn proc_may_hide_processes() {
        let line = |options: &str| format!("22 27 0:21 / /proc rw,relatime - proc proc {options}\n");
        for (options, hides) in [
            ("rw", false),
            ("rw,hidepid=0", false),
            ("rw,hidepid=off", false),
            ("rw,hidepid=2", true),
            ("rw,hidepid=invisible,gid=4", true),
        ] {
            assert_eq!(hides_processes(&line(options)), hides, "{options}");
        }
        assert!(!hides_processes(&(line("rw,hidepid=2") + &line("rw"))), "the last one is seen");
    }
}
