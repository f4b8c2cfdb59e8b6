//! Every key that changes what ADD makes, with two values; and the keys that change nothing of what DEL must remove.

use cni_conformance::{Feature, plugins};
use serde_json::{Value, json};

/// A key that has one value when ADD comes, and another when DEL does.
pub struct ChangedKey {
    pub plugin: &'static str,
    /// A JSON pointer.
    pub pointer: &'static str,
    /// `null` for a key that is not there.
    pub values: [Value; 2],
    /// Other keys of the configuration.
    pub beside: Value,
    /// Whether ADD can be made with the second value as well.
    pub both_ways: bool,
    pub needs: Option<Feature>,
}

impl ChangedKey {
    fn beside(self, beside: Value) -> Self {
        Self { beside, ..self }
    }

    fn one_way(self) -> Self {
        Self { both_ways: false, ..self }
    }

    fn needs(self, feature: Feature) -> Self {
        Self { needs: Some(feature), ..self }
    }
}

fn changed(plugin: &'static str, pointer: &'static str, one: Value, other: Value) -> ChangedKey {
    ChangedKey {
        plugin,
        pointer,
        values: [one, other],
        beside: json!({}),
        both_ways: true,
        needs: plugins::needs(plugin),
    }
}

/// All of them.
pub fn changed_keys() -> Vec<ChangedKey> {
    [bridge(), other_interfaces(), on_a_master(), host_local(), chained(), tuning(), bandwidth(), of_the_rows()]
        .into_iter()
        .flatten()
        .collect()
}

/// Those in the rows of the plugins.
fn of_the_rows() -> Vec<ChangedKey> {
    let of_plugin = |plugin: &'static str| {
        let rows = cni_catalog::test_data(plugin).changed.iter();
        rows.map(move |row| changed(plugin, &row.key, row.at_add.clone(), row.at_del.clone()))
    };
    plugins::ALL.into_iter().flat_map(of_plugin).collect()
}

fn bridge() -> Vec<ChangedKey> {
    let of = |pointer, one, other| changed("bridge", pointer, one, other);
    let switched = |pointer| of(pointer, json!(true), json!(false));
    let layer_two = || json!({"ipam": null, "isGateway": false});
    vec![
        of("/bridge", json!("br7"), json!("br8")),
        switched("/isGateway"),
        switched("/isDefaultGateway"),
        switched("/ipMasq"),
        of("/ipMasqBackend", json!("iptables"), json!("nftables")).beside(json!({"ipMasq": true})),
        of("/mtu", json!(1400), json!(1300)),
        switched("/hairpinMode"),
        switched("/promiscMode"),
        of("/vlan", json!(5), json!(6)).needs(Feature::BridgeVlans),
        of("/vlanTrunk", json!([{"id": 5}]), json!(null)).needs(Feature::BridgeVlans),
        switched("/preserveDefaultVlan").beside(json!({"vlan": 5})).needs(Feature::BridgeVlans),
        switched("/macspoofchk"),
        switched("/enabledad"),
        switched("/disableContainerInterface").beside(layer_two()),
        switched("/portIsolation"),
        of("/args/cni/mac", json!("02:00:00:00:00:0a"), json!(null)),
        of("/runtimeConfig/mac", json!("02:00:00:00:00:0a"), json!("02:00:00:00:00:0b")),
    ]
}

fn other_interfaces() -> Vec<ChangedKey> {
    let mac = || (json!("02:00:00:00:00:0a"), json!(null));
    let of = |plugin, pointer, (one, other)| changed(plugin, pointer, one, other);
    vec![
        of("ptp", "/ipMasq", (json!(true), json!(false))),
        of("ptp", "/ipMasqBackend", (json!("iptables"), json!("nftables"))).beside(json!({"ipMasq": true})),
        of("ptp", "/mtu", (json!(1400), json!(1300))),
        of("tap", "/owner", (json!(1000), json!(null))),
        of("tap", "/group", (json!(1000), json!(null))),
        of("tap", "/multiQueue", (json!(true), json!(false))),
        of("tap", "/mtu", (json!(1400), json!(1300))),
        of("tap", "/mac", mac()),
        of("tap", "/runtimeConfig/mac", mac()),
        of("host-device", "/device", (json!("ens1"), json!("ens2"))),
        of("host-device", "/hwaddr", (json!(null), json!("02:00:00:00:00:02"))).one_way(),
        of("host-device", "/kernelpath", (json!(null), json!("/sys/devices/x"))).one_way(),
        of("host-device", "/pciBusID", (json!(null), json!("0000:00:1f.6"))).one_way(),
        of("host-device", "/DPDKMode", (json!(false), json!(true))).one_way(),
        of("host-device", "/runtimeConfig/deviceID", (json!(null), json!("0000:00:1f.6"))).one_way(),
    ]
}

