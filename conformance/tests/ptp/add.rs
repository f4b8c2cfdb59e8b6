//! What ADD makes of the kernel, and what it answers.

use cni_conformance::cases::for_each;
use cni_conformance::{Container, ListHost, Network, page};
use serde_json::{Value, json};

use crate::ptp::setup::{V4, V6, fixed, host_end, ip, left_nothing_since, network, state};

/// The routes of the main table that a container has, of a family.
fn routes(container: &Container, family: &str) -> Vec<String> {
    ip(container, &format!("{family} route")).into_iter().filter(|route| !route.starts_with("fe80")).collect()
}

/// The reference's own state, line by line.
#[test]
fn both_ends_have_the_references_addresses_and_routes() {
    let host = ListHost::new(network(&[V4, V6], &json!({})));
    let (container, attachment) = host.add("id1");
    let veth = host_end(&attachment);
    let v4 = [
        "10.1.2.0/24 via 10.1.2.1 dev eth0 src 10.1.2.2",
        "10.1.2.1 dev eth0 scope link src 10.1.2.2",
        "default via 10.1.2.1 dev eth0",
    ];
    assert_eq!(routes(&container, "-4"), v4);
    let v6 = [
        "default via fd00:1::1 dev eth0 metric 1024 pref medium",
        "fd00:1::/64 via fd00:1::1 dev eth0 src fd00:1::2 metric 1024 pref medium",
        "fd00:1::1 dev eth0 src fd00:1::2 metric 1024 pref medium",
    ];
    assert_eq!(routes(&container, "-6"), v6);
    assert_eq!(ip(host.sandbox.host(), "-4 route"), [format!("10.1.2.2 dev {veth} scope host")]);
    let of_host: Vec<String> =
        ip(host.sandbox.host(), "-6 route").into_iter().filter(|route| route.contains("fd00")).collect();
    let own = format!("fd00:1::1 dev {veth} proto kernel metric 256 pref medium");
    assert_eq!(of_host, [own, format!("fd00:1::2 dev {veth} metric 1024 pref medium")]);
    assert_eq!(Network::observe(host.sandbox.host()).addresses_of(veth), ["10.1.2.1/32", "fd00:1::1/128"]);
    for key in ["net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"] {
        assert_eq!(host.sandbox.sysctl(key), "1", "{key}");
    }
    host.check(&attachment);
}

#[test]
fn the_result_tells_both_ends_and_that_the_addresses_are_the_containers() {
    for_each(["0.3.1", "0.4.0", "1.0.0", "1.1.0"].map(|version| (version, version)), |version| {
        let mut host = ListHost::new(network(&[V4], &json!({"dns": {"domain": "example.org"}})));
        host.list["cniVersion"] = json!(version);
        let (container, attachment) = host.add("id1");
        let result = attachment.result.as_ref().expect("a result");
        let inside = Network::observe(&container).link("eth0").expect("eth0").mac.clone();
        let outside =
            Network::observe(host.sandbox.host()).link(host_end(&attachment)).expect("the host's end").mac.clone();
        let want = json!([
            {"name": host_end(&attachment), "mac": outside},
            {"name": "eth0", "mac": inside, "sandbox": container.path()},
        ]);
        assert_eq!(result["interfaces"], want);
        assert_eq!((&result["ips"][0]["interface"], &result["ips"][0]["gateway"]), (&json!(1), &json!("10.1.2.1")));
        assert_eq!(result["dns"], json!({"domain": "example.org"}));
    });
}

#[test]
fn mtu_is_that_of_both_ends() {
    let cases =
        [("none", (json!({}), 1500)), ("set", (json!({"mtu": 1400}), 1400)), ("negative", (json!({"mtu": -5}), 1500))];
    for_each(cases, |(keys, mtu)| {
        let host = ListHost::new(network(&[V4], &keys));
        let (container, attachment) = host.add("id1");
        let of = |network: &Network, name: &str| network.link(name).expect("a link").mtu;
        assert_eq!(of(&Network::observe(&container), "eth0"), mtu);
        assert_eq!(of(&Network::observe(host.sandbox.host()), host_end(&attachment)), mtu);
    });
}

/// Addresses, routes, and what the container routes then.
type Addressing = (Value, Value, &'static [&'static str]);

