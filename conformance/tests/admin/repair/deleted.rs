//! A runtime that deletes an attachment while it is repaired.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use cni_conformance::wait::wait_until;
use cni_conformance::{Sandbox, State, script};
use nix::sys::stat::{major, minor};
use serde_json::Value;

use crate::admin::repair::{Backend, RepairedContainer, assert_said, repair, repair_with, shell, words};

/// The lock of legacy iptables.
const LOCK: &str = "/run/xtables.lock";

/// A container that stays, and all rules without another one.
fn neighbour<'s>(sandbox: &'s Sandbox, list: &Value) -> (RepairedContainer<'s>, Vec<String>) {
    let neighbour = RepairedContainer::add(sandbox, list, "first", 8080);
    (neighbour, rules(sandbox))
}

/// Waits until some process waits for a file's lock. The file systems of other machines in memory have the same numbers.
fn await_waiter(file: &File) {
    let reported = file.metadata().expect("look at the lock");
    let file = format!(" {:02x}:{:02x}:{} ", major(reported.dev()), minor(reported.dev()), reported.ino());
    let waits = |line: &str| line.contains("->") && line.contains(&file);
    wait_until("somebody waits", || fs::read_to_string("/proc/locks").expect("read the locks").lines().any(waits));
}

/// It has read the cache when it waits for the packet filter. What it puts back afterwards would belong to
/// nobody, and stay for ever.
#[test]
fn rules_of_a_container_that_is_deleted_meanwhile_are_removed_again() {
    let (sandbox, mut list) = (Backend::Legacy.sandbox(), Backend::Legacy.list());
    list["plugins"][1]["macspoofchk"] = false.into();
    let (neighbour, alone) = neighbour(&sandbox, &list);
    let attached = RepairedContainer::add(&sandbox, &list, "second", 8081);
    assert_ne!(rules(&sandbox), alone);
    flush(&sandbox);
    let lock = File::options().create(true).append(true).open(LOCK).expect("open the lock");
    lock.lock().expect("lock");
    let repair = repair_with(&sandbox, &[]);
    let repaired = thread::scope(|scope| {
        let repairing = scope.spawn(|| repair.run());
        await_waiter(&lock);
        // The end of DEL.
        fs::remove_file(attached.file()).expect("remove the file");
        lock.unlock().expect("unlock");
        repairing.join().expect("repair ends")
    });
    assert_said(&repaired, &["repaired", "skipped"]);
    let why = "the runtime has deleted the attachment, or added it again, in the meantime";
    assert!(repaired.stdout().contains(why), "{repaired}");
    assert_eq!(rules(&sandbox), alone);
    neighbour.check();
    assert!(!attached.is_whole());
}

/// The reference's DEL empties a chain before it removes it. When a repair comes in between, the chain is in use again and
/// cannot be removed, and the next DEL does not look for it: the interface is gone.
#[test]
fn an_emptied_chain_is_removed_with_the_restored_rules() {
    let (sandbox, list) = (Backend::Nft.sandbox(), Backend::Nft.list());
    let (neighbour, _) = neighbour(&sandbox, &list);
    let attached = RepairedContainer::add(&sandbox, &list, "second", 8081);
    let posts = sandbox.sh("ip6tables -t nat -S POSTROUTING");
    let jump = posts.lines().find(|line| line.contains("second")).expect("the guest is masqueraded");
    let chain = jump.rsplit(' ').next().expect("a chain");
    shell(&sandbox, &format!("ip6tables -t nat {}", jump.replacen("-A", "-D", 1)));
    sandbox.sh(&format!("ip6tables -t nat -F {chain}"));

    // The end of DEL, as soon as the chain has rules again.
    let folder = sandbox.search_path().split(':').next().expect("a search path has folders");
    let program = Path::new(folder).join("ip6tables-restore");
    fs::remove_file(&program).expect("remove the program");
    let restore = "cat > /run/batch; /usr/sbin/xtables-nft-multi ip6tables-restore \"$@\" < /run/batch || exit $?";
    let end = format!("ip -n second link del eth0; rm -f {}", attached.file().display());
    script::install(&program, &format!("{restore}\nif grep -q -e '-A {chain}' /run/batch; then {end}; fi\n"));

    let repaired = repair(&sandbox, &[]);
    assert_eq!(words(&repaired), ["nothing missing", "skipped"], "{repaired}");
    assert!(repaired.stdout().contains("the runtime has deleted the attachment"), "{repaired}");
    assert!(!sandbox.sh("ip6tables -t nat -S").contains(chain), "{}", sandbox.sh("ip6tables -t nat -S"));
    neighbour.check();
}