fn on_a_master() -> Vec<ChangedKey> {
    let shared = ["macvlan", "vlan", "ipvlan"].into_iter().flat_map(|plugin| {
        [
            changed(plugin, "/master", json!("up0"), json!("up1")),
            changed(plugin, "/mtu", json!(1400), json!(1300)),
            changed(plugin, "/linkInContainer", json!(false), json!(true)).one_way(),
        ]
    });
    let own = [
        changed("macvlan", "/mode", json!("bridge"), json!("private")),
        changed("macvlan", "/mac", json!("02:00:00:00:00:0a"), json!(null)),
        changed("macvlan", "/bcqueuelen", json!(77), json!(null)),
        changed("macvlan", "/runtimeConfig/mac", json!("02:00:00:00:00:0a"), json!(null)),
        changed("vlan", "/vlanId", json!(5), json!(6)),
        changed("ipvlan", "/mode", json!("l2"), json!("l3")),
    ];
    shared.chain(own).collect()
}

fn host_local() -> Vec<ChangedKey> {
    let of = |pointer, one, other| changed("host-local", pointer, one, other);
    let [one, other] = ["10.88.0.0/24", "10.89.0.0/24"];
    let flat = || json!({"ipam": {"type": "host-local", "subnet": one}});
    vec![
        of("/ipam/ranges", json!([[{"subnet": one}]]), json!([[{"subnet": other}]])),
        of("/ipam/subnet", json!(one), json!(other)).beside(flat()),
        of("/ipam/rangeStart", json!("10.88.0.10"), json!("10.88.0.20")).beside(flat()),
        of("/ipam/rangeEnd", json!("10.88.0.10"), json!("10.88.0.20")).beside(flat()),
        of("/args/cni/ips", json!(["10.88.0.15"]), json!(null)),
        of("/runtimeConfig/ips", json!(["10.88.0.15"]), json!(null)),
        of("/runtimeConfig/ipRanges", json!([[{"subnet": other}]]), json!(null)),
    ]
}

fn chained() -> Vec<ChangedKey> {
    let portmap = |pointer, one, other| changed("portmap", pointer, one, other);
    let firewall = |pointer, one, other| changed("firewall", pointer, one, other);
    let mapping = |port| json!([{"hostPort": port, "containerPort": 80, "protocol": "tcp"}]);
    vec![
        portmap("/backend", json!("iptables"), json!("nftables")),
        portmap("/snat", json!(true), json!(false)),
        portmap("/masqAll", json!(true), json!(false)),
        portmap("/masqAll", json!(true), json!(false)).beside(json!({"backend": "nftables"})),
        portmap("/markMasqBit", json!(5), json!(6)),
        portmap("/externalSetMarkChain", json!("OTHER-MARK"), json!(null)),
        portmap("/conditionsV4", json!(["!", "-d", "192.0.2.0/24"]), json!(null)),
        portmap("/conditionsV6", json!(["!", "-d", "2001:db8::/64"]), json!(null)),
        portmap("/runtimeConfig/portMappings", mapping(8080), mapping(8081)),
        portmap("/runtimeConfig/portMappings", mapping(8080), mapping(8081)).beside(json!({"backend": "nftables"})),
        firewall("/backend", json!("iptables"), json!("nftables")),
        firewall("/backend", json!("iptables"), json!("none")),
        firewall("/iptablesAdminChainName", json!("OTHER-ADMIN"), json!(null)),
        firewall("/ingressPolicy", json!("same-bridge"), json!(null)),
        changed("sbr", "/table", json!(5000), json!(6000)),
        changed("sbr", "/gateways", json!(["10.88.0.9"]), json!(null)),
        changed("sbr", "/addSourceHints", json!(true), json!(false)),
        changed("vrf", "/vrfname", json!("red"), json!("blue")),
        changed("vrf", "/table", json!(5000), json!(6000)),
    ]
}

