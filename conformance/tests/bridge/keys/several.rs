//! Several addresses of one family, and several interfaces of one container.

use std::fs;
use std::time::Duration;

use cni_conformance::traffic::{Echo, Transport, ask};
use cni_conformance::{Flavour, Network, Outside, Sandbox, State};
use serde_json::{Value, json};

use crate::bridge::keys::masquerade::all_rules;
use crate::bridge::setup::{Port, V4, V6, ip, network, text};

const OTHER_V4: &str = "10.1.3.0/24";
const OTHER_V6: &str = "fd00:2::/64";

fn keys() -> Value {
    json!({"isGateway": true, "ipMasq": true, "isDefaultGateway": true})
}

fn leases() -> Vec<String> {
    let entries = fs::read_dir("/run/cni/net1").expect("list the leases");
    let names = entries.map(|entry| entry.expect("read the list").file_name().into_string().expect("a name is text"));
    let mut names: Vec<String> = names.filter(|name| name.contains(':') || name.starts_with("10.")).collect();
    names.sort();
    names
}

/// Go: the second gateway of a family is refused, or with `forceAddress` replaces the first; and DEL
/// fails over the chain that both addresses share.
#[test]
fn several_addresses_of_each_family_each_have_their_gateway_and_masquerade() {
    for flavour in Flavour::ALL {
        for force in [false, true] {
            let sandbox = Sandbox::with_flavour(flavour);
            let before = State::of_host(&sandbox);
            let mut config = network(&[V4, OTHER_V4, V6, OTHER_V6], keys());
            config["forceAddress"] = json!(force);
            let port = Port::new(&sandbox, "id1", config);
            let result = port.add();
            let gateways = ["10.1.2.1/24", "10.1.3.1/24", "fd00:1::1/64", "fd00:2::1/64"];
            let mut on_bridge = Network::observe(sandbox.host()).addresses_of("br0");
            on_bridge.sort();
            assert_eq!(on_bridge, gateways);
            let mut own = port.inside().addresses_of("eth0");
            own.sort();
            assert_eq!(own, ["10.1.2.2/24", "10.1.3.2/24", "fd00:1::2/64", "fd00:2::2/64"]);
            for (rules, sources, networks) in [
                (&all_rules(&sandbox)[0], ["10.1.2.2/32", "10.1.3.2/32"], [V4, OTHER_V4]),
                (&all_rules(&sandbox)[1], ["fd00:1::2/128", "fd00:2::2/128"], [V6, OTHER_V6]),
            ] {
                for source in sources {
                    let jumps = rules.iter().filter(|rule| rule.starts_with(&format!("-A POSTROUTING -s {source} ")));
                    assert_eq!(jumps.count(), 1, "{rules:#?}");
                }
                let place = |start: &str| rules.iter().position(|rule| rule.contains(start));
                let masquerade = place("-j MASQUERADE").expect("a rule that masquerades");
                for network in networks {
                    let accept = place(&format!("-d {network} ")).expect("a rule for the own network");
                    assert!(accept < masquerade, "behind it, the rule is never asked: {rules:#?}");
                }
            }
            port.check(&result);
            port.del();
            port.shared().assert_nothing_else(&before, || State::of_host(&sandbox));
            assert_eq!(leases(), [""; 0]);
        }
    }
}

#[test]
fn each_of_several_addresses_has_its_way_out() {
    let sandbox = Sandbox::new();
    let outside = sandbox.outside();
    let port = Port::new(&sandbox, "id1", network(&[V4, OTHER_V4], keys()));
    let neighbour = Port::new(&sandbox, "id2", network(&[V4, OTHER_V4], keys()));
    port.add();
    neighbour.add();
    for gateway in ["10.1.2.1", "10.1.3.1"] {
        assert!(port.reaches(gateway, Duration::from_secs(20)), "{gateway}");
    }
    let _servers = (Echo::everywhere(&outside, 80), Echo::everywhere(&neighbour.container, 80));
    for (server, sources) in [
        (Outside::V4.to_string(), [Outside::HOST_V4.to_string(), Outside::HOST_V4.to_string()]),
        ("10.1.2.3".to_owned(), ["10.1.2.2".to_owned(), "10.1.2.2".to_owned()]),
        ("10.1.3.3".to_owned(), ["10.1.3.2".to_owned(), "10.1.3.2".to_owned()]),
    ] {
        for source in sources {
            let seen = ask(&port.container, Transport::Tcp, (ip(&server), 80).into()).expect("an answer");
            assert_eq!(seen.ip().to_string(), source, "at {server}");
        }
    }
    // From the address that is not the first one, too.
    port.container.sh(&format!("ip route add {} via 10.1.3.1 src 10.1.3.2", Outside::V4));
    let seen = ask(&port.container, Transport::Tcp, (Outside::V4, 80).into()).expect("an answer");
    assert_eq!(seen.ip(), Outside::HOST_V4);
}