/// Answers of IPAM plugins, and the routes of the container. The reference fails with some of them.
#[test]
fn odd_addresses_and_gateways_work() {
    let one = |address: &str, gateway: &str| json!([{"address": address, "gateway": gateway}]);
    let default = || json!([{"dst": "0.0.0.0/0"}]);
    let cases: [(&str, Addressing); 6] = [
        (
            "IPv4 /32, gateway outside",
            (
                one("10.7.0.5/32", "10.1.2.1"),
                default(),
                &[
                    "10.1.2.1 dev eth0 scope link src 10.7.0.5",
                    "10.7.0.5 via 10.1.2.1 dev eth0 src 10.7.0.5",
                    "default via 10.1.2.1 dev eth0",
                ],
            ),
        ),
        (
            "IPv4 /31",
            (
                one("10.1.2.3/31", "10.1.2.2"),
                default(),
                &[
                    "10.1.2.2 dev eth0 scope link src 10.1.2.3",
                    "10.1.2.2/31 via 10.1.2.2 dev eth0 src 10.1.2.3",
                    "default via 10.1.2.2 dev eth0",
                ],
            ),
        ),
        (
            "two addresses with one gateway",
            (
                json!([{"address": "10.1.2.5/24", "gateway": "10.1.2.1"}, {"address": "10.1.2.6/24", "gateway": "10.1.2.1"}]),
                default(),
                &[
                    "10.1.2.0/24 via 10.1.2.1 dev eth0 src 10.1.2.5",
                    "10.1.2.1 dev eth0 scope link src 10.1.2.5",
                    "default via 10.1.2.1 dev eth0",
                ],
            ),
        ),
        (
            "three addresses, the first and the last with one gateway",
            (
                json!([
                    {"address": "10.1.2.5/24", "gateway": "10.1.2.1"}, {"address": "10.1.3.5/24", "gateway": "10.1.3.1"},
                    {"address": "10.1.2.6/24", "gateway": "10.1.2.1"},
                ]),
                default(),
                &[
                    "10.1.2.0/24 via 10.1.2.1 dev eth0 src 10.1.2.5",
                    "10.1.2.1 dev eth0 scope link src 10.1.2.5",
                    "10.1.3.0/24 via 10.1.3.1 dev eth0 src 10.1.3.5",
                    "10.1.3.1 dev eth0 scope link src 10.1.3.5",
                    "default via 10.1.2.1 dev eth0",
                ],
            ),
        ),
        (
            "a route by a neighbour of the gateway, and one to the gateway itself",
            (
                one("10.1.2.5/24", "10.1.2.1"),
                json!([{"dst": "10.9.0.0/16", "gw": "10.1.2.9"}, {"dst": "10.1.2.1/32"}]),
                &[
                    "10.1.2.0/24 via 10.1.2.1 dev eth0 src 10.1.2.5",
                    "10.1.2.1 dev eth0 scope link src 10.1.2.5",
                    "10.9.0.0/16 via 10.1.2.9 dev eth0",
                ],
            ),
        ),
        (
            "IPv6 /128",
            (
                one("fd00:1::5/128", "fd00:1::1"),
                json!([{"dst": "::/0"}]),
                &[
                    "default via fd00:1::1 dev eth0 metric 1024 pref medium",
                    "fd00:1::1 dev eth0 src fd00:1::5 metric 1024 pref medium",
                    "fd00:1::5 via fd00:1::1 dev eth0 src fd00:1::5 metric 1024 pref medium",
                ],
            ),
        ),
    ];
    for_each(cases, |(addresses, reported, want)| {
        let host = ListHost::new(fixed(&addresses, &reported));
        let before = state(&host);
        let (container, attachment) = host.add("id1");
        let found = [routes(&container, "-4"), routes(&container, "-6")].concat();
        assert_eq!(found, want);
        host.check(&attachment);
        host.del(&attachment);
        left_nothing_since(&before, &host);
    });
}

#[test]
fn the_example_of_the_page_does_what_it_says() {
    let host =
        ListHost::new(page::example(include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../plugins/ptp/README.md"))));
    let (container, attachment) = host.add("id1");
    assert_eq!(Network::observe(&container).addresses_of("eth0")[0], "10.1.2.2/24");
    assert!(host.sandbox.sh("iptables -t nat -S").contains("-A POSTROUTING -s 10.1.2.2/32 "));
    host.check(&attachment);
    host.del(&attachment);
}
