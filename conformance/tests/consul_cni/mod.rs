//! The consul-cni plugin: which processes it starts, and calls at once. All else is in cases.

use cni_conformance::Verb::{Add, Check, Del};
use cni_conformance::plugin::at_once;
use cni_conformance::{Flavour, Invocation, Sandbox, Verb};
use serde_json::json;

fn args() -> String {
    let consul = json!({
        "ConsulDNSIP": "192.168.1.117", "ConsulDNSPort": 8600, "ProxyUserID": "101", "ProxyInboundPort": 25018,
        "ExcludeInboundPorts": ["9002"],
    });
    cni_conformance::nomad::args("8c0b0b7f", "api", &[("CONSUL_IPTABLES_CONFIG", &consul.to_string())])
}

fn call(sandbox: &Sandbox, verb: Verb) -> Invocation {
    let result = json!({"cniVersion": "0.4.0", "ips": [{"version": "4", "address": "10.87.0.2/24"}], "dns": {}});
    let config = json!({"cniVersion": "0.4.0", "name": "nomad", "type": "consul-cni", "prevResult": result});
    Invocation::new(sandbox, "consul-cni", verb).container_id("c1").netns("/run/netns/c1").args(&args()).config(&config)
}

/// The reference starts `nsenter` and `iptables` for each of 18 rules.
#[test]
fn add_check_and_del_are_one_batch_each() {
    for (flavour, most) in [(Flavour::Nft, [0, 0, 0]), (Flavour::Legacy, [1, 4, 4])] {
        let sandbox = Sandbox::with_flavour(flavour);
        let _container = sandbox.container("c1");
        for (verb, most) in [Add, Check, Del].into_iter().zip(most) {
            let outcome = call(&sandbox, verb).traced(true).run();
            outcome.expect_success();
            let started = outcome.children();
            assert!(started.len() <= most, "{flavour:?} {verb}: {started:?}");
        }
    }
}

#[test]
fn adds_at_once_leave_one_set_of_rules() {
    for flavour in Flavour::ALL {
        let sandbox = Sandbox::with_flavour(flavour);
        let container = sandbox.container("c1");
        let rules = || container.sh("iptables -t nat -S");
        for outcome in at_once(&vec![call(&sandbox, Add); 6]) {
            outcome.expect_success();
        }
        let found = rules();
        call(&sandbox, Add).run().expect_success();
        assert_eq!(rules(), found);
    }
}

#[test]
fn without_iptables_the_error_says_so_and_del_succeeds() {
    let sandbox = Sandbox::new();
    let _container = sandbox.container("c1");
    // Netlink shows that the rules are not there.
    for (verb, code) in [(Add, 104), (Check, 100)] {
        call(&sandbox, verb).env("PATH", "/nowhere").run().expect_error(code, "iptables");
    }
    call(&sandbox, Del).env("PATH", "/nowhere").run().expect_success();
}
