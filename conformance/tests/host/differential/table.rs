//! The configurations for both sides: every key with an effect, alone and in combination.

use cni_conformance::keys::with;
use cni_conformance::{Flavour, PortMapping};
use serde_json::{Value, json};

use crate::differential::reference::Level;
use cni_conformance::compare::row::{ComparisonRow, IFNAME, LAYER_TWO, MOVED, PORTMAP, ROUTES, UNLIMITED};

const V4: &str = "10.1.2.0/24";
const V6: &str = "fd00:1::/64";

/// The bridge plugin with host-local, and a default route for each subnet.
fn bridge(subnets: &[&str], keys: Value) -> Value {
    let ranges: Value = subnets.iter().map(|subnet| json!([{"subnet": subnet}])).collect();
    let default = |subnet: &&str| json!({"dst": if subnet.contains(':') { "::/0" } else { "0.0.0.0/0" }});
    let routes: Value = subnets.iter().map(default).collect();
    let ipam = json!({"type": "host-local", "ranges": ranges, "routes": routes, "dataDir": "/run/cni"});
    with(&json!({"type": "bridge", "bridge": "br0", "ipam": ipam}), &keys)
}

fn layer_two(keys: Value) -> Value {
    with(&json!({"type": "bridge", "bridge": "br0"}), &keys)
}

fn gateway() -> Value {
    json!({"isGateway": true, "ipMasq": true})
}

/// A bridge, and behind it one more plugin.
fn chained(subnets: &[&str], plugin: Value) -> Value {
    json!([bridge(subnets, gateway()), plugin])
}

fn portmap(keys: Value) -> Value {
    with(&json!({"type": "portmap", "capabilities": {"portMappings": true}}), &keys)
}

fn firewall(keys: Value) -> Value {
    with(&json!({"type": "firewall", "backend": "iptables"}), &keys)
}

fn tcp(host: u16, container: u16) -> PortMapping {
    PortMapping::new(host, container, "tcp")
}

fn udp(host: u16, container: u16) -> PortMapping {
    PortMapping::new(host, container, "udp")
}

pub fn cases() -> Vec<ComparisonRow> {
    let with_ports = [ports(), whole_lists()].concat().into_iter().map(|case| case.broken_check(PORTMAP));
    [
        links(),
        addresses(),
        results(),
        firewalls(),
        tunings(),
        macvlans(),
        pairs(),
        devices(),
        limits(),
        sources(),
        newer(),
    ]
    .concat()
    .into_iter()
    .chain(with_ports)
    .collect()
}

/// Keys of the bridge plugin that show on links.
fn links() -> Vec<ComparisonRow> {
    let case = |name, keys| ComparisonRow::new(name, json!([layer_two(keys)])).broken_check(LAYER_TWO);
    vec![
        case("bridge, layer 2", json!({})),
        case("bridge, layer 2, mtu", json!({"mtu": 1400})),
        case("bridge, layer 2, hairpin", json!({"hairpinMode": true})),
        case("bridge, layer 2, promisc", json!({"promiscMode": true})),
        case("bridge, layer 2, a MAC", json!({"args": {"cni": {"mac": "02:00:00:00:00:07"}}})),
        case("bridge, layer 2, a bridge that is there", json!({"mtu": 1400}))
            .before(&["ip link add br0 address 02:00:00:00:00:aa type bridge", "ip link set br0 mtu 1450"]),
        ComparisonRow::new(
            "bridge, mtu and promisc, both families",
            json!([bridge(&[V4, V6], json!({"mtu": 1400, "promiscMode": true, "isGateway": true}))]),
        ),
        ComparisonRow::new(
            "bridge, hairpin, both families",
            json!([bridge(&[V4, V6], json!({"hairpinMode": true, "isGateway": true}))]),
        ),
    ]
}

