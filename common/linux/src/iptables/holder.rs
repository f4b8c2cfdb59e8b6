//! Who holds a lock on a file, as `/proc/locks` tells it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The processes that hold a lock on a file, by number and name; says so when there is none to be seen.
pub(super) fn holder(file: &Path) -> String {
    let names: Vec<String> = match (fs::metadata(file), fs::read_to_string("/proc/locks")) {
        (Ok(found), Ok(locks)) => pids(&locks, found.dev(), found.ino()).into_iter().map(named).collect(),
        (Err(_), _) | (_, Err(_)) => Vec::new(),
    };
    if names.is_empty() { "an unknown process".to_owned() } else { names.join(", ") }
}

fn named(pid: &str) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    format!("process {pid} ({})", name.trim_end())
}

/// Picks the holders from lines like `1: FLOCK  ADVISORY  WRITE 1234 00:19:5678 0 EOF`; a waiting
/// process has `->` in front of its kind.
fn pids(locks: &str, device: u64, inode: u64) -> Vec<&str> {
    let file = format!("{:02x}:{:02x}:{inode}", libc::major(device), libc::minor(device));
    let holds = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.get(1) != Some(&"->") && words.get(5) == Some(&file.as_str())
    };
    locks.lines().filter(|line| holds(line)).filter_map(|line| line.split_whitespace().nth(4)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_is_told_from_those_who_wait_and_from_other_files() {
        let locks = "\
1: FLOCK  ADVISORY  WRITE 17 00:19:42 0 EOF
1: -> FLOCK  ADVISORY  WRITE 18 00:19:42 0 EOF
2: POSIX  ADVISORY  READ 19 fe:00:42 0 EOF
";
        assert_eq!(pids(locks, libc::makedev(0, 0x19), 42), ["17"]);
        assert_eq!(pids(locks, libc::makedev(0xfe, 0), 42), ["19"]);
        assert_eq!(pids(locks, libc::makedev(0, 0x19), 43), [""; 0]);
    }

    #[test]
    fn a_lock_of_this_process_is_seen() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        assert_eq!(holder(file.path()), "an unknown process");
        file.as_file().lock().expect("locked");
        let mine = format!("process {} (", std::process::id());
        assert!(holder(file.path()).starts_with(&mine), "{}", holder(file.path()));
    }
}