fn tuning() -> Vec<ChangedKey> {
    let values = || {
        [
            ("sysctl", json!({"net.core.somaxconn": "500"}), json!({"net.ipv4.ip_default_ttl": "70"})),
            ("mac", json!("02:00:00:00:00:0a"), json!("02:00:00:00:00:0b")),
            ("promisc", json!(true), json!(false)),
            ("mtu", json!(1400), json!(1300)),
            ("allmulti", json!(true), json!(false)),
            ("txQLen", json!(500), json!(600)),
        ]
    };
    let own = ["/sysctl", "/mac", "/promisc", "/mtu", "/allmulti", "/txQLen"];
    let args = [
        "/args/cni/sysctl",
        "/args/cni/mac",
        "/args/cni/promisc",
        "/args/cni/mtu",
        "/args/cni/allmulti",
        "/args/cni/txQLen",
    ];
    let rows = own.into_iter().zip(values()).chain(args.into_iter().zip(values()));
    let rows = rows.map(|(pointer, (_, one, other))| changed("tuning", pointer, one, other));
    let rest = [
        changed("tuning", "/runtimeConfig/mac", json!("02:00:00:00:00:0a"), json!(null)),
        changed("tuning", "/dataDir", json!("/run/one"), json!("/run/other")).beside(json!({"mtu": 1400})),
        changed("tuning", "/dataDir", json!("/run/one"), json!(null)).beside(json!({"mtu": 1400})),
    ];
    rows.chain(rest).collect()
}

fn bandwidth() -> Vec<ChangedKey> {
    let limits =
        || json!({"ingressRate": 8_000_000, "ingressBurst": 160_000, "egressRate": 16_000_000, "egressBurst": 160_000});
    let own = ["/ingressRate", "/ingressBurst", "/egressRate", "/egressBurst"];
    let from_runtime = [
        "/runtimeConfig/bandwidth/ingressRate",
        "/runtimeConfig/bandwidth/ingressBurst",
        "/runtimeConfig/bandwidth/egressRate",
        "/runtimeConfig/bandwidth/egressBurst",
    ];
    let row = |pointer, beside| changed("bandwidth", pointer, json!(320_000), json!(0)).beside(beside).one_way();
    let own = own.into_iter().map(|pointer| row(pointer, limits()));
    own.chain(from_runtime.into_iter().map(|pointer| row(pointer, json!({"runtimeConfig": {"bandwidth": limits()}}))))
        .collect()
}

/// Keys that change nothing of what DEL must remove, of some plugins or of all, with the reason. Those below such a key are
/// among them.
pub const KEPT_OUT: &[(&[&str], &str, &str)] = &[
    (&[], "/prevResult", "it is no key of the configuration"),
    (&[], "/dns", "it goes into the result alone"),
    (&[], "/ipam/type", "another IPAM plugin knows nothing of the lease; GC of the one that gave it removes it"),
    (&["bridge"], "/forceAddress", "the bridge keeps its address"),
    (
        &["host-local"],
        "/ipam/dataDir",
        "the leases are there, and outlive a boot, which no record does; GC with the former one removes them",
    ),
    (&["host-local"], "/ipam/gateway", "it goes into the result alone"),
    (&["host-local"], "/ipam/routes", "they go into the result alone"),
    (&["host-local"], "/ipam/resolvConf", "it goes into the result alone"),
    (&["dhcp"], "/ipam/daemonSocketPath", "only the daemon that has the lease can give it back; it ends by itself"),
    (&["dhcp"], "/ipam/request", "the daemon asks the server for it, and keeps nothing else for it"),
    (&["dhcp"], "/ipam/provide", "the daemon tells the server, and keeps nothing else for it"),
    (&["dhcp"], "/ipam/priority", "it goes into the result alone"),
    (&["tap"], "/selinuxContext", "it is a property of the device, which goes"),
    (&["tap"], "/bridge", "the host's end goes with the device"),
    (&["tap"], "/args", "nothing is read from it"),
    (&["firewall"], "/firewalldZone", "tests/firewalld shows it, where there is a firewalld"),
    (&["consul-cni"], "/log_level", "it is about messages"),
    (&["consul-cni"], "/cni_bin_dir", "it is for Kubernetes, which is refused"),
    (&["consul-cni"], "/cni_net_dir", "it is for Kubernetes, which is refused"),
    (&["consul-cni"], "/kubeconfig", "it is for Kubernetes, which is refused"),
    (&["consul-cni"], "/multus", "it is for Kubernetes, which is refused"),
];