/// Keys that show on addresses and routes.
fn addresses() -> Vec<ComparisonRow> {
    let routes = json!([
        {"dst": "10.9.0.0/16"}, {"dst": "10.8.0.0/16", "gw": "10.1.2.9"},
        {"dst": "fd00:9::/64"}, {"dst": "fd00:8::/64", "gw": "fd00:1::9"},
    ]);
    let mut with_routes = bridge(&[V4, V6], json!({"isGateway": true}));
    with_routes["ipam"]["routes"] = routes;
    let mut default_gateway = bridge(&[V4, V6], json!({"isDefaultGateway": true, "ipMasq": true}));
    default_gateway["ipam"].as_object_mut().expect("an object").remove("routes");
    let mut ranges = bridge(&[], json!({"isGateway": true}));
    ranges["ipam"]["ranges"] = json!([
        [
            {"subnet": V4, "rangeStart": "10.1.2.9", "rangeEnd": "10.1.2.9", "gateway": "10.1.2.254"},
            {"subnet": V4, "rangeStart": "10.1.2.20", "gateway": "10.1.2.254"},
        ],
    ]);
    ranges["ipam"]["routes"] = json!([]);
    let mut fixed = bridge(&[], gateway());
    fixed["ipam"] = json!({
        "type": "static", "routes": [{"dst": "0.0.0.0/0"}, {"dst": "fd00:9::/64", "gw": "fd00:1::1"}],
        "addresses": [{"address": "10.1.2.9/24", "gateway": "10.1.2.1"}, {"address": "fd00:1::9/64"}],
    });
    vec![
        ComparisonRow::new("bridge, addresses of static", json!([fixed])),
        ComparisonRow::new("bridge, no gateway", json!([bridge(&[V4, V6], json!({}))])),
        ComparisonRow::new("bridge, gateway of IPv4", json!([bridge(&[V4], json!({"isGateway": true}))])),
        ComparisonRow::new("bridge, gateway of IPv6", json!([bridge(&[V6], json!({"isGateway": true}))])),
        ComparisonRow::new("bridge, gateway of both", json!([bridge(&[V4, V6], json!({"isGateway": true}))])),
        ComparisonRow::new("bridge, default gateway", json!([default_gateway])),
        ComparisonRow::new("bridge, routes", json!([with_routes])).broken_check(ROUTES),
        ComparisonRow::new("bridge, several ranges of one set", json!([ranges])),
        ComparisonRow::new(
            "bridge, forced address",
            json!([bridge(&[V4, V6], json!({"isGateway": true, "forceAddress": true}))]),
        )
        .before(&[
            "ip link add br0 address 02:00:00:00:00:aa type bridge",
            "ip link set br0 up",
            "ip address add 10.9.9.1/24 dev br0",
            "ip address add fd00:1::7/48 dev br0 nodad",
        ]),
        ComparisonRow::new("bridge, masquerade of IPv4", json!([bridge(&[V4], gateway())])),
        ComparisonRow::new("bridge, masquerade of IPv6", json!([bridge(&[V6], gateway())])),
        ComparisonRow::new("bridge, masquerade of both", json!([bridge(&[V4, V6], gateway())])),
        ComparisonRow::new("bridge, masquerade of both, legacy iptables", json!([bridge(&[V4, V6], gateway())]))
            .on(Flavour::Legacy),
        ComparisonRow::new("bridge, a requested address", json!([bridge(&[V4], gateway())]))
            .args("IgnoreUnknown=1;IP=10.1.2.77"),
    ]
}

