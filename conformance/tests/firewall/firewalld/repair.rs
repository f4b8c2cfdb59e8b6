//! `cni-plugins repair` restores the sources that firewalld forgets when it is reloaded or started.

use cni_conformance::{CniTool, Container, Invocation, Outcome, Verb};
use serde_json::{Value, json};

use crate::firewall::firewalld::FirewalldHost;

/// The sources that three containers have.
const THREE: [&str; 3] = ["10.88.0.2/32", "10.88.0.3/32", "10.88.0.4/32"];

fn list(firewall: &Value) -> Value {
    let ipam = json!({"type": "host-local", "ranges": [[{"subnet": "10.88.0.0/24"}]]});
    let bridge = json!({"type": "bridge", "bridge": "br0", "isGateway": true, "ipMasq": true, "ipam": ipam});
    json!({"cniVersion": "1.0.0", "name": "n1", "plugins": [bridge, firewall]})
}

fn tool<'m>(machine: &'m FirewalldHost, list: &Value) -> CniTool<'m> {
    let (name, value) = machine.bus_variable();
    CniTool::new(machine.sandbox(), list).env(name, value)
}

fn add_three(machine: &FirewalldHost, tool: &CniTool<'_>) -> [Container; 3] {
    ["one", "two", "three"].map(|name| {
        let container = machine.sandbox().container(name);
        tool.add(&container).expect_success();
        container
    })
}

fn repair(machine: &FirewalldHost) -> Outcome {
    let call = Invocation::new(machine.sandbox(), "cni-plugins", Verb::Add).arguments(&["repair"]);
    machine.with_bus(call).run()
}

fn said(outcome: &Outcome, text: &str) -> usize {
    outcome.stdout().lines().filter(|line| line.contains(text)).count()
}

/// It flushes the tables of iptables as well. Containers of the Go plugins stay without connection until they are created again.
#[test]
fn after_a_reload_the_sources_come_back() {
    let machine = FirewalldHost::with_firewalld();
    let tool = tool(&machine, &list(&json!({"type": "firewall"})));
    let containers = add_three(&machine, &tool);
    assert_eq!(machine.sources("trusted"), THREE);

    machine.reload_firewalld();
    assert_eq!(machine.sources("trusted"), [""; 0]);
    assert_eq!(tool.check(&containers[0]).code(), Some(1));
    let repaired = repair(&machine);
    repaired.expect_success();
    assert_eq!(said(&repaired, "firewall: firewalld source 10.88.0."), 3, "{repaired}");
    assert_eq!(machine.sources("trusted"), THREE);
    for container in &containers {
        tool.check(container).expect_success();
    }

    let again = repair(&machine);
    again.expect_success();
    assert_eq!(said(&again, ": nothing missing"), 3, "{again}");
    assert_eq!(machine.sources("trusted"), THREE);
}

#[test]
fn a_firewalld_that_was_started_again_gets_the_sources_and_the_policy() {
    let mut machine = FirewalldHost::with_firewalld();
    let list = list(&json!({"type": "firewall", "firewalldZone": "work", "ingressPolicy": "isolated"}));
    let containers = add_three(&machine, &tool(&machine, &list));
    machine.stop_firewalld();

    // Who keeps the rules has not changed: CHECK looks there.
    let failed = repair(&machine);
    assert_eq!((failed.code(), said(&failed, ": failed: ")), (Some(1), 3), "{failed}");

    machine.start_firewalld();
    machine.sandbox().sh("iptables -F");
    machine.sandbox().sh("iptables -X");
    let tool = tool(&machine, &list);
    assert_eq!(tool.check(&containers[2]).code(), Some(1));
    let repaired = repair(&machine);
    repaired.expect_success();
    assert_eq!(said(&repaired, ": repaired: "), 3, "{repaired}");
    assert_eq!(machine.sources("work"), THREE);
    for container in &containers {
        tool.check(container).expect_success();
    }
}
