//! The CNI project's own `cnitool` runs Nomad's lists.
//!
//! It is linked with libcni, so these tests hold the plugins against the runtime library that
//! Nomad and all others use, with its own cache of results, rather than against this crate's.

use std::fs;
use std::path::Path;

use cni_conformance::ports::render;
use cni_conformance::state::{assert_same, diff};
use cni_conformance::{CniTool, Container, Hairpin, Network, Nomad, Outcome, PortMapping, Sandbox, Spelling, State};
use serde_json::{Value, json};

/// Starts the tool with one of Nomad's ports, spelled as cnitool's users spell it.
fn tool<'s>(sandbox: &'s Sandbox, nomad: &Nomad) -> CniTool<'s> {
    nomad.ensure_forwarding_rules(sandbox);
    CniTool::new(sandbox, &nomad.conflist()).capabilities(ports(8080))
}

fn ports(host_port: u16) -> Value {
    json!({"portMappings": render(&PortMapping::twins(host_port, 80), Spelling::Spec)})
}

/// Attaches one container, so that later ones find what all share.
fn first_container(sandbox: &Sandbox, nomad: &Nomad) -> Container {
    let container = sandbox.container("first");
    CniTool::new(sandbox, &nomad.conflist()).capabilities(ports(9090)).add(&container).expect_success();
    container
}

#[track_caller]
fn assert_silent(outcome: &Outcome) {
    outcome.expect_success();
    assert_eq!(outcome.stdout(), "", "{outcome}");
    assert_eq!(outcome.stderr(), "", "{outcome}");
}

fn addresses(result: &Value) -> Vec<&str> {
    let ips = result["ips"].as_array().expect("a list of addresses");
    ips.iter().map(|ip| ip["address"].as_str().expect("an address")).collect()
}

/// The last reserved address stays on disk, so that the next container gets the one after it.
fn without_cursor(changes: Vec<String>) -> Vec<String> {
    changes.into_iter().filter(|line| !line.contains("/last_reserved_ip.")).collect()
}

/// ADD, CHECK and DEL of one container beside another.
fn live(nomad: &Nomad, expected: &[&str]) {
    let sandbox = Sandbox::new();
    let tool = tool(&sandbox, nomad);
    let _first = first_container(&sandbox, nomad);
    let container = sandbox.container("second");
    let before = State::of_host(&sandbox);

    let result = tool.add(&container).result();
    assert_eq!(result["cniVersion"], json!(nomad.cni_version));
    assert_eq!(addresses(&result), expected, "{result:#}");
    assert_eq!(Network::observe(&container).addresses_of("eth0"), expected);
    let rules = State::of_host(&sandbox);
    let dnat = rules.section("iptables nat").iter().filter(|rule| rule.contains("--dport 8080 -j DNAT"));
    assert_eq!(dnat.count(), 2, "one rule for tcp, one for udp: {:#?}", rules.section("iptables nat"));

    // Go v1.1.1 looks for IPv6 rules of an IPv4 container and fails a healthy one here.
    assert_silent(&tool.check(&container));
    assert_silent(&tool.del(&container));
    let left = without_cursor(diff(&before, &State::of_host(&sandbox)));
    assert!(left.is_empty(), "left behind:\n{}", left.join("\n"));
    assert_silent(&tool.del(&container));
}

#[test]
fn a_list_of_0_4_0_is_added_checked_and_deleted() {
    live(&Nomad::default(), &["172.26.64.3/20"]);
}

#[test]
fn a_list_of_1_0_0_is_added_checked_and_deleted() {
    live(&Nomad::version("1.0.0").hairpin(Hairpin::On), &["172.26.64.3/20"]);
}

#[test]
fn a_list_of_1_1_0_is_added_checked_and_deleted() {
    live(&Nomad::version("1.1.0"), &["172.26.64.3/20"]);
}

#[test]
fn lists_with_both_families_are_added_checked_and_deleted() {
    for version in ["0.4.0", "1.0.0", "1.1.0"] {
        live(&Nomad::version(version).dual_stack(), &["172.26.64.3/20", "fd00:a110:c8::3/120"]);
    }
}

#[test]
fn add_fails_with_the_plugins_own_message() {
    let sandbox = Sandbox::new();
    let mut list = Nomad::default().conflist();
    list["plugins"][1]["ipam"]["ranges"] = json!([[{"subnet": "172.26.64.1/20"}]]);
    let outcome = CniTool::new(&sandbox, &list).add(&sandbox.container("refused"));
    assert_eq!(outcome.code(), Some(1), "{outcome}");
    let text = format!("{}{}", outcome.stdout(), outcome.stderr());
    assert!(text.contains("bridge") && text.contains("172.26.64."), "{outcome}");
}

#[test]
fn check_fails_when_the_containers_interface_is_gone() {
    let sandbox = Sandbox::new();
    let tool = tool(&sandbox, &Nomad::default());
    let container = sandbox.container("broken");
    tool.add(&container).expect_success();
    container.sh("ip link delete eth0");
    let outcome = tool.check(&container);
    assert_eq!(outcome.code(), Some(1), "{outcome}");
    let text = format!("{}{}", outcome.stdout(), outcome.stderr());
    assert!(text.contains("eth0"), "{outcome}");
}

#[test]
fn status_of_a_list_of_1_1_0_succeeds() {
    let sandbox = Sandbox::new();
    assert_silent(&tool(&sandbox, &Nomad::version("1.1.0").dual_stack()).status());
}

/// The tool deletes all that its cache holds, and then calls GC of the plugins without a list of valid
/// attachments, so that they have nothing to do.
#[test]
fn gc_of_a_list_of_1_1_0_deletes_what_the_cache_holds() {
    for nomad in [Nomad::version("1.1.0"), Nomad::version("1.1.0").dual_stack()] {
        let sandbox = Sandbox::new();
        let tool = tool(&sandbox, &nomad);
        let first = first_container(&sandbox, &nomad);
        assert_silent(&tool.del(&first));
        let before = State::of_host(&sandbox);
        for name in ["second", "third"] {
            tool.add(&sandbox.container(name)).expect_success();
        }
        assert_eq!(leases(), if nomad == Nomad::version("1.1.0") { 2 } else { 4 });
        assert_silent(&tool.gc());
        assert_eq!(leases(), 0);
        let left = without_cursor(diff(&before, &State::of_host(&sandbox)));
        assert!(left.is_empty(), "left behind:\n{}", left.join("\n"));
    }
}

#[test]
fn gc_without_a_list_changes_nothing_on_an_empty_host() {
    let sandbox = Sandbox::new();
    let tool = tool(&sandbox, &Nomad::version("1.1.0"));
    let before = State::of_host(&sandbox);
    assert_silent(&tool.gc());
    assert_same(&before, &State::of_host(&sandbox));
}

/// Counts the files of the store that are named as addresses.
fn leases() -> usize {
    let names = fs::read_dir(Path::new("/run/cni/nomad")).expect("list the leases");
    let names = names.map(|entry| entry.expect("read the list of leases").file_name());
    names.filter(|name| name.to_str().is_some_and(|name| name.parse::<std::net::IpAddr>().is_ok())).count()
}