/// What is printed, in each version, and by plugins that take no part in addresses.
fn results() -> Vec<ComparisonRow> {
    let dns =
        json!({"dns": {"nameservers": ["192.0.2.53"], "domain": "example.org", "search": ["a"], "options": ["b"]}});
    let both = || bridge(&[V4, V6], with(&gateway(), &dns));
    let mut cases: Vec<ComparisonRow> = Vec::new();
    for (name, version) in [
        ("result of 0.1.0", "0.1.0"),
        ("result of 0.2.0", "0.2.0"),
        ("result of 0.3.0", "0.3.0"),
        ("result of 0.3.1", "0.3.1"),
        ("result of 0.4.0", "0.4.0"),
        ("result of 1.0.0", "1.0.0"),
    ] {
        cases.push(ComparisonRow::new(name, json!([both()])).version(version));
    }
    cases.push(ComparisonRow::new("result of 1.1.0", json!([both()])).version("1.1.0").needs(Level::New));
    cases.push(ComparisonRow::new("portmap without ports", chained(&[V4], portmap(json!({})))));
    cases.push(ComparisonRow::new("loopback", json!([{"type": "loopback"}])).version("1.0.0"));
    cases.push(ComparisonRow::new("loopback before bridge", json!([{"type": "loopback"}, both()])).version("1.0.0"));
    cases
}

fn firewalls() -> Vec<ComparisonRow> {
    vec![
        ComparisonRow::new("firewall of IPv4", chained(&[V4], firewall(json!({})))),
        ComparisonRow::new("firewall of IPv6", chained(&[V6], firewall(json!({})))),
        ComparisonRow::new("firewall of both", chained(&[V4, V6], firewall(json!({})))),
        ComparisonRow::new(
            "firewall, an administrator's chain",
            chained(&[V4, V6], firewall(json!({"iptablesAdminChainName": "MINE"}))),
        )
        .before(&["iptables -N MINE", "iptables -A MINE -d 10.9.9.9 -j ACCEPT"]),
        ComparisonRow::new("firewall, ingressPolicy open", chained(&[V4], firewall(json!({"ingressPolicy": "open"})))),
        ComparisonRow::new(
            "firewall, ingressPolicy same-bridge",
            chained(&[V4, V6], firewall(json!({"ingressPolicy": "same-bridge"}))),
        ),
        ComparisonRow::new(
            "firewall, ingressPolicy isolated",
            chained(&[V4, V6], firewall(json!({"ingressPolicy": "isolated"}))),
        )
        .needs(Level::New),
        ComparisonRow::new(
            "firewall, legacy iptables",
            chained(&[V4, V6], firewall(json!({"ingressPolicy": "same-bridge"}))),
        )
        .on(Flavour::Legacy),
    ]
}

fn ports() -> Vec<ComparisonRow> {
    let one = [tcp(8080, 80)];
    let other = [tcp(9090, 80)];
    let many: Vec<PortMapping> = (0..20).flat_map(|at| [tcp(8000 + at, 80 + at), udp(8000 + at, 80 + at)]).collect();
    vec![
        ComparisonRow::new("portmap of IPv4", chained(&[V4], portmap(json!({})))).ports(&one, &other),
        ComparisonRow::new("portmap of IPv6", chained(&[V6], portmap(json!({})))).ports(&one, &other),
        ComparisonRow::new("portmap of both", chained(&[V4, V6], portmap(json!({"snat": true}))))
            .ports(&[tcp(8080, 80), udp(8080, 80)], &other),
        ComparisonRow::new("portmap, forty ports", chained(&[V4, V6], portmap(json!({})))).ports(&many, &other),
        ComparisonRow::new("portmap, host addresses", chained(&[V4, V6], portmap(json!({})))).ports(
            &[
                tcp(8080, 80).on("192.0.2.1"),
                tcp(8081, 81).on("2001:db8:2::1"),
                tcp(8082, 82).on("0.0.0.0"),
                udp(8083, 83).on("::"),
            ],
            &other,
        ),
        ComparisonRow::new("portmap, sctp and capitals", chained(&[V4], portmap(json!({}))))
            .ports(&[PortMapping::new(8080, 80, "sctp"), PortMapping::new(8081, 81, "TCP")], &other),
        ComparisonRow::new("portmap, no snat", chained(&[V4, V6], portmap(json!({"snat": false})))).ports(&one, &other),
        ComparisonRow::new("portmap, masqAll", chained(&[V4, V6], portmap(json!({"masqAll": true}))))
            .ports(&one, &other)
            .needs(Level::New),
        ComparisonRow::new("portmap, another mark", chained(&[V4, V6], portmap(json!({"markMasqBit": 5}))))
            .ports(&one, &other),
        ComparisonRow::new(
            "portmap, an external chain",
            chained(&[V4], portmap(json!({"externalSetMarkChain": "KUBE-MARK-MASQ"}))),
        )
        .before(&["iptables -t nat -N KUBE-MARK-MASQ"])
        .ports(&one, &other),
        ComparisonRow::new(
            "portmap, conditions",
            chained(
                &[V4, V6],
                portmap(
                    json!({"conditionsV4": ["!", "-d", "192.0.2.0/24"], "conditionsV6": ["!", "-d", "2001:db8::/32"]}),
                ),
            ),
        )
        .ports(&one, &other),
        ComparisonRow::new("portmap, legacy iptables", chained(&[V4], portmap(json!({}))))
            .ports(&many, &other)
            .on(Flavour::Legacy),
        // Its ip6tables takes one DNAT rule for another, so that the reference leaves out all but the first.
        ComparisonRow::new("portmap of both, legacy iptables", chained(&[V4, V6], portmap(json!({}))))
            .ports(&one, &other)
            .on(Flavour::Legacy),
    ]
}

