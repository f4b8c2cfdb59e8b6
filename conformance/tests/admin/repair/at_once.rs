//! Several repairs at once, as of units of systemd and an administrator who has noticed the same.

use std::thread;

use cni_conformance::Sandbox;
use serde_json::{Value, json};

use crate::admin::repair::{Backend, RepairedContainer, repair_with, shell, words};

/// A network beside that of the list, with a bridge of its own.
fn another(list: &Value) -> Value {
    let mut another = list.clone();
    another["name"] = json!("another");
    another["plugins"][1]["bridge"] = json!("another");
    another["plugins"][1]["ipam"]["ranges"] = json!([[{"subnet": "172.28.64.0/20"}]]);
    another
}

/// Copies the cache of libcni, with files that seem to be made in another order: those whose names match come first.
fn cache_with_first(sandbox: &Sandbox, folder: &str, names: &str) {
    let results = format!("{folder}/results");
    shell(sandbox, &format!("mkdir -p {results} && cp -p /var/lib/cni/results/* {results}"));
    shell(sandbox, &format!("touch -d yesterday {results}/{names}"));
}

/// One has a network, and wants the other's; the other has that, and wants the first.
#[test]
fn repairs_at_once_do_not_wait_for_each_other() {
    let sandbox = Backend::Nft.sandbox();
    let list = Backend::Nft.list();
    let lists = [another(&list), list];
    let attached = |number: u16| {
        let list = &lists[usize::from(number % 2)];
        RepairedContainer::add(&sandbox, list, &format!("guest-{number}"), 8080 + number)
    };
    let guests: Vec<RepairedContainer<'_>> = (0..8).map(attached).collect();
    let folders = [("/run/one", "another-*"), ("/run/two", "nomad-*")];
    for (folder, names) in folders {
        cache_with_first(&sandbox, folder, names);
    }
    for turn in 0..3 {
        sandbox.sh("nft flush ruleset");
        let repairs = folders.map(|(folder, _)| repair_with(&sandbox, &["--cache-dir", folder]));
        let outcomes = thread::scope(|scope| {
            let running = repairs.each_ref().map(|repair| scope.spawn(|| repair.run()));
            running.map(|repair| repair.join().expect("repair ends"))
        });
        for outcome in outcomes {
            outcome.expect_success();
            let is_expected = |word: &&str| ["repaired", "nothing missing"].contains(word);
            assert!(words(&outcome).iter().all(is_expected), "turn {turn}: {outcome}");
        }
        guests.iter().for_each(RepairedContainer::check);
    }
}
