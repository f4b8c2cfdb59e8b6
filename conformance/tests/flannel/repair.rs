//! `cni-plugins repair` restores the rules behind flannel: the masquerade of its delegate, and the ports of a plugin after it. The
//! real `cnitool` adds the containers, so the cache is the one that libcni writes.

use std::fs;
use std::net::{IpAddr, SocketAddr};

use cni_conformance::cases::for_each;
use cni_conformance::state::assert_same;
use cni_conformance::traffic::{Echo, Transport, ask};
use cni_conformance::{CniTool, Container, Invocation, Outcome, Outside, Sandbox, State, Verb};
use serde_json::{Value, json};

use crate::flannel::setup::{DATA, DUAL, flannel, remove_lease, write_lease};

/// What somebody does to the packet filter.
const EVERYTHING: &str = "nft flush ruleset";

/// A host on which flanneld leaves the masquerade to the plugin.
fn host() -> Sandbox {
    let sandbox = Sandbox::new();
    write_lease(&DUAL.replace("FLANNEL_IPMASQ=true", "FLANNEL_IPMASQ=false"));
    sandbox
}

/// A tool that publishes a port of each container.
fn tool(sandbox: &Sandbox, port: u16) -> CniTool<'_> {
    let plugins = json!([flannel(), {"type": "portmap", "capabilities": {"portMappings": true}}]);
    let list = json!({"cniVersion": "1.0.0", "name": "net1", "plugins": plugins});
    let ports = json!([{"hostPort": port, "containerPort": 80, "protocol": "tcp"}]);
    CniTool::new(sandbox, &list).capabilities(json!({"portMappings": ports}))
}

fn repair(sandbox: &Sandbox, words: &[&str]) -> Outcome {
    let said = Invocation::new(sandbox, "cni-plugins", Verb::Add).arguments(&[&["repair"], words].concat()).run();
    said.expect_success();
    said
}

fn state(sandbox: &Sandbox, containers: &[&Container]) -> State {
    let containers: Vec<_> = containers.iter().map(|container| &***container).collect();
    State::capture(sandbox, &containers)
}

/// The only state file.
fn state_file() -> std::path::PathBuf {
    let mut entries = fs::read_dir(DATA).expect("state files");
    entries.next().expect("one").expect("an entry").path()
}

/// The check of flannel is that of its delegate, whose rules have a finding of their own.
#[test]
fn doctor_names_each_lost_rule_once() {
    let sandbox = host();
    let (container, tool) = (sandbox.container("first"), tool(&sandbox, 8080));
    tool.add(&container).expect_success();
    let doctor = |words: &[&str]| {
        Invocation::new(&sandbox, "cni-plugins", Verb::Add).arguments(&[&["doctor", "first"], words].concat()).run()
    };
    doctor(&[]).expect_success();
    sandbox.sh(EVERYTHING);
    let said = doctor(&["--json"]);
    let about: Value = serde_json::from_str(said.stdout()).unwrap_or_else(|error| panic!("{error}: {said}"));
    let found = about["findings"].as_array().expect("findings");
    assert!(found.iter().all(|one| one["topic"] == "rules"), "{found:#?}");
    for plugin in ["bridge", "portmap"] {
        let start = format!("eth0 in network net1: a rule of {plugin} is missing: ");
        let of_plugin = found.iter().filter(|one| one["says"].as_str().expect("a text").starts_with(&start));
        assert_ne!(of_plugin.count(), 0, "{plugin}: {found:#?}");
    }
    repair(&sandbox, &[]);
    doctor(&[]).expect_success();
    tool.del(&container).expect_success();
}

#[test]
fn the_rules_of_the_delegate_and_of_later_plugins_come_back() {
    let sandbox = host();
    let outside = sandbox.outside();
    let guests = [("first", 8080), ("second", 8081)].map(|(name, port)| {
        let (container, tool) = (sandbox.container(name), tool(&sandbox, port));
        tool.add(&container).expect_success();
        let server = Echo::start(&container, Transport::Tcp, ([0, 0, 0, 0], 80).into());
        (container, tool, port, server)
    });
    let containers = guests.each_ref().map(|guest| &guest.0);
    let before = state(&sandbox, &containers);
    sandbox.sh(EVERYTHING);
    assert!(
        guests.iter().all(|(container, tool, ..)| !tool.check(container).succeeded()),
        "CHECK finds nothing missing"
    );

    let said = repair(&sandbox, &[]);
    let repaired = |line: &str| line.contains(" eth0: repaired: bridge: ") && line.contains("portmap: ");
    assert!(said.stdout().lines().count() == 2 && said.stdout().lines().all(repaired), "{said}");
    assert_same(&before, &state(&sandbox, &containers));
    for (container, tool, port, _) in &guests {
        tool.check(container).expect_success();
        let address = SocketAddr::new(IpAddr::V4(Outside::HOST_V4), *port);
        ask(&outside, Transport::Tcp, address).unwrap_or_else(|error| panic!("{address}: {error}"));
    }
    let said = repair(&sandbox, &[]);
    assert!(said.stdout().lines().all(|line| line.ends_with(": nothing missing")), "{said}");
    for (container, tool, ..) in &guests {
        tool.del(container).expect_success();
    }
}

/// What the delegate was called with is composed again. Without state file and lease nobody knows who masquerades.
#[test]
fn a_lost_or_torn_state_file_does_not_matter_while_there_is_a_lease() {
    for_each([("lost", None), ("torn", Some("{\"cniVersion\":"))], |torn| {
        let sandbox = host();
        let (container, tool) = (sandbox.container("first"), tool(&sandbox, 8080));
        tool.add(&container).expect_success();
        let file = state_file();
        match torn {
            Some(text) => fs::write(&file, text).expect("write a torn file"),
            None => fs::remove_file(&file).expect("remove the state file"),
        }
        let before = state(&sandbox, &[&container]);
        sandbox.sh(EVERYTHING);
        let said = repair(&sandbox, &[]);
        assert!(said.stdout().contains(" eth0: repaired: bridge: "), "{said}");
        assert_same(&before, &state(&sandbox, &[&container]));
        remove_lease();
        sandbox.sh(EVERYTHING);
        let said = repair(&sandbox, &[]);
        assert!(said.stdout().contains(" eth0: repaired: portmap: ") && !said.stdout().contains("bridge"), "{said}");
        tool.del(&container).expect_success();
    });
}

/// Where flanneld masquerades, the plugin has no such rule, and a flush takes nothing of it.
#[test]
fn a_lease_that_changes_after_add_changes_nothing() {
    let sandbox = Sandbox::new();
    write_lease(DUAL);
    let (container, tool) = (sandbox.container("first"), tool(&sandbox, 8080));
    tool.add(&container).expect_success();
    write_lease(&DUAL.replace("FLANNEL_IPMASQ=true", "FLANNEL_IPMASQ=false"));
    let before = state(&sandbox, &[&container]);
    sandbox.sh(EVERYTHING);
    let said = repair(&sandbox, &[]);
    assert!(said.stdout().contains(" eth0: repaired: portmap: ") && !said.stdout().contains("bridge"), "{said}");
    assert_same(&before, &state(&sandbox, &[&container]));
    tool.del(&container).expect_success();
}