/// Properties of the container's interface, and parameters.
fn tunings() -> Vec<ComparisonRow> {
    let case = |name, keys| {
        ComparisonRow::new(name, chained(&[V4, V6], with(&json!({"type": "tuning"}), &keys))).version("1.0.0")
    };
    vec![
        case("tuning, no key", json!({})),
        case("tuning, no key, a MAC address of the runtime", json!({})).args("IgnoreUnknown=1;MAC=02:00:00:00:00:0a"),
        case("tuning, MAC address", json!({"mac": "02:00:00:00:00:0b"})),
        case("tuning, MAC address, result of 0.4.0", json!({"mac": "02:00:00:00:00:0b"})).version("0.4.0"),
        case("tuning, MTU and promiscuous mode", json!({"mtu": 1400, "promisc": true, "dataDir": "/run/cni/other"})),
        case("tuning, all multicast", json!({"allmulti": true})),
        case("tuning, length of the queue", json!({"txQLen": 500})).needs(Level::New),
        case(
            "tuning, parameters",
            json!({"sysctl": {"net.ipv4.conf.eth0.rp_filter": "1", "net/core/somaxconn": "500"}}),
        ),
        case("tuning, parameters of the interface", json!({"sysctl": {"net.ipv4.conf.IFNAME.rp_filter": "1"}}))
            .broken_check(IFNAME),
    ]
}

/// Links on an interface of the host, which is a bridge here.
fn macvlans() -> Vec<ComparisonRow> {
    const MASTER: [&str; 2] = ["ip link add wire0 type bridge", "ip link set wire0 up"];
    let addressed = |subnets: &[&str], keys: Value| {
        let mut plugin = with(&bridge(subnets, json!({"type": "macvlan", "master": "wire0"})), &keys);
        plugin.as_object_mut().expect("an object").remove("bridge");
        json!([plugin])
    };
    let bare = |keys: Value| json!([with(&json!({"type": "macvlan", "master": "wire0", "ipam": {}}), &keys)]);
    let case = |name, plugins| ComparisonRow::new(name, plugins).before(&MASTER);
    let dns = json!({"dns": {"nameservers": ["192.0.2.53"], "domain": "example.org"}});
    let mut cases = vec![
        case("macvlan, layer 2", bare(json!({}))),
        case("macvlan, layer 2, name resolution", bare(dns)),
        case("macvlan, private", bare(json!({"mode": "private", "mtu": 1400}))),
        case("macvlan, vepa", bare(json!({"mode": "vepa"}))),
        case("macvlan, a MAC address of the runtime", bare(json!({}))).args("IgnoreUnknown=1;MAC=02:00:00:00:00:0a"),
        case("macvlan of IPv4", addressed(&[V4], json!({"mode": "bridge"}))),
        case("macvlan of both", addressed(&[V4, V6], json!({}))),
        ComparisonRow::new("macvlan on the link of the default route", addressed(&[V4], json!({"master": ""})))
            .before(&[MASTER[0], MASTER[1], "ip route add default dev wire0"]),
        case("macvlan, a queue of broadcasts", bare(json!({"bcqueuelen": 77}))).needs(Level::New),
    ];
    for (name, version) in [("macvlan's result of 0.2.0", "0.2.0"), ("macvlan's result of 1.0.0", "1.0.0")] {
        cases.push(case(name, addressed(&[V4], json!({}))).version(version));
    }
    cases
}

