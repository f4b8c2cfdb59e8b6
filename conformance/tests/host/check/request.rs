//! Requests that CHECK must refuse, in the reference's words, and a machine that has nothing yet.

use std::fs;

use cni_conformance::cases::for_each;
use cni_conformance::state::assert_same;
use cni_conformance::{Flavour, Nomad, Runtime, Sandbox, State, Verb};

use crate::check::check_host::{ALLOC, CHECK_FAILED, CheckHost, name_of, networks};

/// The code of a configuration in which something is missing.
const INVALID_CONFIG: u64 = 7;

#[test]
fn check_without_the_result_of_add_fails() {
    let rows = [
        ("bridge", "Required prevResult missing"),
        ("firewall", "missing prevResult from earlier plugin"),
        ("portmap", "Required prevResult missing"),
    ];
    for ports in [true, false] {
        let machine = CheckHost::new(Nomad::default(), Flavour::Nft, ports);
        for_each(rows.map(|row| (row.0, row)), |(plugin, text)| {
            let before = machine.state();
            let outcome = machine.runtime().invocation(Verb::Check, plugin, &machine.attachment, None).run();
            outcome.expect_error(INVALID_CONFIG, text);
            assert_same(&before, &machine.state());
        });
    }
}

/// As after a reboot, when a container comes back under another path.
#[test]
fn check_with_a_result_of_another_sandbox_fails() {
    let mut machine = CheckHost::dual_stack(Flavour::Nft);
    let other = machine.sandbox.container("other");
    other.sh("ip link set lo up");
    machine.attachment = machine.attachment.netns(other.path());
    machine.fails("bridge", &["doesn't match configured netns: /run/netns/other".to_owned()]);
}

#[test]
fn check_of_a_blank_namespace_fails() {
    let machine = CheckHost::dual_stack(Flavour::Nft);
    machine.lose_container();
    let blank = machine.sandbox.container(ALLOC);
    machine.fails("loopback", &["loopback interface is down".to_owned()]);
    blank.sh("ip link set lo up");
    machine.fails("bridge", &["eth0".to_owned()]);
}

#[test]
fn check_of_a_namespace_that_is_gone_names_its_path() {
    let machine = CheckHost::dual_stack(Flavour::Nft);
    machine.lose_container();
    let before = State::of_host(&machine.sandbox);
    for plugin in ["loopback", "bridge"] {
        let result = machine.attachment.result.as_ref();
        let error = machine.runtime().invocation(Verb::Check, plugin, &machine.attachment, result).run().error();
        let text = format!("{}: {}", error.msg, error.details);
        assert!(text.contains(machine.attachment.netns.as_str()), "{plugin} must name the path: {text}");
    }
    assert_same(&before, &State::of_host(&machine.sandbox));
}

/// Go's firewall makes its chains here, and its host-local its folder.
#[test]
fn check_on_a_machine_that_has_nothing_makes_nothing() {
    for_each(networks().into_iter().map(|network| (name_of(&network), network)), |(nomad, ports)| {
        for flavour in Flavour::ALL {
            check_each_plugin_on_a_bare_machine(&nomad, ports, flavour);
        }
    });
}

fn check_each_plugin_on_a_bare_machine(nomad: &Nomad, ports: bool, flavour: Flavour) {
    let attachment = CheckHost::new(nomad.clone(), Flavour::Nft, ports).attachment.clone();
    let sandbox = Sandbox::with_flavour(flavour);
    let container = sandbox.container(ALLOC);
    let runtime = Runtime::new(&sandbox, nomad.conflist());
    let before = (ruleset(&sandbox), State::capture(&sandbox, &[&container]));
    let outcomes = ["loopback", "bridge", "firewall", "portmap"]
        .map(|plugin| (plugin, runtime.invocation(Verb::Check, plugin, &attachment, attachment.result.as_ref()).run()));
    assert_same(&before.1, &State::capture(&sandbox, &[&container]));
    assert_eq!(before.0, ruleset(&sandbox), "the ruleset changed on {flavour:?}");
    assert!(!fs::exists("/run/cni/nomad").expect("look for a folder"), "CHECK made the folder of leases");
    for (plugin, outcome) in outcomes {
        if plugin == "portmap" && !ports {
            outcome.expect_success();
        } else {
            assert_eq!(outcome.error().code, CHECK_FAILED, "{outcome}");
        }
    }
}

/// With the empty tables that a snapshot leaves out.
fn ruleset(sandbox: &Sandbox) -> String {
    sandbox.sh("nft --stateless list ruleset")
}
