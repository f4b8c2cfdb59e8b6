//! Every system call of the plugin fails once: no lease is left, and the next ADD succeeds.

use cni_conformance::cases::for_each;
use cni_conformance::injection::calls_of;
use cni_conformance::{Container, Invocation, Verb};
use serde_json::{Value, json};

use crate::dhcp::setup::{Lan, Server, list, until};

/// The plugin itself, for an interface that another one has made.
fn call(lan: &Lan, verb: Verb, container: &Container) -> Invocation {
    let config = json!({"cniVersion": "1.0.0", "name": "lan", "type": "macvlan", "ipam": {"type": "dhcp"}});
    Invocation::new(&lan.sandbox, "dhcp", verb).container_id("c1").netns(container.path()).config(&config)
}

fn checked(lan: &Lan, container: &Container, result: &Value) {
    let config = json!({
        "cniVersion": "1.0.0", "name": "lan", "type": "macvlan", "ipam": {"type": "dhcp"}, "prevResult": result,
    });
    call(lan, Verb::Check, container).config(&config).run().expect_success();
}

#[test]
fn an_add_is_rolled_back_whichever_call_fails() {
    let lan = Lan::new(Server::Dnsmasq(&[]), list(&json!({})));
    let container = lan.sandbox.container("c1");
    lan.sandbox.sh("ip link add link up0 name eth0 netns c1 type macvlan mode bridge");
    let add = call(&lan, Verb::Add, &container);
    let del = || assert!(call(&lan, Verb::Del, &container).run().succeeded());
    let calls = calls_of(&add);
    del();
    assert!(calls.len() > 10, "{}", calls.len());
    for_each(calls.into_iter().map(|call| (call.label(), call)), |system_call| {
        let injected = system_call.fail_in(&add);
        if injected.outcome.succeeded() {
            checked(&lan, &container, &injected.outcome.result());
            del();
            return;
        }
        injected.expect_error();
        until(|| lan.records().is_empty(), || "the lease to go".to_owned());
        checked(&lan, &container, &add.run().result());
        del();
    });
}