/// Routed pairs.
fn pairs() -> Vec<ComparisonRow> {
    let ptp = |subnets: &[&str], keys: Value| with(&bridge(subnets, json!({"type": "ptp", "bridge": null})), &keys);
    let case = |name, subnets: &[&str], keys| ComparisonRow::new(name, json!([ptp(subnets, keys)]));
    let mut routes = ptp(&[V4, V6], json!({}));
    routes["ipam"]["routes"] = json!([
        {"dst": "10.9.0.0/16"}, {"dst": "10.8.0.0/16", "gw": "10.1.2.9"}, {"dst": "fd00:9::/64"}, {"dst": "::/0"},
    ]);
    let dns = json!({"dns": {"nameservers": ["192.0.2.53"], "domain": "example.org"}});
    vec![
        case("ptp of IPv4", &[V4], json!({})),
        case("ptp of IPv6", &[V6], json!({})),
        case("ptp of both, mtu, result of 0.3.1", &[V4, V6], json!({"mtu": 1400})).version("0.3.1"),
        case("ptp of both, masquerade", &[V4, V6], json!({"ipMasq": true})),
        case("ptp of both, masquerade, legacy iptables", &[V4, V6], json!({"ipMasq": true})).on(Flavour::Legacy),
        case("ptp, dns, result of 1.0.0", &[V4], dns).version("1.0.0"),
        ComparisonRow::new("ptp, routes", json!([routes])).broken_check(ROUTES.of("ptp")),
        ComparisonRow::new(
            "ptp, firewall, portmap",
            json!([ptp(&[V4, V6], json!({"ipMasq": true})), firewall(json!({})), portmap(json!({"snat": true}))]),
        )
        .ports(&PortMapping::twins(8080, 80), &PortMapping::twins(9090, 90))
        .broken_check(PORTMAP),
        case("ptp, masquerade with nftables", &[V4, V6], json!({"ipMasq": true, "ipMasqBackend": "nftables"}))
            .needs(Level::New),
    ]
}

/// An interface of the host, which only one container can have.
fn devices() -> Vec<ComparisonRow> {
    let ipam = json!({
        "type": "host-local", "ranges": [[{"subnet": V4}]], "routes": [{"dst": "10.9.0.0/16"}], "dataDir": "/run/cni",
    });
    let case = |name, keys: Value| {
        ComparisonRow::new(name, json!([with(&json!({"type": "host-device"}), &keys)]))
            .before(&[
                "ip link add ens1 address 02:00:00:00:00:01 mtu 1400 type veth peer name far address 02:00:00:00:00:02",
                "ip link set far up",
            ])
            .alone()
            .second_del("host-device", "failed to find \"eth0\"")
    };
    vec![
        case("host-device by name", json!({"device": "ens1"})),
        case("host-device by address", json!({"hwaddr": "02:00:00:00:00:01"})),
        case("host-device with addresses", json!({"device": "ens1", "ipam": ipam}))
            .broken_check(ROUTES.of("host-device")),
        case("host-device with addresses, result of 1.0.0", json!({"device": "ens1", "ipam": ipam}))
            .version("1.0.0")
            .broken_check(ROUTES.of("host-device")),
    ]
}

