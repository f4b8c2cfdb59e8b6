//! A runtime that deletes an attachment while it is repaired.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use cni_conformance::{Sandbox, State};

use crate::{Backend, Guest, assert_said, repair_with};

/// The lock of legacy iptables.
const LOCK: &str = "/run/xtables.lock";

/// Waits until some process waits for a file's lock.
fn await_waiter(file: &File) {
    let inode = format!(":{} ", file.metadata().expect("look at the lock").ino());
    let started = Instant::now();
    let waits = |line: &str| line.contains("->") && line.contains(&inode);
    while !fs::read_to_string("/proc/locks").expect("read the locks").lines().any(waits) {
        assert!(started.elapsed() < Duration::from_secs(10), "nobody waits for {LOCK}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// It has read the cache when it waits for the packet filter. What it puts back afterwards would belong to
/// nobody, and stay for ever.
#[test]
fn what_the_runtime_deletes_meanwhile_is_taken_back() {
    let sandbox = Backend::Legacy.sandbox();
    let mut list = Backend::Legacy.list();
    list["plugins"][1]["macspoofchk"] = false.into();
    let neighbour = Guest::add(&sandbox, &list, "first", 8080);
    let alone = rules(&sandbox);
    let known = cache();
    let guest = Guest::add(&sandbox, &list, "second", 8081);
    let file = cache().into_iter().find(|file| !known.contains(file)).expect("the guest's file");
    assert_ne!(rules(&sandbox), alone);
    for program in ["iptables", "ip6tables"] {
        for table in ["nat", "filter"] {
            sandbox.sh(&format!("{program} -t {table} -F"));
            sandbox.sh(&format!("{program} -t {table} -X"));
        }
    }

    let lock = File::options().create(true).append(true).open(LOCK).expect("open the lock");
    lock.lock().expect("lock");
    let repair = repair_with(&sandbox, &[]);
    let repaired = thread::scope(|scope| {
        let repairing = scope.spawn(|| repair.run());
        await_waiter(&lock);
        // The end of DEL.
        fs::remove_file(&file).expect("remove the guest's file");
        lock.unlock().expect("unlock");
        repairing.join().expect("repair ends")
    });

    assert_said(&repaired, &["repaired", "skipped"]);
    let why = "the runtime has deleted the attachment, or added it again, in the meantime";
    assert!(repaired.stdout().contains(why), "{repaired}");
    assert_eq!(rules(&sandbox), alone);
    neighbour.check();
    assert!(!guest.is_whole());
}

fn cache() -> Vec<PathBuf> {
    let files = fs::read_dir("/var/lib/cni/results").expect("list the cache");
    files.map(|entry| entry.expect("read the cache").path()).collect()
}

/// The rules of all containers.
fn rules(sandbox: &Sandbox) -> Vec<String> {
    let state = State::of_host(sandbox);
    let sections = ["iptables nat", "iptables filter", "ip6tables nat", "ip6tables filter", "nftables"];
    sections.iter().flat_map(|section| state.section(section).to_vec()).collect()
}
