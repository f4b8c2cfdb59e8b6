//! Packets: what the table lets through, what it stops, and what it cannot overrule.
//!
//! Published ports and policies are looked at on all back ends together, in `tests/backends`.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use cni_conformance::cases::for_each;
use cni_conformance::keys::with;
use cni_conformance::traffic::{Echo, Transport, ask, ask_within};
use cni_conformance::{Attachment, Container, Namespace, Outside, Runtime, Sandbox};
use serde_json::{Value, json};

use crate::firewall::nftables::{TABLE, nft};

const SERVICE: u16 = 80;
const SILENCE: Duration = Duration::from_millis(300);

/// A network of its own bridge, in both families, that the outside has a route to.
#[derive(Clone, Copy)]
struct BridgeNetwork {
    bridge: &'static str,
    v4: &'static str,
    v6: &'static str,
}

const FIRST: BridgeNetwork = BridgeNetwork { bridge: "br0", v4: "10.88.0", v6: "fd00:88:" };
const SECOND: BridgeNetwork = BridgeNetwork { bridge: "br1", v4: "10.89.0", v6: "fd00:89:" };

/// A host with an uplink, and an outside that serves.
struct FirewallHost {
    _servers: [Echo; 2],
    outside: Outside,
    sandbox: Sandbox,
}

/// A container that serves.
struct FilteredContainer {
    _servers: [Echo; 2],
    container: Container,
    ips: [IpAddr; 2],
}

impl FirewallHost {
    fn new() -> Self {
        let sandbox = Sandbox::new();
        let outside = sandbox.outside();
        for BridgeNetwork { v4, v6, .. } in [FIRST, SECOND] {
            outside.route_to(&format!("{v4}.0/24"));
            outside.route_to(&format!("{v6}:/64"));
        }
        Self { _servers: Echo::everywhere(&outside, SERVICE), outside, sandbox }
    }

    fn attach(&self, net: BridgeNetwork, name: &str, firewall: &Value) -> FilteredContainer {
        let container = self.sandbox.container(name);
        let mut attachment = Attachment::new(name, &container);
        let chain = Runtime::new(&self.sandbox, net.list(firewall)).add(&mut attachment);
        let result = chain.result();
        let ip = |index: usize| {
            let address = result["ips"][index]["address"].as_str().expect("an address");
            address.split('/').next().and_then(|ip| ip.parse().ok()).expect("an address")
        };
        FilteredContainer { _servers: Echo::everywhere(&container, SERVICE), ips: [ip(0), ip(1)], container }
    }

    fn outside_ips() -> [IpAddr; 2] {
        [Outside::V4.into(), Outside::V6.into()]
    }

    /// Requires that the container reaches the outside, or does not.
    #[track_caller]
    fn gets_out(&self, attached: &FilteredContainer, reached: bool) {
        Self::outside_ips().into_iter().for_each(|ip| judge(&attached.container, ip, reached));
    }

    /// Requires that the outside reaches the container, or does not.
    #[track_caller]
    fn gets_in(&self, attached: &FilteredContainer, reached: bool) {
        attached.ips.into_iter().for_each(|ip| judge(&self.outside, ip, reached));
    }
}

impl BridgeNetwork {
    fn list(self, firewall: &Value) -> Value {
        let Self { bridge, v4, v6 } = self;
        let plugin = with(&json!({"type": "firewall", "backend": "nftables"}), firewall);
        json!({"cniVersion": "1.1.0", "name": bridge, "plugins": [
            {"type": "loopback"},
            {"type": "bridge", "bridge": bridge, "isGateway": true, "ipam": {
                "type": "host-local", "dataDir": "/run/leases",
                "ranges": [[{"subnet": format!("{v4}.0/24")}], [{"subnet": format!("{v6}:/64")}]],
                "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}],
            }},
            plugin,
        ]})
    }
}

/// Requires that an answer comes by TCP and by UDP, or that none does.
#[track_caller]
fn judge(from: &Namespace, to: IpAddr, reached: bool) {
    for transport in Transport::ALL {
        let server = SocketAddr::new(to, SERVICE);
        if reached {
            ask(from, transport, server)
                .unwrap_or_else(|error| panic!("{} to {transport} {server}: {error}", from.name()));
        } else {
            let answer = ask_within(from, transport, server, SILENCE);
            assert!(answer.is_err(), "{} to {transport} {server} was answered: {answer:?}", from.name());
        }
    }
}

fn meet(from: &FilteredContainer, to: &FilteredContainer, reached: bool) {
    to.ips.into_iter().for_each(|ip| judge(&from.container, ip, reached));
}

