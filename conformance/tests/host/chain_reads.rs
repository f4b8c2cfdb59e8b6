//! A plugin does not list chains with the rules of all containers to find those of one: it remembers their handles.
//!
//! Only what is not there takes a listing: an ADD that must know whether an address has rules already, and a DEL that
//! must know whether there are more of them.
//!
//! The debug log names each chain that is listed, and its number of rules.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use cni_conformance::{Attachment, Chain, Nomad, PortMapping, Runtime, Sandbox, Spelling};
use serde_json::Value;

/// A chain is long from so many rules on.
const LONG: usize = 33;

/// So many containers that every chain with rules of all is long.
const CONTAINERS: u16 = 40;

/// A host with containers; one more was attached and detached.
struct ManyContainers<'s> {
    sandbox: &'s Sandbox,
    runtime: Runtime<'s>,
}

impl<'s> ManyContainers<'s> {
    fn new(sandbox: &'s Sandbox, list: Value) -> Self {
        Nomad::default().ensure_forwarding_rules(sandbox);
        let containers = Self { sandbox, runtime: Runtime::new(sandbox, list).env("CNI_PLUGINS_LOG", "debug") };
        for number in 1..=CONTAINERS {
            containers.add(&format!("c{number}"), 8000 + number);
        }
        containers.life("first");
        containers
    }

    fn add(&self, name: &str, host_port: u16) -> (Attachment, Vec<String>) {
        let ports = PortMapping::twins(host_port, 80);
        let mut attachment = Attachment::new(name, &self.sandbox.container(name)).ports(&ports, Spelling::Go);
        let chain = self.runtime.add(&mut attachment);
        (attachment, long_ones(&chain))
    }

    /// The long chains that a container's ADD, CHECK and DEL listed.
    fn life(&self, name: &str) -> [Vec<String>; 3] {
        let (attachment, add) = self.add(name, 9000);
        let check = long_ones(&self.runtime.check(&attachment));
        [add, check, long_ones(&self.runtime.del(&attachment))]
    }
}

/// The chains that were read whole, and are long.
#[track_caller]
fn long_ones(chain: &Chain) -> Vec<String> {
    chain.expect_success();
    let lines = chain.steps().iter().flat_map(|(_, outcome)| outcome.stderr().lines());
    let read = |line: &str| {
        let (name, count) = line.split_once("listed chain ")?.1.strip_suffix(" rules")?.rsplit_once(": ")?;
        (count.parse::<usize>().expect("a number") >= LONG).then(|| name.to_owned())
    };
    lines.filter_map(read).collect()
}

/// The chain of firewall: ADD must know whether the address has rules, and DEL whether they have copies.
const UNPROVEN: [&[&str]; 3] = [&["ip filter CNI-FORWARD"], &[], &["ip filter CNI-FORWARD"]];

/// The links of rules whose handles are remembered.
fn links() -> BTreeSet<PathBuf> {
    let below = |path: PathBuf| fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    below("/run/cni/.cni-plugins-rs/handles".into()).flat_map(below).collect()
}

#[test]
fn the_rules_of_a_container_are_found_without_a_listing() {
    let sandbox = Sandbox::new();
    let containers = ManyContainers::new(&sandbox, Nomad::default().conflist());
    let before = links();
    assert!(!before.is_empty(), "there are long chains");
    assert_eq!(containers.life("second"), UNPROVEN);
    assert_eq!(links(), before, "they go with their container");
    // Lost and wrong links are made again.
    for (number, target) in [None, Some("1000000"), Some("none")].into_iter().enumerate() {
        let was = links();
        let (attachment, _) = containers.add(&format!("d{number}"), 9001);
        assert!(links().len() > was.len(), "ADD remembers the handles of its rules");
        for link in links() {
            fs::remove_file(&link).expect("removed");
            target.into_iter().for_each(|target| symlink(target, &link).expect("written"));
        }
        let reads = [1, 2, 3].map(|_| long_ones(&containers.runtime.check(&attachment)).is_empty());
        assert_eq!(reads, [false, true, true], "CHECK again and again with {target:?}");
        // The second time it is gone already, which only a listing can prove.
        [1, 2].iter().for_each(|_| drop(long_ones(&containers.runtime.del(&attachment))));
    }
    // What others add costs nothing, and is there still, once.
    sandbox.sh("iptables -A CNI-FORWARD -s 192.0.2.1 -j DROP");
    sandbox.sh("iptables -t nat -I POSTROUTING -s 192.0.2.1 -j RETURN");
    assert_eq!(containers.life("fourth"), UNPROVEN);
    assert_eq!(sandbox.sh("iptables -S CNI-FORWARD").matches("192.0.2.1").count(), 1);
}

/// Nomad's list with the nftables back end of each plugin.
#[test]
fn the_rules_of_a_container_in_nftables_are_found_without_a_listing() {
    let sandbox = Sandbox::new();
    let mut list = Nomad::default().conflist();
    for (at, key) in [(1, "ipMasqBackend"), (2, "backend"), (3, "backend")] {
        list["plugins"][at][key] = "nftables".into();
    }
    let containers = ManyContainers::new(&sandbox, list);
    assert_eq!(containers.life("second")[1], [""; 0]);
}
