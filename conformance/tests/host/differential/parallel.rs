//! Both host-locals use one folder at the same time: no container gets another's address.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::Barrier;
use std::thread;

use cni_conformance::{Invocation, Sandbox, Verb, binaries};
use serde_json::{Value, json};

use crate::differential::reference;

/// How many processes start at once.
const PROCESSES: usize = 20;

/// How many containers each of them adds, one after the other.
const ROUNDS: usize = 3;

#[test]
fn both_host_locals_at_once_give_no_address_twice() {
    let Some(reference) = reference::find("both host-locals at once on one folder") else { return };
    let folders = [binaries::under_test(), reference.folder];
    let sandbox = Sandbox::new();
    let config = config();
    let calls = |verb| -> Vec<Vec<Invocation>> {
        (0..PROCESSES)
            .map(|process| (0..ROUNDS).map(|round| call(&sandbox, &folders, &config, verb, process, round)).collect())
            .collect()
    };
    let given = all_at_once(&calls(Verb::Add));
    let distinct: BTreeSet<&String> = given.iter().collect();
    assert_eq!(given.len(), 2 * PROCESSES * ROUNDS);
    assert_eq!(distinct.len(), given.len(), "an address was given twice: {given:#?}");
    for address in &given {
        let name = address.split('/').next().expect("an address");
        assert!(fs::exists(format!("/run/cni/net1/{name}")).expect("look for a lease"), "{name} has no file");
    }
    all_at_once(&calls(Verb::Del));
    let left: Vec<String> = fs::read_dir("/run/cni/net1")
        .expect("list the leases")
        .map(|entry| entry.expect("read the list").file_name().into_string().expect("a name is text"))
        .filter(|name| name.parse::<std::net::IpAddr>().is_ok())
        .collect();
    assert_eq!(left, [""; 0]);
}

/// As many addresses as containers, so that the last ones have to search for what is left.
fn config() -> Value {
    let ranges = json!([
        [{"subnet": "10.1.2.0/24", "rangeStart": "10.1.2.10", "rangeEnd": "10.1.2.69"}],
        [{"subnet": "fd00:1::/64", "rangeStart": "fd00:1::10", "rangeEnd": "fd00:1::4b"}],
    ]);
    let ipam = json!({"type": "host-local", "ranges": ranges, "dataDir": "/run/cni"});
    json!({"cniVersion": "1.0.0", "name": "net1", "type": "bridge", "ipam": ipam})
}

/// Every other container is the reference's, and another one's on DEL.
fn call(
    sandbox: &Sandbox,
    folders: &[PathBuf; 2],
    config: &Value,
    verb: Verb,
    process: usize,
    round: usize,
) -> Invocation {
    let turn = (process + round + usize::from(verb == Verb::Del) * (process / 2)) % 2;
    Invocation::new(sandbox, "host-local", verb)
        .binaries(&folders[turn])
        .container_id(&format!("c{process}-{round}"))
        .netns("/run/netns/never")
        .config(config)
}

/// Runs each list of calls in a thread of its own, all from the same moment, and returns the addresses.
fn all_at_once(calls: &[Vec<Invocation>]) -> Vec<String> {
    let start = Barrier::new(calls.len());
    thread::scope(|scope| {
        let run = |calls: &Vec<Invocation>| -> Vec<String> {
            start.wait();
            let outcomes = calls.iter().map(|call| call.run().expect_success().clone());
            outcomes
                .filter(|outcome| !outcome.stdout().is_empty())
                .flat_map(|outcome| addresses(&outcome.result()))
                .collect()
        };
        let running: Vec<_> = calls.iter().map(|calls| scope.spawn(move || run(calls))).collect();
        running.into_iter().flat_map(|calls| calls.join().expect("a process of its own")).collect()
    })
}

fn addresses(result: &Value) -> Vec<String> {
    let ips = result["ips"].as_array().expect("addresses").iter();
    ips.map(|ip| ip["address"].as_str().expect("an address is text").to_owned()).collect()
}
