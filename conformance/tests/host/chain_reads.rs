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

use cni_conformance::{Attachment, Chain, Nomad, PortMapping, Runtime, Sandbox, Spelling, nomad};
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
    fn new(sandbox: &'s Sandbox, list: &Nomad, conflist: Value) -> Self {
        list.ensure_forwarding_rules(sandbox);
        let runtime = Runtime::new(sandbox, conflist).env("CNI_PLUGINS_LOG", "debug");
        let containers = Self { sandbox, runtime };
        for number in 1..=CONTAINERS {
            containers.add(&format!("c{number}"), 8000 + number).1.expect_success();
        }
        containers.life("first", 9000);
        containers
    }

    fn add(&self, name: &str, host_port: u16) -> (Attachment, Chain) {
        let mut attachment = Attachment::new(name, &self.sandbox.container(name))
            .ports(&PortMapping::twins(host_port, 80), Spelling::Go)
            .args(&nomad::args(name, "web", &[]));
        let chain = self.runtime.add(&mut attachment);
        (attachment, chain)
    }

    /// A container's ADD, CHECK and DEL.
    fn life(&self, name: &str, host_port: u16) -> [Chain; 3] {
        let (attachment, add) = self.add(name, host_port);
        add.expect_success();
        let check = self.runtime.check(&attachment);
        check.expect_success();
        let del = self.runtime.del(&attachment.args(""));
        del.expect_success();
        [add, check, del]
    }
}

/// The chains that were read whole, with the number of their rules.
fn listed(chain: &Chain) -> Vec<(String, usize)> {
    let lines = chain.steps().iter().flat_map(|(_, outcome)| outcome.stderr().lines());
    let read = |line: &str| {
        let (name, count) = line.split_once("listed chain ")?.1.strip_suffix(" rules")?.rsplit_once(": ")?;
        Some((name.to_owned(), count.parse().expect("a number")))
    };
    lines.filter_map(read).collect()
}

fn long_ones(chain: &Chain) -> Vec<(String, usize)> {
    listed(chain).into_iter().filter(|(_, rules)| *rules >= LONG).collect()
}

/// The long chains that each of ADD, CHECK and DEL listed.
fn listed_in(life: &[Chain; 3]) -> [Vec<String>; 3] {
    life.each_ref().map(|chain| long_ones(chain).into_iter().map(|(name, _)| name).collect())
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
    let list = Nomad::default();
    let containers = ManyContainers::new(&sandbox, &list, list.conflist());
    assert!(!links().is_empty(), "there are long chains");
    assert_eq!(listed_in(&containers.life("second", 9001)), UNPROVEN);
    let (attachment, add) = containers.add("third", 9002);
    add.expect_success();
    for again in 1..=2 {
        assert_eq!(long_ones(containers.runtime.check(&attachment).expect_success()), [], "CHECK {again}");
    }
    containers.runtime.del(&attachment).expect_success();
    // Gone already, which only a listing can prove.
    containers.runtime.del(&attachment).expect_success();
}

/// Nomad's list with the nftables back end of each plugin.
fn in_nftables(list: &Nomad) -> Value {
    let mut conflist = list.conflist();
    for plugin in conflist["plugins"].as_array_mut().expect("plugins") {
        match plugin["type"].as_str() {
            Some("bridge") => plugin["ipMasqBackend"] = "nftables".into(),
            Some("firewall" | "portmap") => plugin["backend"] = "nftables".into(),
            _ => {}
        }
    }
    conflist
}

#[test]
fn the_rules_of_a_container_in_nftables_are_found_without_a_listing() {
    let sandbox = Sandbox::new();
    let list = Nomad::default();
    let containers = ManyContainers::new(&sandbox, &list, in_nftables(&list));
    let (attachment, add) = containers.add("second", 9001);
    add.expect_success();
    for again in 1..=2 {
        assert_eq!(long_ones(containers.runtime.check(&attachment).expect_success()), [], "CHECK {again}");
    }
    containers.runtime.del(&attachment).expect_success();
}

#[test]
fn what_others_change_costs_nothing() {
    let sandbox = Sandbox::new();
    let list = Nomad::default();
    let containers = ManyContainers::new(&sandbox, &list, list.conflist());
    sandbox.sh("iptables -A CNI-FORWARD -s 192.0.2.1 -j DROP");
    sandbox.sh("iptables -t nat -I POSTROUTING -s 192.0.2.1 -j RETURN");
    assert_eq!(listed_in(&containers.life("second", 9001)), UNPROVEN);
    // What they have added is there still, once.
    let rules = sandbox.sh("iptables -S CNI-FORWARD");
    assert_eq!(rules.lines().filter(|line| line.contains("192.0.2.1")).count(), 1);
}

#[test]
fn lost_and_wrong_links_are_made_again() {
    let sandbox = Sandbox::new();
    let list = Nomad::default();
    let containers = ManyContainers::new(&sandbox, &list, list.conflist());
    for (number, target) in [None, Some("1000000"), Some("none")].into_iter().enumerate() {
        let (attachment, add) = containers.add(&format!("d{number}"), 9001);
        add.expect_success();
        for link in links() {
            fs::remove_file(&link).expect("removed");
            target.into_iter().for_each(|target| symlink(target, &link).expect("written"));
        }
        let read = long_ones(containers.runtime.check(&attachment).expect_success());
        assert!(!read.is_empty(), "CHECK has no handles with {target:?}");
        assert_eq!(
            long_ones(containers.runtime.check(&attachment).expect_success()),
            [],
            "CHECK again with {target:?}"
        );
        containers.runtime.del(&attachment).expect_success();
    }
}

#[test]
fn links_go_with_their_container() {
    let sandbox = Sandbox::new();
    let list = Nomad::default();
    let containers = ManyContainers::new(&sandbox, &list, list.conflist());
    let before = links();
    let (attachment, add) = containers.add("second", 9001);
    add.expect_success();
    assert!(links().len() > before.len(), "ADD remembers the handles of its rules");
    containers.runtime.del(&attachment).expect_success();
    assert_eq!(links(), before);
}
