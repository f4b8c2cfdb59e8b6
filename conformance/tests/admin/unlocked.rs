//! `gc --remove` beside plugins that do not wait for its lock: an ADD waits for ten seconds at most and then goes on.

use std::fs;
use std::path::Path;
use std::thread;

use cni_conformance::script;
use cni_conformance::wait::wait_until;
use serde_json::json;

use crate::admin::safety::{OTHERS, SlowNetwork, during_removal, interfaces, remove};
use crate::admin::{cache, host, lose, process_in};

/// An IPAM plugin of others, whose ADD writes `/run/adding` and then waits for `/run/ipam-go`.
fn install_slow_ipam(slow: &mut SlowNetwork) {
    let answer = json!({"cniVersion": "1.0.0", "ips": [{"address": "172.26.64.9/20"}]});
    let plugin = format!(
        "cat >/dev/null; test \"$CNI_COMMAND\" != DEL || touch /run/released\n\
         test \"$CNI_COMMAND\" != ADD || {{ touch /run/adding; while ! test -e /run/ipam-go; do sleep 0.01; done; \
         echo '{answer}'; }}\n"
    );
    for folder in [&slow.folder, Path::new(OTHERS)] {
        script::install(&folder.join("slow-ipam"), &plugin);
    }
    slow.list["plugins"][0]["ipam"] = json!({"type": "slow-ipam"});
}

/// The DEL of a plugin of others takes so long that the ADD goes on without the lock, and is at work when gc comes to the
/// next plugin.
#[test]
fn a_container_that_is_being_added_without_the_lock_stays() {
    let sandbox = host();
    let mut slow = SlowNetwork::new(&sandbox);
    install_slow_ipam(&mut slow);
    fs::write("/run/ipam-go", "").expect("let the IPAM plugin end");
    slow.tool(&sandbox).add(&sandbox.container("again")).expect_success();
    lose(&sandbox, "again");
    ["/run/ipam-go", "/run/adding"].iter().for_each(|file| fs::remove_file(file).expect("remove a file"));
    let again = sandbox.container("again");
    let add = slow.tool(&sandbox).prepare("add", again.path());
    thread::scope(|scope| {
        let adding = during_removal(|| {
            let adding = scope.spawn(|| add.run());
            wait_until("ADD asks for an address", || Path::new("/run/adding").exists());
            adding
        });
        let is_released = Path::new("/run/released").exists();
        fs::write("/run/ipam-go", "").expect("let the IPAM plugin end");
        adding.join().expect("ADD ends").expect_success();
        assert!(!is_released, "gc has released the address that is being given");
    });
    assert_eq!(interfaces(&again), ["lo", "eth0"]);
    assert_eq!(cache().len(), 1);
}

/// gc keeps the record of a dead container that it could not remove. The record of one that was added meanwhile is newer.
#[test]
fn a_removal_that_fails_does_not_replace_the_record_of_a_new_container() {
    let sandbox = host();
    let mut slow = SlowNetwork::new(&sandbox);
    slow.list["plugins"].as_array_mut().expect("plugins").reverse();
    let failing = "cat >/dev/null; test \"$CNI_COMMAND\" != ADD || echo '{\"cniVersion\": \"1.0.0\"}'\n\
                   test \"$CNI_COMMAND\" != DEL || { touch /run/called; \
                   while ! test -e /run/go; do sleep 0.01; done; exit 1; }\n";
    for folder in [&slow.folder, Path::new(OTHERS)] {
        script::install(&folder.join("other"), failing);
    }
    slow.tool(&sandbox).add(&sandbox.container("again")).expect_success();
    lose(&sandbox, "again");
    let again = sandbox.container("again");
    during_removal(|| slow.tool(&sandbox).add(&again).expect_success().clone());
    let inhabitant = process_in(&again);
    sandbox.sh("ip netns del again");
    assert_eq!(remove(&sandbox).stdout(), "nothing is left over\n");
    let inside = sandbox.exec(&["nsenter", "-t", &inhabitant.0.id().to_string(), "-n", "ip", "-brief", "link"]);
    assert!(inside.stdout.contains("eth0"), "{}", inside.stdout);
}
