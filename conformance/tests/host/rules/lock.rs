//! Only root can hold the lock that plugins take while they change shared rules.
//!
//! flock(2) needs only an open file, so any user who can read the lock's file could block containers.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use cni_conformance::{Nomad, Sandbox};

use crate::rules::nomad::{ALLOC, NEIGHBOUR, attach};

const FOLDER: &str = "/run/cni/.cni-plugins-rs";

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())).mode() & 0o7777
}

/// The locks; the first container needs one.
fn locks() -> Vec<PathBuf> {
    let files = fs::read_dir(FOLDER).expect("the folder of the plugins").map(|file| file.expect("a file").path());
    files.filter(|path| path.extension().is_some_and(|end| end == "lock")).collect()
}

#[test]
fn nobody_but_root_can_open_the_lock() {
    let sandbox = Sandbox::new();
    attach(&sandbox, &Nomad::default(), ALLOC, 8080);
    assert!(!locks().is_empty(), "the first container takes a lock");
    assert_eq!(mode(Path::new(FOLDER)), 0o700);
    for lock in locks() {
        assert_eq!(mode(&lock), 0o600, "{}", lock.display());
    }
}

#[test]
fn what_an_earlier_release_has_left_open_is_closed() {
    let sandbox = Sandbox::new();
    let nomad = Nomad::default();
    attach(&sandbox, &nomad, ALLOC, 8080);
    fs::set_permissions(FOLDER, Permissions::from_mode(0o755)).expect("open the folder");
    for lock in locks() {
        fs::set_permissions(lock, Permissions::from_mode(0o644)).expect("open the lock");
    }
    sandbox.sh("iptables --wait -t filter -F FORWARD");
    attach(&sandbox, &nomad, NEIGHBOUR, 9090);
    assert_eq!(mode(Path::new(FOLDER)), 0o700);
    assert!(locks().iter().any(|lock| mode(lock) == 0o600), "the lock that was needed is closed");
}