/// Limits of a container's traffic.
fn limits() -> Vec<ComparisonRow> {
    let case = |name, keys| ComparisonRow::new(name, chained(&[V4], with(&json!({"type": "bandwidth"}), &keys)));
    let receiving = json!({"ingressRate": 8_000_000, "ingressBurst": 1_600_000});
    let sending = json!({"egressRate": 16_000_000, "egressBurst": 1_600_000});
    vec![
        case("bandwidth, nothing limited", json!({})).broken_check(UNLIMITED),
        case("bandwidth of what comes in", receiving.clone()),
        case("bandwidth of what goes out", sending.clone()),
        case("bandwidth of both, result of 1.0.0", with(&receiving, &sending)).version("1.0.0"),
    ]
}

/// Tables by the source of packets.
fn sources() -> Vec<ComparisonRow> {
    let sbr = |first: Value| json!([first, {"type": "sbr"}]);
    let mut routes = bridge(&[V4], json!({"isGateway": true}));
    routes["ipam"]["routes"] = json!([{"dst": "0.0.0.0/0"}, {"dst": "10.8.0.0/16", "gw": "10.1.2.9"}]);
    let case = |name, plugins| {
        ComparisonRow::new(name, plugins).broken_check(MOVED).second_del("sbr", "Failed to get link eth0")
    };
    vec![
        case("sbr of IPv4", sbr(bridge(&[V4], gateway()))),
        case("sbr, routes, result of 1.0.0", sbr(routes)).version("1.0.0"),
        case("sbr of both", sbr(bridge(&[V4, V6], gateway()))),
    ]
}

/// All plugins in a row, as runtimes write them.
fn whole_lists() -> Vec<ComparisonRow> {
    let nomad = |version: &str, subnets: &[&str]| {
        let keys = json!({"isGateway": true, "ipMasq": true, "forceAddress": true, "hairpinMode": false});
        let firewall = firewall(json!({"iptablesAdminChainName": "NOMAD-ADMIN"}));
        let plugins = json!([{"type": "loopback"}, bridge(subnets, keys), firewall, portmap(json!({"snat": true}))]);
        ComparisonRow::new("Nomad's list", plugins)
            .version(version)
            .ports(&PortMapping::twins(8080, 80), &PortMapping::twins(9090, 90))
    };
    let mut both = nomad("1.0.0", &[V4, V6]);
    both.name = "Nomad's list for both families";
    let podman = |name, version| {
        let plugins = json!([
            bridge(&[V4], json!({"isGateway": true, "ipMasq": true, "hairpinMode": true})),
            portmap(json!({})), {"type": "firewall"}, {"type": "tuning"},
        ]);
        let ports = PortMapping::twins;
        ComparisonRow::new(name, plugins).version(version).ports(&ports(8080, 80), &ports(9090, 90))
    };
    let mac = "IgnoreUnknown=1;K8S_POD_NAME=web;MAC=92:d0:c6:0a:29:33";
    vec![
        nomad("0.4.0", &[V4]),
        both,
        podman("podman's list", "0.4.0"),
        podman("podman's list with a MAC address", "0.4.0").args(mac),
        podman("nerdctl's list with a MAC address", "1.0.0").args(mac),
    ]
}

/// Keys that came with later releases of the reference.
fn newer() -> Vec<ComparisonRow> {
    let case =
        |name, keys| ComparisonRow::new(name, json!([layer_two(keys)])).broken_check(LAYER_TWO).needs(Level::New);
    let one = [tcp(8080, 80)];
    vec![
        case("bridge, isolated ports", json!({"portIsolation": true})),
        case("bridge, an interface that stays down", json!({"disableContainerInterface": true})),
        case("bridge, macspoofchk", json!({"macspoofchk": true})),
        ComparisonRow::new(
            "bridge, masquerade with nftables",
            json!([bridge(&[V4, V6], with(&gateway(), &json!({"ipMasqBackend": "nftables"})))]),
        )
        .needs(Level::New),
        ComparisonRow::new("portmap with nftables", chained(&[V4, V6], portmap(json!({"backend": "nftables"}))))
            .ports(&one, &[tcp(9090, 80)])
            .needs(Level::New),
    ]
}
