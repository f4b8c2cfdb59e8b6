//! Tells whether `/proc` hides processes of other users.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

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
