//! The rules are those of the reference's commands, which run in a second namespace.

use cni_conformance::Verb::{Add, Check, Del};
use cni_conformance::cases::for_each;
use cni_conformance::{Container, Flavour};
use serde_json::{Value, json};

use crate::consul_cni::setup::{Mesh, nomads, rules};

/// The commands that the reference runs, one after the other, for an argument of plain values.
fn commands(argument: &Value) -> Vec<String> {
    let entries = |key: &str| argument[key].as_array().cloned().unwrap_or_default();
    let texts =
        |key: &str| entries(key).iter().map(|entry| entry.as_str().expect("a text").to_owned()).collect::<Vec<_>>();
    let port = |key: &str| argument[key].as_u64().unwrap_or(0);
    let mut all = vec![
        "-N CONSUL_PROXY_INBOUND",
        "-N CONSUL_PROXY_IN_REDIRECT",
        "-N CONSUL_PROXY_OUTPUT",
        "-N CONSUL_PROXY_REDIRECT",
        "-N CONSUL_DNS_REDIRECT",
    ]
    .into_iter()
    .map(str::to_owned)
    .collect::<Vec<_>>();
    let outbound = if port("ProxyOutboundPort") == 0 { 15001 } else { port("ProxyOutboundPort") };
    all.push(format!("-A CONSUL_PROXY_REDIRECT -p tcp -j REDIRECT --to-port {outbound}"));
    let (address, dns_port) = (argument["ConsulDNSIP"].as_str().unwrap_or(""), port("ConsulDNSPort"));
    let dns = match (address, dns_port) {
        ("", 0) => None,
        (address, 0) => Some((String::new(), address.to_owned())),
        (address, port) => {
            let address = if address.is_empty() { "127.0.0.1" } else { address };
            Some((format!(" -d {address}"), format!("{address}:{port}")))
        }
    };
    if let Some((only, to)) = dns {
        for (chain, target) in [
            ("CONSUL_DNS_REDIRECT", format!("DNAT --to-destination {to}")),
            ("OUTPUT", "CONSUL_DNS_REDIRECT".to_owned()),
        ] {
            all.extend(["udp", "tcp"].map(|proto| format!("-A {chain} -p {proto}{only} --dport 53 -j {target}")));
        }
    }
    all.push("-A OUTPUT -p tcp -j CONSUL_PROXY_OUTPUT".to_owned());
    all.push(format!(
        "-A CONSUL_PROXY_OUTPUT -m owner --uid-owner {} -j RETURN",
        argument["ProxyUserID"].as_str().expect("a user")
    ));
    all.push("-A CONSUL_PROXY_OUTPUT -d 127.0.0.1/32 -j RETURN".to_owned());
    all.push("-A CONSUL_PROXY_OUTPUT -j CONSUL_PROXY_REDIRECT".to_owned());
    all.extend(
        texts("ExcludeOutboundPorts")
            .iter()
            .map(|port| format!("-I CONSUL_PROXY_OUTPUT -p tcp --dport {port} -j RETURN")),
    );
    all.extend(texts("ExcludeOutboundCIDRs").iter().map(|cidr| format!("-I CONSUL_PROXY_OUTPUT -d {cidr} -j RETURN")));
    all.extend(
        texts("ExcludeUIDs").iter().map(|user| format!("-I CONSUL_PROXY_OUTPUT -m owner --uid-owner {user} -j RETURN")),
    );
    all.push(format!("-A CONSUL_PROXY_IN_REDIRECT -p tcp -j REDIRECT --to-port {}", port("ProxyInboundPort")));
    all.push("-A PREROUTING -p tcp -j CONSUL_PROXY_INBOUND".to_owned());
    all.push("-A CONSUL_PROXY_INBOUND -p tcp -j CONSUL_PROXY_IN_REDIRECT".to_owned());
    all.extend(
        texts("ExcludeInboundPorts")
            .iter()
            .map(|port| format!("-I CONSUL_PROXY_INBOUND -p tcp --dport {port} -j RETURN")),
    );
    all
}

/// Does as the reference does.
pub fn run_as_reference(container: &Container, argument: &Value) {
    for command in commands(argument) {
        container.sh(&format!("iptables -t nat {command}"));
    }
}

