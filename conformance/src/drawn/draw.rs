//! Makes random configurations: each key is absent or has one of the values that have an effect.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::{BoxedStrategy, Just, Strategy};
use proptest::sample::{select, subsequence};
use serde_json::{Value, json};

use super::setup::{DrawnSubnet, Setup};
use crate::PortMapping;

const V4: DrawnSubnet = ("10.1.2.0/24", "10.1.2.1");
const OTHER_V4: DrawnSubnet = ("10.1.3.0/25", "10.1.3.1");
const V6: DrawnSubnet = ("fd00:1::/64", "fd00:1::1");
const OTHER_V6: DrawnSubnet = ("fd00:2::/80", "fd00:2::1");

/// The versions, newest first: that is where a failing configuration shrinks to.
const VERSIONS: [&str; 7] = ["1.1.0", "1.0.0", "0.4.0", "0.3.1", "0.3.0", "0.2.0", "0.1.0"];

/// How likely a list has each of the plugins behind bridge.
const CHAINED: f64 = 0.7;

/// Draws networks.
pub fn setups() -> impl Strategy<Value = Setup> {
    let names = (
        "[a-z][a-z0-9_.-]{0,24}",
        "[a-zA-Z0-9][a-zA-Z0-9_.-]{0,63}",
        select(vec!["eth0", "net1", "a", "fifteen-bytes-0"]),
    );
    let firewall = option::weighted(CHAINED, firewall_keys());
    let portmap = option::weighted(CHAINED, (portmap_keys(), mappings()));
    let drawn = (select(VERSIONS.to_vec()), names, subnets(), bridge(), firewall, portmap);
    drawn.prop_map(|(version, (network, id, ifname), (subnets, routes), bridge, firewall, portmap)| {
        // The firewall came with 0.4.0.
        let version = if firewall.is_some() { version.max("0.4.0") } else { version };
        let mut subnets = fitting(version, subnets);
        if subnets.is_empty() && (firewall.is_some() || portmap.is_some()) {
            subnets.push(V4);
        }
        Setup { version, network, id, ifname, subnets, routes, bridge, firewall, portmap }
    })
}

/// Subnets, one for each range set, and routes of their families.
fn subnets() -> impl Strategy<Value = (Vec<DrawnSubnet>, Vec<&'static str>)> {
    let sets = vec![
        vec![V4],
        vec![V6],
        vec![V4, V6],
        vec![V4, OTHER_V4],
        vec![V6, OTHER_V6],
        vec![V6, OTHER_V4, OTHER_V6, V4],
        Vec::new(),
    ];
    let routes = subsequence(vec!["0.0.0.0/0", "::/0", "192.168.7.0/24", "fd00:7::/48"], 0..=4);
    (select(sets), routes).prop_map(|(subnets, mut routes)| {
        routes.retain(|dst| subnets.iter().any(|(subnet, _)| subnet.contains(':') == dst.contains(':')));
        (subnets, routes)
    })
}

/// The versions before 0.3.0 know one address of each family, and no container without any.
fn fitting(version: &str, mut subnets: Vec<DrawnSubnet>) -> Vec<DrawnSubnet> {
    if version < "0.3.0" {
        let mut seen = Vec::new();
        subnets.retain(|(subnet, _)| {
            let family = subnet.contains(':');
            let first = !seen.contains(&family);
            seen.push(family);
            first
        });
        if subnets.is_empty() {
            subnets.push(V4);
        }
    }
    subnets
}

fn bridge() -> impl Strategy<Value = Value> {
    let flag = || json_of(&[json!(true), json!(false)]);
    let dns = json!({"nameservers": ["192.0.2.53"], "search": ["example.org"]});
    let keys = keys(vec![
        ("isGateway", flag()),
        ("isDefaultGateway", flag()),
        ("forceAddress", flag()),
        ("ipMasq", json_of(&[json!(true), json!(true), json!(false)])),
        ("ipMasqBackend", json_of(&[json!("iptables"), json!("nftables"), json!(null)])),
        ("mtu", json_of(&[json!(1400), json!(1280), json!(9000), json!(0)])),
        ("hairpinMode", flag()),
        ("promiscMode", flag()),
        ("portIsolation", flag()),
        ("macspoofchk", flag()),
        ("dns", json_of(&[dns, json!({}), json!(null)])),
    ]);
    keys.prop_map(|mut keys| {
        // A bridge port cannot do both.
        if keys["hairpinMode"] == true {
            keys["promiscMode"] = json!(false);
        }
        keys
    })
}

fn firewall_keys() -> BoxedStrategy<Value> {
    keys(vec![
        ("backend", json_of(&[json!("iptables")])),
        (
            "iptablesAdminChainName",
            json_of(&[json!("MINE"), json!("NOMAD-ADMIN"), json!("twenty-eight-characters-long")]),
        ),
        ("ingressPolicy", json_of(&[json!("open"), json!("same-bridge"), json!("isolated")])),
    ])
}

fn portmap_keys() -> BoxedStrategy<Value> {
    keys(vec![
        ("snat", json_of(&[json!(false), json!(true)])),
        ("masqAll", json_of(&[json!(true), json!(false)])),
        ("markMasqBit", (0_u32..32).prop_map(|bit| json!(bit)).boxed()),
        ("conditionsV4", json_of(&[json!(["!", "-d", "192.0.2.0/24"]), json!([])])),
        ("conditionsV6", json_of(&[json!(["!", "-d", "2001:db8::/32"]), json!([])])),
    ])
}

fn mappings() -> impl Strategy<Value = Vec<PortMapping>> {
    let hosts = ["", "", "192.0.2.1", "127.0.0.1", "0.0.0.0", "2001:db8:2::1", "::"];
    let mapping = (0_u16..500, select(vec!["tcp", "udp", "sctp"]), select(hosts.to_vec()));
    vec(mapping, 0..5).prop_map(|mappings| {
        let numbered = mappings.into_iter().enumerate();
        let mapping = |(at, (port, protocol, host)): (usize, (u16, &str, &str))| {
            let host_port = 8000 + port + 500 * u16::try_from(at).expect("a few mappings");
            PortMapping::new(host_port, 80 + port, protocol).on(host)
        };
        numbered.map(mapping).collect()
    })
}

fn json_of(values: &[Value]) -> BoxedStrategy<Value> {
    select(values.to_vec()).boxed()
}

/// A random object: each key is present or absent.
fn keys(drawn: Vec<(&'static str, BoxedStrategy<Value>)>) -> BoxedStrategy<Value> {
    drawn.into_iter().fold(Just(json!({})).boxed(), |object, (key, values)| {
        let grown = (object, option::of(values)).prop_map(move |(mut object, value)| {
            if let Some(value) = value {
                object[key] = value;
            }
            object
        });
        grown.boxed()
    })
}