#[test]
fn without_other_rules_containers_are_reached_and_reach() {
    let machine = FirewallHost::new();
    let [a, b] = ["a", "b"].map(|name| machine.attach(FIRST, name, &json!({})));
    for on in [false, true] {
        machine.sandbox.set_bridge_filtering(on);
        machine.gets_out(&a, true);
        machine.gets_in(&a, true);
        meet(&a, &b, true);
    }
}

/// The rules of the sets: behind them only a drop is left, so what passes was accepted by them.
#[test]
fn containers_may_send_and_are_answered_where_the_rest_is_dropped() {
    let machine = FirewallHost::new();
    let a = machine.attach(FIRST, "a", &json!({}));
    nft(&machine.sandbox, &format!("add rule {TABLE} forward drop"));
    machine.gets_out(&a, true);
    machine.gets_in(&a, false);
    for (set, ip) in [("containers_v4", a.ips[0]), ("containers_v6", a.ips[1])] {
        nft(&machine.sandbox, &format!("delete element {TABLE} {set} {{ {ip} }}"));
    }
    machine.gets_out(&a, false);
}

/// Rules of the administrator come before the containers', for packets of new connections and of old ones.
#[test]
fn the_admin_chain_decides_first() {
    for name in ["CNI-ADMIN", "NOMAD-ADMIN"] {
        let machine = FirewallHost::new();
        let keys = json!({"iptablesAdminChainName": name});
        let [a, b] = ["a", "b"].map(|container| machine.attach(FIRST, container, &keys));
        let rule = |words: String| nft(&machine.sandbox, &format!("add rule {TABLE} {name} {words}"));
        for (family, ip) in [("ip", a.ips[0]), ("ip6", a.ips[1])] {
            rule(format!("{family} daddr {ip} ct state new drop"));
        }
        machine.gets_in(&a, false);
        machine.gets_out(&a, true);
        machine.gets_in(&b, true);
        for (family, ip) in [("ip", a.ips[0]), ("ip6", a.ips[1])] {
            rule(format!("{family} daddr {ip} drop"));
        }
        machine.gets_out(&a, false);
        machine.gets_out(&b, true);
        rule("ip daddr @containers_v4 drop".to_owned());
        rule("ip6 saddr @containers_v6 drop".to_owned());
        machine.gets_in(&b, false);
        machine.gets_out(&b, false);
        // Another container does not bring back what the administrator has forbidden.
        let c = machine.attach(FIRST, "c", &keys);
        machine.gets_in(&c, false);
        nft(&machine.sandbox, &format!("flush chain {TABLE} {name}"));
        for attached in [&a, &b, &c] {
            machine.gets_in(attached, true);
            machine.gets_out(attached, true);
        }
    }
}

/// Every table is asked: a verdict to accept ends one base chain and not the hook. With iptables the containers' rules
/// stand in the table that drops, before its policy.
#[test]
fn what_this_table_accepts_another_may_still_drop() {
    let rows: [(&str, &[&[&str]]); 2] = [
        ("policy of FORWARD", &[&["iptables", "-P", "FORWARD", "DROP"], &["ip6tables", "-P", "FORWARD", "DROP"]]),
        (
            "table of nf_tables",
            &[&[
                "nft",
                "add table inet other; add chain inet other f { type filter hook forward priority 10; policy drop; }",
            ]],
        ),
    ];
    for_each(rows, |commands| {
        let machine = FirewallHost::new();
        let a = machine.attach(FIRST, "a", &json!({}));
        machine.gets_out(&a, true);
        for command in commands {
            machine.sandbox.exec(command).expect_success();
        }
        machine.gets_out(&a, false);
        machine.gets_in(&a, false);
    });
    let machine = FirewallHost::new();
    for program in ["iptables", "ip6tables"] {
        machine.sandbox.sh(&format!("{program} -P FORWARD DROP"));
    }
    let a = machine.attach(FIRST, "a", &json!({"backend": "iptables"}));
    machine.gets_out(&a, true);
}

/// The administrator cannot be asked before the isolation: as with iptables, that stands first.
#[test]
fn an_accept_of_the_administrator_does_not_end_the_isolation() {
    let machine = FirewallHost::new();
    let keys = json!({"ingressPolicy": "same-bridge"});
    let a = machine.attach(FIRST, "a", &keys);
    let other = machine.attach(SECOND, "other", &keys);
    nft(&machine.sandbox, &format!("add rule {TABLE} CNI-ADMIN accept"));
    meet(&a, &other, false);
    machine.gets_out(&a, true);
}
