//! Who may do what: plugins need root, its capabilities, and places that they can write to.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::finding::Finding;
use crate::programs::is_writable_by_others;

const TOPIC: &str = "permissions";

/// The capabilities without which no plugin works, by their bits (linux/capability.h).
const NEEDED: [(u32, &str); 2] = [(12, "CAP_NET_ADMIN"), (21, "CAP_SYS_ADMIN")];

/// Where plugins and runtimes keep what they know.
const PLACES: [&str; 3] = ["/run", "/var/lib/cni", "/run/cni/.cni-plugins-rs"];

/// Looks at this process and at those places.
pub fn look() -> Vec<Finding> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mut findings = vec![judge_process(&status)];
    for place in PLACES.map(Path::new) {
        let owner = fs::metadata(place).ok().map(|metadata| (metadata.uid(), metadata.mode()));
        findings.extend(owner.and_then(|(user, mode)| judge_place(place, user, mode, &mounts)));
    }
    findings
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

/// Judges `/proc/self/status` of proc(5).
fn judge_process(status: &str) -> Finding {
    let user = field(status, "Uid").and_then(|ids| ids.split_whitespace().nth(1));
    let capabilities = field(status, "CapEff").and_then(|bits| u64::from_str_radix(bits, 16).ok()).unwrap_or_default();
    let missing: Vec<&str> =
        NEEDED.iter().filter(|(bit, _)| capabilities & (1 << bit) == 0).map(|(_, name)| *name).collect();
    match (user, missing.is_empty()) {
        (Some("0"), true) => Finding::fine(TOPIC, "root, with all capabilities that plugins need"),
        (Some("0"), false) => Finding::problem(
            TOPIC,
            format!("root, but without {}", missing.join(" and ")),
            "run it on the host itself, or give the service of your runtime these capabilities",
        ),
        _ => Finding::problem(
            TOPIC,
            "this user is not root: much of what follows could not be looked at",
            "run it as root",
        ),
    }
}

fn judge_place(place: &Path, user: u32, mode: u32, mounts: &str) -> Option<Finding> {
    let shown = place.display();
    if is_writable_by_others(user, mode) {
        let says = format!(
            "{shown} belongs to user {user}, mode {:o}: others than root could change what plugins know",
            mode & 0o7777
        );
        return Some(Finding::problem(TOPIC, says, format!("chown root:root {shown} && chmod go-w {shown}")));
    }
    has_option(place, "ro", mounts).then(|| {
        Finding::problem(
            TOPIC,
            format!("{shown} cannot be written to"),
            format!("mount it writable: {shown} is on a read-only file system"),
        )
    })
}

/// Whether the file system that a path is on is mounted with an option, by `/proc/self/mountinfo` of proc(5).
pub fn has_option(path: &Path, option: &str, mounts: &str) -> bool {
    let mount = |line: &str| {
        let mut fields = line.split(' ').skip(4);
        let (point, options) = (fields.next()?.to_owned(), fields.next()?);
        // The last field has the options of the file system, such as `ro` after an error of the disk.
        let options = format!("{options},{}", line.rsplit(' ').next()?);
        path.starts_with(&point).then_some((point.len(), options))
    };
    // Of two mounts on one point the later one is seen.
    let on = mounts.lines().filter_map(mount).max_by_key(|(length, _)| *length);
    on.is_some_and(|(_, options)| options.split(',').any(|one| one == option))
}

#[cfg(test)]
mod tests {
    use super::super::finding::Severity;
    use super::*;

    const ROOT: &str = "Name:\tx\nUid:\t0\t0\t0\t0\nCapEff:\t000001ffffffffff\n";

    #[test]
    fn root_needs_its_capabilities() {
        assert_eq!(judge_process(ROOT).severity, Severity::Fine);
        let poor = judge_process(&ROOT.replace("000001ffffffffff", "0000000000001000"));
        assert_eq!((poor.severity, &*poor.says), (Severity::Problem, "root, but without CAP_SYS_ADMIN"));
        assert!(judge_process(&ROOT.replace("\t0\t0", "\t1000\t1000")).says.contains("not root"));
    }

    #[test]
    fn a_place_is_roots_and_can_be_written_to() {
        let mounts = "1 0 8:1 / / rw,relatime - ext4 a rw\n2 1 0:2 / /run ro,noexec - tmpfs b rw\n";
        let judged = |place: &str, user, mode| judge_place(Path::new(place), user, mode, mounts).map(|one| one.says);
        assert_eq!(judged("/var/lib/cni", 0, 0o40755), None);
        assert_eq!(judged("/run/cni", 0, 0o40755).as_deref(), Some("/run/cni cannot be written to"));
        assert!(judged("/var/lib/cni", 0, 0o40777).is_some_and(|says| says.contains("mode 777")));
        assert!(judged("/var/lib/cni", 7, 0o40755).is_some_and(|says| says.contains("user 7")));
        assert!(has_option(Path::new("/run/x"), "noexec", mounts) && !has_option(Path::new("/opt"), "noexec", mounts));
    }
}
