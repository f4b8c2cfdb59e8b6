//! The rules in the packet filter are the reference's, byte for byte.
//!
//! Operators, Nomad's clean-up and the Go plugins find rules by their text, so chains, order,
//! comments and marks are compared as `iptables -S` and `ip6tables -S` print them, on both
//! flavours of iptables. What the reference adds to a table is written down here as golden text.

use std::thread;

use cni_conformance::state::differences;
use cni_conformance::{Flavour, Invocation, Outcome, Sandbox, Verb};
use serde_json::{Value, json};

mod cleanup;
mod firewall;
mod nomad;
mod portmap;
mod shared;

/// The two programs that print rules, IPv4 first.
const PROGRAMS: [&str; 2] = ["iptables", "ip6tables"];

/// Returns what `-S` prints of a table, without the policies of its own chains.
fn rules(sandbox: &Sandbox, program: &str, table: &str) -> Vec<String> {
    let printed = sandbox.sh(&format!("{program} --wait -t {table} -S"));
    printed.lines().filter(|line| !line.starts_with("-P ")).map(str::to_owned).collect()
}

/// Requires that a table holds these rules and no others.
#[track_caller]
fn assert_rules(sandbox: &Sandbox, program: &str, table: &str, golden: &str) {
    let golden: Vec<String> = golden.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
    let changes = differences(&golden, &rules(sandbox, program, table));
    let flavour = sandbox.flavour();
    assert!(changes.is_empty(), "{program} {table} on {flavour:?} is not the reference's:\n{}", changes.join("\n"));
}

/// Requires that a family has no rule and no chain in either table.
#[track_caller]
fn assert_untouched(sandbox: &Sandbox, program: &str) {
    for table in ["nat", "filter"] {
        assert_rules(sandbox, program, table, "");
    }
}

/// A chained plugin that is called alone, behind a bridge plugin that never ran.
///
/// The network is `n1`; the result before it is what `prev_result` says.
struct Lone<'s> {
    sandbox: &'s Sandbox,
    plugin: &'static str,
    id: String,
    config: Value,
}

impl<'s> Lone<'s> {
    fn new(sandbox: &'s Sandbox, plugin: &'static str, id: &str, prev_result: Value, keys: Value) -> Self {
        let mut config = json!({"cniVersion": "1.0.0", "name": "n1", "type": plugin, "prevResult": prev_result});
        for (key, value) in keys.as_object().expect("keys of a configuration") {
            config[key] = value.clone();
        }
        Self { sandbox, plugin, id: id.to_owned(), config }
    }

    fn call(&self, verb: Verb) -> Invocation {
        Invocation::new(self.sandbox, self.plugin, verb)
            .container_id(&self.id)
            .netns(&format!("/run/netns/{}", self.id))
            .config(&self.config)
    }

    #[track_caller]
    fn add(&self) {
        self.call(Verb::Add).run().expect_success();
    }

    #[track_caller]
    fn check(&self) {
        self.call(Verb::Check).run().expect_success();
    }

    #[track_caller]
    fn del(&self) {
        self.call(Verb::Del).run().expect_success();
    }
}

/// Writes the result of a bridge plugin; the container's interface has all the addresses.
fn bridge_result(bridge: &str, addresses: &[&str]) -> Value {
    let ips: Value = addresses.iter().map(|address| json!({"address": address, "interface": 2})).collect();
    let interfaces = json!([{"name": bridge}, {"name": "veth0"}, {"name": "eth0", "sandbox": "/run/netns/ctr1"}]);
    json!({"cniVersion": "1.0.0", "interfaces": interfaces, "ips": ips})
}

/// The addresses of the golden texts.
const V4: &[&str] = &["10.88.0.5/24"];
const DUAL: &[&str] = &["10.88.0.5/24", "fd00:88::5/64"];

/// Starts all calls at the same time and waits for all of them.
fn at_once(calls: &[Invocation]) -> Vec<Outcome> {
    thread::scope(|scope| {
        let running: Vec<_> = calls.iter().map(|call| scope.spawn(|| call.run())).collect();
        running.into_iter().map(|call| call.join().expect("a call in its own thread")).collect()
    })
}

/// Runs a test in a sandbox of each flavour.
fn on_both_flavours(test: impl Fn(&Sandbox)) {
    for flavour in Flavour::ALL {
        test(&Sandbox::with_flavour(flavour));
    }
}
