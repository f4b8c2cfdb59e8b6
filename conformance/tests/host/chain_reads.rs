//! The cost of a container does not grow with the number of others: no plugin lists a chain with the rules of all
//! containers, unless another program has changed rules since.
//!
//! The debug log names each chain that is listed, and its number of rules.

use std::fs;
use std::path::PathBuf;

use cni_conformance::{Attachment, Chain, Nomad, PortMapping, Runtime, Sandbox, Spelling, nomad};
use serde_json::Value;

/// A chain is long from so many rules on.
const LONG: usize = 33;

/// So many containers that every chain with rules of all is long.
const CONTAINERS: u16 = 40;

/// A host with containers, of which one has come and gone since.
struct Crowd<'s> {
    sandbox: &'s Sandbox,
    runtime: Runtime<'s>,
}

impl<'s> Crowd<'s> {
    fn new(sandbox: &'s Sandbox, list: &Nomad, conflist: Value) -> Self {
        list.ensure_forwarding_rules(sandbox);
        let runtime = Runtime::new(sandbox, conflist).env("CNI_PLUGINS_LOG", "debug");
        let crowd = Self { sandbox, runtime };
        for number in 1..=CONTAINERS {
            crowd.add(&format!("c{number}"), 8000 + number).1.expect_success();
        }
        crowd.life("first", 9000);
        crowd
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

#[track_caller]
fn assert_none_listed(what: &str, chains: &[Chain; 3]) {
    for (verb, chain) in ["ADD", "CHECK", "DEL"].into_iter().zip(chains) {
        assert_eq!(long_ones(chain), [], "{what}: {verb}");
    }
}

/// The files of the cache.
fn cache() -> Vec<PathBuf> {
    let below = |path: PathBuf| fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    below("/run/cni/.cni-plugins-rs/chains".into()).flat_map(below).collect()
}

#[test]
fn no_long_chain_is_read_whole() {
    let sandbox = Sandbox::new();
    let list = Nomad::default();
    let crowd = Crowd::new(&sandbox, &list, list.conflist());
    assert!(!cache().is_empty(), "there are long chains");
    assert_none_listed("the second container", &crowd.life("second", 9001));
    let (attachment, add) = crowd.add("third", 9002);
    add.expect_success();
    for again in 1..=2 {
        assert_eq!(long_ones(crowd.runtime.check(&attachment).expect_success()), [], "CHECK {again}");
    }
    assert_eq!(long_ones(crowd.runtime.del(&attachment).expect_success()), [], "DEL");
    // Gone already, which only absence can prove.
    crowd.runtime.del(&attachment).expect_success();
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
fn no_long_chain_of_nftables_is_read_whole() {
    let sandbox = Sandbox::new();
    let list = Nomad::default();
    let crowd = Crowd::new(&sandbox, &list, in_nftables(&list));
    assert_none_listed("the second container", &crowd.life("second", 9001));
}

#[test]
fn what_others_change_is_read_once() {
    let sandbox = Sandbox::new();
    let list = Nomad::default();
    let crowd = Crowd::new(&sandbox, &list, list.conflist());
    sandbox.sh("iptables -A CNI-FORWARD -s 192.0.2.1 -j DROP");
    let read: Vec<_> = crowd.life("second", 9001).iter().flat_map(long_ones).collect();
    let mut names: Vec<_> = read.iter().map(|(name, _)| name.clone()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!((names.len(), names.is_empty()), (read.len(), false), "each once: {read:?}");
    assert_none_listed("the third container", &crowd.life("third", 9002));
    // What they have added is there still, once.
    let rules = sandbox.sh("iptables -S CNI-FORWARD");
    assert_eq!(rules.lines().filter(|line| line.contains("192.0.2.1")).count(), 1);
}

#[test]
fn a_lost_or_torn_cache_is_made_again() {
    let sandbox = Sandbox::new();
    let list = Nomad::default();
    let crowd = Crowd::new(&sandbox, &list, list.conflist());
    for (port, damage) in [(9001, None), (9003, Some(0)), (9005, Some(100))] {
        for file in cache() {
            match damage {
                None => fs::remove_file(&file).expect("removed"),
                Some(length) => {
                    let content = fs::read(&file).expect("read");
                    fs::write(&file, &content[..content.len().min(length)]).expect("written");
                }
            }
        }
        crowd.life(&format!("c{port}"), port);
        assert_none_listed(&format!("after {damage:?}"), &crowd.life(&format!("d{port}"), port + 1));
    }
}

#[test]
fn the_cache_goes_with_the_containers() {
    let sandbox = Sandbox::new();
    let list = Nomad::version("1.1.0");
    let crowd = Crowd::new(&sandbox, &list, list.conflist());
    assert!(!cache().is_empty(), "there are long chains");
    crowd.runtime.gc(&[]).expect_success();
    crowd.life("last", 9001);
    assert_eq!(cache(), [] as [PathBuf; 0]);
}