/// The chain of the masquerade is named after network and container, so both interfaces share it.
#[test]
fn interfaces_of_one_container_in_one_network_come_and_go_independently() {
    for flavour in Flavour::ALL {
        for first_to_go in [0, 1] {
            let sandbox = Sandbox::with_flavour(flavour);
            let before = State::of_host(&sandbox);
            let config = network(&[V4, V6], keys());
            let eth0 = Port::new(&sandbox, "id1", config);
            let one = eth0.add();
            let mut plain = network(&[V4, V6], json!({"isGateway": true, "ipMasq": true}));
            plain["bridge"] = json!("br0");
            let eth1 = eth0.second("eth1", plain);
            let two = eth1.add();
            assert_eq!(leases(), ["10.1.2.2", "10.1.2.3", "fd00:1::2", "fd00:1::3"]);
            assert_eq!(eth0.inside().addresses_of("eth1"), ["10.1.2.3/24", "fd00:1::3/64"]);
            assert_ne!(one["interfaces"][1]["name"], two["interfaces"][1]["name"]);
            eth0.check(&one);
            eth1.check(&two);
            let mut both = [(&eth0, &one, "10.1.2.2"), (&eth1, &two, "10.1.2.3")];
            both.rotate_left(first_to_go);
            let [(gone, _, lost), (left, result, kept)] = both;
            gone.del();
            let rules = all_rules(&sandbox);
            let jump = |address: &str| {
                rules[0].iter().any(|rule| rule.starts_with(&format!("-A POSTROUTING -s {address}/32 ")))
            };
            assert!(jump(kept) && !jump(lost), "{rules:#?}");
            left.check(result);
            gone.del();
            left.check(result);
            left.del();
            left.shared().assert_nothing_else(&before, || State::of_host(&sandbox));
            assert_eq!(leases(), [""; 0]);
        }
    }
}

#[test]
fn interfaces_of_one_container_in_two_networks_do_not_meet() {
    let sandbox = Sandbox::new();
    let before = State::of_host(&sandbox);
    let eth0 = Port::new(&sandbox, "id1", network(&[V4], keys()));
    let one = eth0.add();
    let mut config = network(&[OTHER_V4], json!({"isGateway": true, "ipMasq": true, "bridge": "br1"}));
    config["name"] = json!("net2");
    let eth1 = eth0.second("eth1", config);
    let two = eth1.add();
    assert_eq!(text(&two["ips"][0]["address"]), "10.1.3.2/24");
    eth0.del();
    eth1.check(&two);
    let again = eth0.add();
    eth0.check(&again);
    assert_eq!((text(&one["ips"][0]["address"]), text(&again["ips"][0]["address"])), ("10.1.2.2/24", "10.1.2.3/24"));
    eth1.del();
    eth0.check(&again);
    eth0.del();
    let after = State::of_host(&sandbox);
    for section in ["iptables nat", "ip6tables nat"] {
        assert_eq!(after.section(section), before.section(section));
    }
    let ports = Network::observe(sandbox.host()).links;
    assert!(ports.iter().all(|link| link.kind.as_deref() != Some("veth")), "{ports:#?}");
}

#[test]
fn an_interface_name_that_is_taken_is_refused_and_the_first_one_is_unchanged() {
    let sandbox = Sandbox::new();
    let port = Port::new(&sandbox, "id1", network(&[V4], keys()));
    let result = port.add();
    let again = port.second("eth0", network(&[OTHER_V4], json!({"bridge": "br0"})));
    again.refused(103, &["\"eth0\"", "already exists"]);
    port.check(&result);
    assert_eq!(leases(), ["10.1.2.2"]);
}