fn arguments() -> [(&'static str, Value); 6] {
    let plain = json!({"ProxyUserID": "1001", "ProxyInboundPort": 25018});
    [
        ("Nomad's defaults", nomads()),
        ("nothing but what is required", plain.clone()),
        (
            "everything excluded, no DNS",
            json!({
                "ProxyUserID": "1001", "ProxyInboundPort": 25018, "ProxyOutboundPort": 16001,
                "ExcludeInboundPorts": ["9000", "9002"], "ExcludeOutboundPorts": ["443", "80"],
                "ExcludeOutboundCIDRs": ["10.0.0.1/8", "192.0.2.7"], "ExcludeUIDs": ["10", "42"],
            }),
        ),
        (
            "ranges, names, masks, lists and repetitions",
            json!({
                "ProxyUserID": "root", "ProxyInboundPort": 1, "ProxyOutboundPort": 65535,
                "ExcludeInboundPorts": ["8000:8005", "https", ":1023", "0", "0"],
                "ExcludeOutboundPorts": ["60000:", "80:80", "http:https", "5432", "5432"],
                "ExcludeOutboundCIDRs": ["10.0.0.0/255.0.0.0,192.0.2.0/24", "198.51.100.77/31", "0.0.0.0/0", "192.0.2.0/24"],
                "ExcludeUIDs": ["1000-1005", "nobody", "4294967294", "0"],
            }),
        ),
        ("DNS without a port", keys(&plain, json!({"ConsulDNSIP": "10.96.0.53"}))),
        ("DNS without an address", keys(&plain, json!({"ConsulDNSPort": 8600}))),
    ]
}

fn keys(argument: &Value, more: Value) -> Value {
    cni_conformance::keys::with(argument, &more)
}

#[test]
fn the_rules_are_the_references_byte_for_byte() {
    for_each(
        Flavour::ALL.into_iter().flat_map(|flavour| {
            arguments().map(|(name, argument)| (format!("{flavour:?}: {name}"), (flavour, argument)))
        }),
        |(flavour, argument)| {
            let mesh = Mesh::new(flavour);
            let reference = mesh.sandbox.container("reference");
            run_as_reference(&reference, &argument);
            let host = mesh.sandbox.sh("iptables --wait -t nat -S");
            mesh.succeeds(&[Add], &argument);
            assert_eq!(mesh.rules(), rules(&reference));
            assert_eq!(mesh.sandbox.sh("iptables --wait -t nat -S"), host, "the host's rules stay as they are");
            mesh.succeeds(&[Check, Del], &argument);
            assert_eq!(mesh.rules(), [""; 0]);
        },
    );
}

/// What the page of the reference shows for Nomad's defaults, written out.
#[test]
fn nomads_rules_are_these() {
    let mesh = Mesh::new(Flavour::Nft);
    mesh.succeeds(&[Add], &nomads());
    let want = "\
-N CONSUL_DNS_REDIRECT
-N CONSUL_PROXY_INBOUND
-N CONSUL_PROXY_IN_REDIRECT
-N CONSUL_PROXY_OUTPUT
-N CONSUL_PROXY_REDIRECT
-A PREROUTING -p tcp -j CONSUL_PROXY_INBOUND
-A OUTPUT -d 192.168.1.117/32 -p udp -m udp --dport 53 -j CONSUL_DNS_REDIRECT
-A OUTPUT -d 192.168.1.117/32 -p tcp -m tcp --dport 53 -j CONSUL_DNS_REDIRECT
-A OUTPUT -p tcp -j CONSUL_PROXY_OUTPUT
-A CONSUL_DNS_REDIRECT -d 192.168.1.117/32 -p udp -m udp --dport 53 -j DNAT --to-destination 192.168.1.117:8600
-A CONSUL_DNS_REDIRECT -d 192.168.1.117/32 -p tcp -m tcp --dport 53 -j DNAT --to-destination 192.168.1.117:8600
-A CONSUL_PROXY_INBOUND -p tcp -m tcp --dport 9002 -j RETURN
-A CONSUL_PROXY_INBOUND -p tcp -j CONSUL_PROXY_IN_REDIRECT
-A CONSUL_PROXY_IN_REDIRECT -p tcp -j REDIRECT --to-ports 25018
-A CONSUL_PROXY_OUTPUT -m owner --uid-owner 101 -j RETURN
-A CONSUL_PROXY_OUTPUT -d 127.0.0.1/32 -j RETURN
-A CONSUL_PROXY_OUTPUT -j CONSUL_PROXY_REDIRECT
-A CONSUL_PROXY_REDIRECT -p tcp -j REDIRECT --to-ports 15001";
    assert_eq!(mesh.rules().join("\n"), want);
}

/// The reference starts `nsenter` and `iptables` for each of 18 rules.
#[test]
fn add_check_and_del_are_one_batch_each() {
    for (flavour, most) in [(Flavour::Nft, [0, 0, 0]), (Flavour::Legacy, [1, 4, 4])] {
        let mesh = Mesh::new(flavour);
        for (verb, most) in [Add, Check, Del].into_iter().zip(most) {
            let outcome = mesh.call(verb, &nomads(), &json!({})).traced(true).run();
            outcome.expect_success();
            let started = outcome.children();
            assert!(started.len() <= most, "{flavour:?} {verb}: {started:?}");
        }
    }
}

/// An IPv6 network needs no rule of IPv4; with the reference it breaks ADD half-way.
#[test]
fn an_ipv6_network_does_not_break_ipv4() {
    let mesh = Mesh::new(Flavour::Nft);
    mesh.succeeds(&[Add], &nomads());
    let without = mesh.rules();
    let argument = keys(&nomads(), json!({"ExcludeOutboundCIDRs": ["fd00::/8", "2001:db8::1"]}));
    mesh.succeeds(&[Del, Add, Check], &argument);
    assert_eq!(mesh.rules(), without);
    assert_eq!(
        mesh.container.sh("ip6tables --wait -t nat -S").lines().filter(|line| !line.starts_with("-P")).count(),
        0
    );
}