/// The marks of attachments that are being deleted.
fn marks() -> Vec<PathBuf> {
    let boots = fs::read_dir("/run/cni/.cni-plugins-rs/index").into_iter().flatten();
    let kinds = boots.map(|entry| entry.expect("read the run directory").path().join("deletion"));
    kinds.flat_map(|kind| fs::read_dir(kind).into_iter().flatten()).map(|mark| mark.expect("a mark").path()).collect()
}

/// Between the DEL of portmap and that of bridge the namespace lives, the interface is there, and rules are missing. No
/// other DEL of portmap would come.
#[test]
fn what_is_being_deleted_is_passed_over_until_it_is_added_again() {
    for backend in Backend::ALL {
        let (sandbox, list) = (backend.sandbox(), backend.list());
        let (neighbour, alone) = neighbour(&sandbox, &list);
        let mut attached = RepairedContainer::add(&sandbox, &list, "second", 8081);
        for plugin in ["portmap", "firewall"] {
            attached.del_of(plugin);
            let begun = rules(&sandbox);
            for arguments in [&["--dry-run"][..], &[]] {
                let repaired = repair(&sandbox, arguments);
                assert_said(&repaired, &["nothing missing", "skipped"]);
                assert!(repaired.stdout().contains("the runtime is deleting the attachment"), "{repaired}");
            }
            assert_eq!((rules(&sandbox), marks().len()), (begun, 1), "{backend:?} {plugin}");
        }
        attached.del();
        assert_eq!((rules(&sandbox), marks()), (alone, vec![]), "{backend:?}");

        attached.add_again();
        attached.del_of("portmap");
        assert_eq!(marks().len(), 1, "{backend:?}");
        // Other plugins have deleted it, and added it again: the mark is that of another interface, whatever any clock says.
        sandbox.sh(r"find /run/cni -path */ledger/* -type f -exec sed -i s/^\(deletion\s\S*\)\s\S*/\1\x204000/ {} +");
        assert_said(&repair(&sandbox, &[]), &["nothing missing", "repaired"]);
        assert!(attached.is_whole(), "{backend:?}");
        neighbour.check();
    }
}

fn flush(sandbox: &Sandbox) {
    shell(sandbox, "for p in iptables ip6tables; do for t in nat filter; do $p -t $t -F; $p -t $t -X; done; done");
}

/// One repair after the other, as a unit of systemd that is started too often would do it.
#[test]
fn nothing_stays_of_what_is_deleted_while_repairs_run() {
    for backend in Backend::ALL {
        let (sandbox, list) = (backend.sandbox(), backend.list());
        let (neighbour, alone) = neighbour(&sandbox, &list);
        let attached = |number: u16| RepairedContainer::add(&sandbox, &list, &format!("guest-{number}"), 8081 + number);
        let guests: Vec<RepairedContainer<'_>> = (0..8).map(attached).collect();
        let (ended, begun_again) = (AtomicBool::new(false), AtomicBool::new(false));
        let repair = repair_with(&sandbox, &[]);
        thread::scope(|scope| {
            let repairing = scope.spawn(|| {
                let mut repairs = Vec::new();
                while !ended.load(Ordering::Relaxed) {
                    repairs.push(repair.run());
                    begun_again.store(true, Ordering::Relaxed);
                }
                repairs
            });
            let (last, others) = guests.split_last().expect("guests");
            others.iter().for_each(RepairedContainer::del);
            // A repair of legacy iptables may take longer than all of these.
            let started = Instant::now();
            while !begun_again.load(Ordering::Relaxed) && started.elapsed() < Duration::from_secs(60) {
                thread::yield_now();
            }
            last.del();
            ended.store(true, Ordering::Relaxed);
            let repairs = repairing.join().expect("repairs end");
            for outcome in &repairs {
                outcome.expect_success();
            }
            assert!(repairs.len() > 1, "repairs ran beside the deletes");
        });
        assert_eq!((rules(&sandbox), marks()), (alone, vec![]), "{backend:?}");
        neighbour.check();
    }
}

/// The rules of all containers.
pub fn rules(sandbox: &Sandbox) -> Vec<String> {
    let state = State::of_host(sandbox);
    let sections = ["iptables nat", "iptables filter", "ip6tables nat", "ip6tables filter", "nftables"];
    sections.iter().flat_map(|section| state.section(section).to_vec()).collect()
}
