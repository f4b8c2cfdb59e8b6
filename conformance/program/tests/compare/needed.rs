//! What is accepted does differ: the least history of each situation, lived through as it is.

use cni_conformance::keys::with;
use cni_conformance::reference::{self, Level};
use cni_conformance::{binaries, cases};
use serde_json::{Value, json};

use crate::compare::program::compare;

/// Plugins, the ports of the first container, and what happens.
struct Situation {
    iptables: &'static str,
    plugins: Value,
    ports: Value,
    steps: &'static [&'static str],
}

fn situation(plugins: Value, steps: &'static [&'static str]) -> Situation {
    Situation { iptables: "nft", plugins, ports: json!([]), steps }
}

impl Situation {
    fn ports(self, ports: Value) -> Self {
        Self { ports, ..self }
    }

    fn history(&self) -> String {
        let member =
            |id: &str, ports: &Value| json!({"network": "n0", "id": id, "ifname": "eth0", "args": "", "ports": ports});
        let history = json!({
            "iptables": self.iptables,
            "networks": {"n0": {"cniVersion": "0.4.0", "name": "n0", "plugins": self.plugins}},
            "containers": {"c0": member("c0", &self.ports), "c1": member("c1", &json!([]))},
            "steps": self.steps,
        });
        history.to_string()
    }
}

/// The bridge plugin as a gateway, with these subnets and keys.
fn bridge(subnets: &[&str], keys: Value) -> Value {
    let ranges: Value = subnets.iter().map(|subnet| json!([{"subnet": subnet}])).collect();
    let ipam = json!({"type": "host-local", "ranges": ranges, "dataDir": "/run/cni"});
    with(&json!({"type": "bridge", "bridge": "br0", "isGateway": true, "ipam": ipam}), &keys)
}

fn portmap() -> Value {
    json!({"type": "portmap", "capabilities": {"portMappings": true}})
}

fn port(host: u16, ip: &str) -> Value {
    json!({"hostPort": host, "containerPort": 80, "protocol": "tcp", "hostIP": ip})
}

const V4: &str = "10.1.2.0/24";
const V6: &str = "fd00:1::/64";

fn situations() -> Vec<(&'static str, Situation)> {
    let masquerade = || json!([bridge(&[V4], json!({"ipMasq": true}))]);
    let mut default = bridge(&[V4], json!({"isDefaultGateway": true}));
    default["ipam"]["routes"] = json!([{"dst": "0.0.0.0/0"}]);
    let legacy = Situation {
        iptables: "legacy",
        ..situation(json!([bridge(&[V6], json!({})), portmap()]), &["ADD c0"])
            .ports(json!([port(8080, ""), with(&port(8081, ""), &json!({"containerPort": 81}))]))
    };
    vec![
        (
            "the reference cannot give an interface two addresses of one family",
            situation(json!([bridge(&[V4, "10.1.3.0/24"], json!({}))]), &["ADD c0"]),
        ),
        (
            "the reference's ADD fails on a default route beside `isDefaultGateway`",
            situation(json!([default]), &["ADD c0"]),
        ),
        (
            "the reference makes a chain without rules for ports on host addresses of the other family",
            situation(json!([bridge(&[V4, V6], json!({})), portmap()]), &["ADD c0"])
                .ports(json!([port(8080, "2001:db8::1")])),
        ),
        (
            "the reference leaves out all but the first IPv6 port with the legacy ip6tables, which takes one rule for another",
            legacy,
        ),
        (
            "the reference's ADD of a container whose namespace was lost fails; here it gets its address back",
            situation(json!([bridge(&[V4], json!({}))]), &["ADD c0", "lose the namespace of c0", "ADD c0"]),
        ),
        (
            "the reference's DEL leaves the masquerade of a container whose namespace was lost",
            situation(masquerade(), &["ADD c0", "lose the namespace of c0", "DEL c0"]),
        ),
        (
            "the reference's DEL leaves tuning's file of a container whose namespace was lost",
            situation(
                json!([bridge(&[V4], json!({})), {"type": "tuning", "mtu": 1300}]),
                &["ADD c0", "lose the namespace of c0", "DEL c0"],
            ),
        ),
        (
            "the reference's DEL leaves firewall's rules when the result was forgotten",
            situation(
                json!([bridge(&[V4], json!({})), {"type": "firewall", "backend": "iptables"}]),
                &["ADD c0", "forget the result of c0", "DEL c0"],
            ),
        ),
        (
            "the reference's CHECK passes although rules are missing, or makes them",
            situation(masquerade(), &["ADD c0", "run iptables -t nat -F", "CHECK c0"]),
        ),
        (
            "the reference's DEL fails, and leaves the rest, where the masquerade was flushed",
            situation(masquerade(), &["ADD c0", "run nft flush ruleset", "ADD c1", "DEL c0"]),
        ),
        // A bridge takes the lowest of its ports' addresses, which are random: either the second port changes it, or its last one.
        (
            "the reference's CHECK fails where a bridge without gateway has taken the MAC address of another port",
            situation(
                json!([bridge(&[V4], json!({"isGateway": false}))]),
                &["ADD c0", "ADD c1", "CHECK c0", "DEL c0", "CHECK c1"],
            ),
        ),
        (
            "v1.1.1's CHECK fails on a network without addresses, on routes without a router, and on ports",
            situation(json!([{"type": "bridge"}]), &["ADD c0", "CHECK c0"]),
        ),
    ]
}

#[test]
fn each_situation_that_is_left_out_shows_a_difference() {
    let Some(reference) = reference::find("the least history of each accepted situation") else { return };
    // The tables are about v1.1.1 and later releases; only v1.1.1 is installed to show all of it.
    if reference.level > Level::Old {
        return reference::say("NOT COMPARED: accepted situations: they are shown with v1.1.1");
    }
    let (known, shown): (Vec<_>, Vec<_>) =
        (cni_conformance_program::histories::situations::reasons().collect(), situations());
    assert_eq!(shown.iter().map(|(reason, _)| *reason).collect::<Vec<_>>(), known);
    cases::for_each(shown, |situation| {
        compare(&binaries::under_test(), &reference.folder, &["--history", &situation.history(), "--trials", "0"])
            .ends_with(1, "<- here the two differ");
    });
}

#[test]
fn the_page_names_every_reason() {
    let page = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../README.md"));
    for reason in cni_conformance_program::histories::situations::reasons() {
        assert!(page.lines().any(|line| line.ends_with(&format!(" | {reason} |"))), "{reason}");
    }
}

/// Ignored lines are shown when everything counts.
#[test]
fn each_line_that_is_passed_over_shows_a_difference() {
    let Some(reference) = reference::find("accepted lines of histories") else { return };
    let pair = json!([with(&bridge(&[V6], json!({})), &json!({"type": "ptp"}))]);
    let lines = [
        (
            "no folder where no address was given",
            situation(json!([bridge(&[V4], json!({}))]), &["DEL c0"]),
            "- files: /run/cni/n0 40755",
        ),
        ("IPv6 at once", situation(pair, &["ADD c0"]), "c0 settings: net/ipv6/conf/eth0/accept_dad = "),
    ];
    cases::for_each(lines.map(|(name, situation, line)| (name, (situation, line))), |(situation, line)| {
        let history = situation.history();
        compare(&binaries::under_test(), &reference.folder, &["--history", &history, "--strict"]).ends_with(1, line);
        compare(&binaries::under_test(), &reference.folder, &["--history", &history]).ends_with(0, "no difference in");
    });
}
