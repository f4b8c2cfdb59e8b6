//! Values that a key cannot take: refused before any work, with the key and the value named.
//!
//! Go names the field of its own structure and the type, and some values only the kernel's refusal
//! of them, when half the work is done; a few end it with a stack trace. The code is 2, 6 or 7.

use cni_conformance::{Invocation, Outcome, State, Verb, plugins, state};
use serde_json::{Value, json};

use crate::spelling::rich;
use crate::{PLUGINS, VERBS, call, with};

/// What a key takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Text,
    Flag,
    Integer,
    List,
    Object,
}

use Kind::{Flag, Integer, List, Object, Text};

/// Every key of every plugin, by plugin and JSON pointer; those that all have are in other files.
pub const KEYS: &[(&str, &str, Kind)] = &[
    ("loopback", "/prevResult", Object),
    ("bridge", "/bridge", Text),
    ("bridge", "/isGateway", Flag),
    ("bridge", "/isDefaultGateway", Flag),
    ("bridge", "/forceAddress", Flag),
    ("bridge", "/ipMasq", Flag),
    ("bridge", "/ipMasqBackend", Text),
    ("bridge", "/mtu", Integer),
    ("bridge", "/hairpinMode", Flag),
    ("bridge", "/promiscMode", Flag),
    ("bridge", "/vlan", Integer),
    ("bridge", "/vlanTrunk", List),
    ("bridge", "/vlanTrunk/0", Object),
    ("bridge", "/vlanTrunk/0/minID", Integer),
    ("bridge", "/vlanTrunk/0/maxID", Integer),
    ("bridge", "/vlanTrunk/0/id", Integer),
    ("bridge", "/preserveDefaultVlan", Flag),
    ("bridge", "/macspoofchk", Flag),
    ("bridge", "/enabledad", Flag),
    ("bridge", "/disableContainerInterface", Flag),
    ("bridge", "/portIsolation", Flag),
    ("bridge", "/ipam", Object),
    ("bridge", "/ipam/type", Text),
    ("bridge", "/dns", Object),
    ("bridge", "/dns/nameservers", List),
    ("bridge", "/dns/nameservers/0", Text),
    ("bridge", "/dns/domain", Text),
    ("bridge", "/dns/search", List),
    ("bridge", "/dns/search/0", Text),
    ("bridge", "/dns/options", List),
    ("bridge", "/dns/options/0", Text),
    ("bridge", "/args", Object),
    ("bridge", "/args/cni", Object),
    ("bridge", "/args/cni/mac", Text),
    ("bridge", "/runtimeConfig", Object),
    ("bridge", "/runtimeConfig/mac", Text),
    ("bridge", "/prevResult", Object),
    ("ptp", "/ipMasq", Flag),
    ("ptp", "/ipMasqBackend", Text),
    ("ptp", "/mtu", Integer),
    ("ptp", "/ipam", Object),
    ("ptp", "/ipam/type", Text),
    ("ptp", "/dns", Object),
    ("ptp", "/dns/nameservers", List),
    ("ptp", "/dns/nameservers/0", Text),
    ("ptp", "/dns/domain", Text),
    ("ptp", "/dns/search", List),
    ("ptp", "/dns/search/0", Text),
    ("ptp", "/dns/options", List),
    ("ptp", "/dns/options/0", Text),
    ("ptp", "/prevResult", Object),
    ("dummy", "/ipam", Object),
    ("dummy", "/ipam/type", Text),
    ("dummy", "/dns", Object),
    ("dummy", "/dns/nameservers", List),
    ("dummy", "/dns/nameservers/0", Text),
    ("dummy", "/dns/domain", Text),
    ("dummy", "/dns/search", List),
    ("dummy", "/dns/search/0", Text),
    ("dummy", "/dns/options", List),
    ("dummy", "/dns/options/0", Text),
    ("macvlan", "/master", Text),
    ("macvlan", "/mode", Text),
    ("macvlan", "/mtu", Integer),
    ("macvlan", "/mac", Text),
    ("macvlan", "/linkInContainer", Flag),
    ("macvlan", "/bcqueuelen", Integer),
    ("macvlan", "/ipam", Object),
    ("macvlan", "/ipam/type", Text),
    ("macvlan", "/dns", Object),
    ("macvlan", "/dns/nameservers", List),
    ("macvlan", "/dns/nameservers/0", Text),
    ("macvlan", "/dns/domain", Text),
    ("macvlan", "/dns/search", List),
    ("macvlan", "/dns/search/0", Text),
    ("macvlan", "/dns/options", List),
    ("macvlan", "/dns/options/0", Text),
    ("macvlan", "/runtimeConfig", Object),
    ("macvlan", "/runtimeConfig/mac", Text),
    ("macvlan", "/prevResult", Object),
    ("host-device", "/device", Text),
    ("host-device", "/hwaddr", Text),
    ("host-device", "/kernelpath", Text),
    ("host-device", "/pciBusID", Text),
    ("host-device", "/DPDKMode", Flag),
    ("host-device", "/ipam", Object),
    ("host-device", "/ipam/type", Text),
    ("host-device", "/dns", Object),
    ("host-device", "/dns/nameservers", List),
    ("host-device", "/dns/nameservers/0", Text),
    ("host-device", "/dns/domain", Text),
    ("host-device", "/dns/search", List),
    ("host-device", "/dns/search/0", Text),
    ("host-device", "/dns/options", List),
    ("host-device", "/dns/options/0", Text),
    ("host-device", "/runtimeConfig", Object),
    ("host-device", "/runtimeConfig/deviceID", Text),
    ("host-device", "/prevResult", Object),
    ("vlan", "/master", Text),
    ("vlan", "/vlanId", Integer),
    ("vlan", "/mtu", Integer),
    ("vlan", "/linkInContainer", Flag),
    ("vlan", "/ipam", Object),
    ("vlan", "/ipam/type", Text),
    ("vlan", "/dns", Object),
    ("vlan", "/dns/nameservers", List),
    ("vlan", "/dns/nameservers/0", Text),
    ("vlan", "/dns/domain", Text),
    ("vlan", "/dns/search", List),
    ("vlan", "/dns/search/0", Text),
    ("vlan", "/dns/options", List),
    ("vlan", "/dns/options/0", Text),
    ("vlan", "/prevResult", Object),
    ("ipvlan", "/master", Text),
    ("ipvlan", "/mode", Text),
    ("ipvlan", "/mtu", Integer),
    ("ipvlan", "/linkInContainer", Flag),
    ("ipvlan", "/ipam", Object),
    ("ipvlan", "/ipam/type", Text),
    ("ipvlan", "/dns", Object),
    ("ipvlan", "/dns/nameservers", List),
    ("ipvlan", "/dns/nameservers/0", Text),
    ("ipvlan", "/dns/domain", Text),
    ("ipvlan", "/dns/search", List),
    ("ipvlan", "/dns/search/0", Text),
    ("ipvlan", "/dns/options", List),
    ("ipvlan", "/dns/options/0", Text),
    ("ipvlan", "/prevResult", Object),
    ("dhcp", "/ipam", Object),
    ("dhcp", "/ipam/daemonSocketPath", Text),
    ("dhcp", "/ipam/priority", Integer),
    ("dhcp", "/ipam/request", List),
    ("dhcp", "/ipam/request/0", Object),
    ("dhcp", "/ipam/request/0/option", Text),
    ("dhcp", "/ipam/request/0/skipDefault", Flag),
    ("dhcp", "/ipam/provide", List),
    ("dhcp", "/ipam/provide/0", Object),
    ("dhcp", "/ipam/provide/0/option", Text),
    ("dhcp", "/ipam/provide/0/value", Text),
    ("dhcp", "/ipam/provide/0/fromArg", Text),
    ("tap", "/owner", Integer),
    ("tap", "/group", Integer),
    ("tap", "/multiQueue", Flag),
    ("tap", "/mtu", Integer),
    ("tap", "/mac", Text),
    ("tap", "/selinuxContext", Text),
    ("tap", "/bridge", Text),
    ("tap", "/args", Object),
    ("tap", "/ipam", Object),
    ("tap", "/ipam/type", Text),
    ("tap", "/dns", Object),
    ("tap", "/dns/nameservers", List),
    ("tap", "/dns/nameservers/0", Text),
    ("tap", "/dns/domain", Text),
    ("tap", "/dns/search", List),
    ("tap", "/dns/search/0", Text),
    ("tap", "/dns/options", List),
    ("tap", "/dns/options/0", Text),
    ("tap", "/runtimeConfig", Object),
    ("tap", "/runtimeConfig/mac", Text),
    ("tap", "/prevResult", Object),
    ("host-local", "/ipam", Object),
    ("host-local", "/ipam/ranges", List),
    ("host-local", "/ipam/ranges/0", List),
    ("host-local", "/ipam/ranges/0/0", Object),
    ("host-local", "/ipam/ranges/0/0/subnet", Text),
    ("host-local", "/ipam/ranges/0/0/rangeStart", Text),
    ("host-local", "/ipam/ranges/0/0/rangeEnd", Text),
    ("host-local", "/ipam/ranges/0/0/gateway", Text),
    ("host-local", "/ipam/subnet", Text),
    ("host-local", "/ipam/rangeStart", Text),
    ("host-local", "/ipam/rangeEnd", Text),
    ("host-local", "/ipam/gateway", Text),
    ("host-local", "/ipam/routes", List),
    ("host-local", "/ipam/routes/0", Object),
    ("host-local", "/ipam/routes/0/dst", Text),
    ("host-local", "/ipam/routes/0/gw", Text),
    ("host-local", "/ipam/routes/0/mtu", Integer),
    ("host-local", "/ipam/routes/0/advmss", Integer),
    ("host-local", "/ipam/routes/0/priority", Integer),
    ("host-local", "/ipam/routes/0/table", Integer),
    ("host-local", "/ipam/routes/0/scope", Integer),
    ("host-local", "/ipam/dataDir", Text),
    ("host-local", "/ipam/resolvConf", Text),
    ("host-local", "/args", Object),
    ("host-local", "/args/cni", Object),
    ("host-local", "/args/cni/ips", List),
    ("host-local", "/args/cni/ips/0", Text),
    ("host-local", "/runtimeConfig", Object),
    ("host-local", "/runtimeConfig/ips", List),
    ("host-local", "/runtimeConfig/ips/0", Text),
    ("host-local", "/runtimeConfig/ipRanges", List),
    ("host-local", "/runtimeConfig/ipRanges/0", List),
    ("host-local", "/runtimeConfig/ipRanges/0/0", Object),
    ("host-local", "/runtimeConfig/ipRanges/0/0/subnet", Text),
    ("firewall", "/backend", Text),
    ("firewall", "/iptablesAdminChainName", Text),
    ("firewall", "/firewalldZone", Text),
    ("firewall", "/ingressPolicy", Text),
    ("firewall", "/prevResult", Object),
    ("portmap", "/backend", Text),
    ("portmap", "/snat", Flag),
    ("portmap", "/masqAll", Flag),
    ("portmap", "/markMasqBit", Integer),
    ("portmap", "/externalSetMarkChain", Text),
    ("portmap", "/conditionsV4", List),
    ("portmap", "/conditionsV4/0", Text),
    ("portmap", "/conditionsV6", List),
    ("portmap", "/conditionsV6/0", Text),
    ("portmap", "/runtimeConfig", Object),
    ("portmap", "/runtimeConfig/portMappings", List),
    ("portmap", "/runtimeConfig/portMappings/0", Object),
    ("portmap", "/runtimeConfig/portMappings/0/hostPort", Integer),
    ("portmap", "/runtimeConfig/portMappings/0/containerPort", Integer),
    ("portmap", "/runtimeConfig/portMappings/0/protocol", Text),
    ("portmap", "/runtimeConfig/portMappings/0/hostIP", Text),
    ("portmap", "/prevResult", Object),
    ("tuning", "/sysctl", Object),
    ("tuning", "/mac", Text),
    ("tuning", "/promisc", Flag),
    ("tuning", "/mtu", Integer),
    ("tuning", "/allmulti", Flag),
    ("tuning", "/txQLen", Integer),
    ("tuning", "/dataDir", Text),
    ("tuning", "/args", Object),
    ("tuning", "/args/cni", Object),
    ("tuning", "/args/cni/sysctl", Object),
    ("tuning", "/args/cni/mac", Text),
    ("tuning", "/args/cni/promisc", Flag),
    ("tuning", "/args/cni/mtu", Integer),
    ("tuning", "/args/cni/allmulti", Flag),
    ("tuning", "/args/cni/txQLen", Integer),
    ("tuning", "/runtimeConfig", Object),
    ("tuning", "/runtimeConfig/mac", Text),
    ("sbr", "/table", Integer),
    ("sbr", "/prevResult", Object),
    ("vrf", "/vrfname", Text),
    ("vrf", "/table", Integer),
    ("vrf", "/prevResult", Object),
    ("bandwidth", "/ingressRate", Integer),
    ("bandwidth", "/ingressBurst", Integer),
    ("bandwidth", "/egressRate", Integer),
    ("bandwidth", "/egressBurst", Integer),
    ("bandwidth", "/runtimeConfig", Object),
    ("bandwidth", "/runtimeConfig/bandwidth", Object),
    ("bandwidth", "/runtimeConfig/bandwidth/ingressRate", Integer),
    ("bandwidth", "/runtimeConfig/bandwidth/ingressBurst", Integer),
    ("bandwidth", "/runtimeConfig/bandwidth/egressRate", Integer),
    ("bandwidth", "/runtimeConfig/bandwidth/egressBurst", Integer),
    ("bandwidth", "/prevResult", Object),
    ("consul-cni", "/log_level", Text),
    ("consul-cni", "/cni_bin_dir", Text),
    ("consul-cni", "/cni_net_dir", Text),
    ("consul-cni", "/kubeconfig", Text),
    ("consul-cni", "/multus", Flag),
    ("consul-cni", "/prevResult", Object),
];

/// The members of `prevResult`, for the plugins that read it on ADD.
const RESULT: &[(&str, Kind)] = &[
    ("/prevResult/cniVersion", Text),
    ("/prevResult/interfaces", List),
    ("/prevResult/interfaces/0", Object),
    ("/prevResult/interfaces/0/name", Text),
    ("/prevResult/interfaces/0/mac", Text),
    ("/prevResult/interfaces/0/sandbox", Text),
    ("/prevResult/ips", List),
    ("/prevResult/ips/0", Object),
    ("/prevResult/ips/0/address", Text),
    ("/prevResult/ips/0/gateway", Text),
    ("/prevResult/ips/0/interface", Integer),
    ("/prevResult/routes", List),
    ("/prevResult/routes/0", Object),
    ("/prevResult/routes/0/dst", Text),
    ("/prevResult/routes/0/gw", Text),
    ("/prevResult/dns", Object),
    ("/prevResult/dns/nameservers", List),
];

/// Values of the right type that cannot be used.
fn unusable() -> Vec<(&'static str, &'static str, Value)> {
    let long = "C23456789-123456789-123456789";
    vec![
        ("bridge", "/bridge", json!("a/b")),
        ("bridge", "/bridge", json!("..")),
        ("bridge", "/bridge", json!("bridge-with-16-b")),
        ("bridge", "/mtu", json!(70_000)),
        ("bridge", "/mtu", json!(4_294_967_297_i64)),
        ("bridge", "/vlan", json!(4095)),
        ("bridge", "/vlan", json!(-1)),
        ("bridge", "/ipMasqBackend", json!("foo")),
        ("bridge", "/args/cni/mac", json!("zz")),
        ("bridge", "/runtimeConfig/mac", json!("zz")),
        ("bridge", "/runtimeConfig/mac", json!("01:00:5e:00:00:01")),
        ("macvlan", "/master", json!("none")),
        ("macvlan", "/master", json!("a name that is much too long")),
        ("macvlan", "/mode", json!("Bridge")),
        ("macvlan", "/mode", json!("source")),
        ("macvlan", "/mtu", json!(1501)),
        ("macvlan", "/mtu", json!(-1)),
        ("macvlan", "/bcqueuelen", json!(-1)),
        ("macvlan", "/bcqueuelen", json!(4_294_967_296_i64)),
        ("macvlan", "/mac", json!("zz")),
        ("macvlan", "/runtimeConfig/mac", json!("01:00:5e:00:00:01")),
        ("vlan", "/master", json!("none")),
        ("vlan", "/vlanId", json!(4095)),
        ("vlan", "/vlanId", json!(-1)),
        ("vlan", "/mtu", json!(1501)),
        ("ipvlan", "/master", json!("none")),
        ("ipvlan", "/mode", json!("L2")),
        ("ipvlan", "/mtu", json!(70_000)),
        ("ipvlan", "/ipam/type", json!("dhcp")),
        ("dhcp", "/ipam/daemonSocketPath", json!("other.sock")),
        ("dhcp", "/ipam/request/0/option", json!("ntp-servers")),
        ("dhcp", "/ipam/provide/0/option", json!("256")),
        ("dhcp", "/ipam/provide/0/value", json!("x".repeat(256))),
        ("tap", "/owner", json!(-1)),
        ("tap", "/owner", json!(4_294_967_295_u32)),
        ("tap", "/group", json!(4_294_967_296_i64)),
        ("tap", "/mtu", json!(67)),
        ("tap", "/mtu", json!(65_522)),
        ("tap", "/mac", json!("zz")),
        ("tap", "/runtimeConfig/mac", json!("01:00:5e:00:00:01")),
        ("tap", "/bridge", json!("none")),
        ("tap", "/bridge", json!("a/b")),
        ("host-local", "/ipam/ranges/0/0/subnet", json!("10.88.0.0")),
        ("host-local", "/ipam/ranges/0/0/subnet", json!("10.88.0.7/24")),
        ("host-local", "/ipam/ranges/0/0/subnet", json!("10.88.0.0/31")),
        ("host-local", "/ipam/ranges/0/0/subnet", json!("010.88.0.0/24")),
        ("host-local", "/ipam/ranges/0/0/subnet", json!("fd00:88::/127")),
        ("host-local", "/ipam/ranges/0/0/rangeStart", json!("zz")),
        ("host-local", "/ipam/ranges/0/0/rangeStart", json!("10.99.0.10")),
        ("host-local", "/ipam/ranges/0/0/rangeStart", json!("10.88.0.21")),
        ("host-local", "/ipam/ranges/0/0/rangeEnd", json!("zz")),
        ("host-local", "/ipam/ranges/0/0/rangeEnd", json!("10.99.0.20")),
        ("host-local", "/ipam/ranges/0/0/gateway", json!("zz")),
        ("host-local", "/ipam/subnet", json!("10.77.0.0")),
        ("host-local", "/ipam/routes/0/dst", json!("10.9.0.0")),
        ("host-local", "/ipam/routes/0/gw", json!("zz")),
        ("host-local", "/args/cni/ips/0", json!("zz")),
        ("host-local", "/runtimeConfig/ips/0", json!("zz")),
        ("host-local", "/runtimeConfig/ipRanges/0/0/subnet", json!("zz")),
        ("host-device", "/pciBusID", json!("../x")),
        ("host-device", "/runtimeConfig/deviceID", json!("a/b")),
        ("host-device", "/runtimeConfig/deviceID", json!("no-such")),
        ("firewall", "/backend", json!("anything")),
        ("firewall", "/backend", json!("IPTables")),
        ("firewall", "/firewalldZone", json!("a b")),
        ("firewall", "/ingressPolicy", json!("bogus")),
        ("firewall", "/ingressPolicy", json!("Isolated")),
        ("firewall", "/iptablesAdminChainName", json!("HAS BLANK")),
        ("firewall", "/iptablesAdminChainName", json!(long)),
        ("firewall", "/iptablesAdminChainName", json!("CNI-FORWARD")),
        ("firewall", "/prevResult/ips/0/address", json!("10.88.0.5")),
        ("firewall", "/prevResult/ips/0/gateway", json!("zz")),
        ("portmap", "/backend", json!("foo")),
        ("portmap", "/markMasqBit", json!(32)),
        ("portmap", "/markMasqBit", json!(-1)),
        ("portmap", "/externalSetMarkChain", json!("HAS BLANK")),
        ("portmap", "/runtimeConfig/portMappings/0/hostPort", json!(0)),
        ("portmap", "/runtimeConfig/portMappings/0/hostPort", json!(-1)),
        ("portmap", "/runtimeConfig/portMappings/0/hostPort", json!(65_536)),
        ("portmap", "/runtimeConfig/portMappings/0/containerPort", json!(0)),
        ("portmap", "/runtimeConfig/portMappings/0/containerPort", json!(70_000)),
        ("portmap", "/runtimeConfig/portMappings/0/protocol", json!("icmp")),
        ("portmap", "/runtimeConfig/portMappings/0/protocol", json!("tcp udp")),
        ("portmap", "/runtimeConfig/portMappings/0/hostIP", json!("10.0.0.300")),
        ("portmap", "/prevResult/ips/0/address", json!("10.88.0.5/33")),
        ("tuning", "/mtu", json!(-5)),
        ("tuning", "/mtu", json!(4_294_967_297_i64)),
        ("tuning", "/args/cni/txQLen", json!(-1)),
        ("tuning", "/mac", json!("zz")),
        ("tuning", "/mac", json!("02:00:00:00:00:00:00:01")),
        ("tuning", "/runtimeConfig/mac", json!("01:00:5e:00:00:01")),
        ("tuning", "/args/cni/mac", json!("zz")),
        ("tuning", "/dataDir", json!("run/x")),
        ("tuning", "/prevResult/ips/0/address", json!("10.88.0.5/33")),
        ("sbr", "/table", json!(0)),
        ("sbr", "/table", json!(-1)),
        ("sbr", "/table", json!(4_294_967_296_i64)),
        ("vrf", "/vrfname", json!("much-too-long-name")),
        ("vrf", "/table", json!(-1)),
        ("vrf", "/prevResult/ips/0/address", json!("10.88.0.5/33")),
        ("bandwidth", "/ingressRate", json!(-1)),
        ("bandwidth", "/ingressRate", json!(8_000_000)),
        ("bandwidth", "/egressBurst", json!(80_000)),
        ("bandwidth", "/runtimeConfig/bandwidth/egressRate", json!(-1)),
        ("bandwidth", "/prevResult/ips/0/address", json!("10.88.0.5/33")),
        ("consul-cni", "/prevResult/ips/0/address", json!("10.88.0.5/33")),
    ]
}

/// Returns values of all other types.
fn wrong_types(kind: Kind) -> Vec<Value> {
    let all = [
        (Text, json!("no-such")),
        (Flag, json!(true)),
        (Integer, json!(4711)),
        (List, json!(["x"])),
        (Object, json!({"x": 1})),
    ];
    let mut wrong: Vec<Value> = all.into_iter().filter(|(other, _)| *other != kind).map(|(_, value)| value).collect();
    if kind == Integer {
        wrong.extend([json!("4711"), json!(80.5)]);
    }
    wrong
}

/// Puts a value where a JSON pointer says, with the objects and lists that lead there.
pub fn set(config: &mut Value, pointer: &str, value: Value) {
    let mut place = config;
    for part in pointer.split('/').skip(1) {
        place = match part.parse::<usize>() {
            Ok(0) => {
                if place.get(0).is_none() {
                    *place = json!([null]);
                }
                &mut place[0]
            }
            _ => {
                if !place.is_object() {
                    *place = json!({});
                }
                &mut place[part]
            }
        };
    }
    *place = value;
}

/// Takes away the key that a JSON pointer names.
pub fn remove(config: &mut Value, pointer: &str) {
    let (parent, key) = pointer.rsplit_once('/').expect("a pointer starts with a slash");
    let parent = config.pointer_mut(parent).and_then(Value::as_object_mut).expect("the key's object");
    parent.remove(key);
}

/// Returns the last part of a pointer that is a key.
fn key_of(pointer: &str) -> &str {
    pointer.rsplit('/').find(|part| part.parse::<usize>().is_err()).expect("a pointer has a key")
}

fn changed(plugin: &str, pointer: &str, value: &Value) -> Value {
    let mut config = rich(plugin);
    set(&mut config, pointer, value.clone());
    config
}

/// What is wrong with the answer to a value that cannot be used, if anything.
fn fault(outcome: &Outcome, pointer: &str, value: &Value) -> Option<String> {
    let said = outcome.stdout().split_whitespace().collect::<Vec<_>>().join(" ");
    let wrong = |what: &str| Some(format!("{pointer} = {value}: {what}: status {:?}, {said:.200}", outcome.code()));
    if outcome.code() != Some(1) || !outcome.stdout().starts_with('{') {
        return wrong("not refused with an error object");
    }
    let error = outcome.error();
    if ![2, 6, 7].contains(&error.code) {
        return wrong("not a code for configurations");
    }
    let said = format!("{}: {}", error.msg, error.details).to_lowercase();
    let key = key_of(pointer).to_lowercase();
    if !said.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').any(|word| word == key) {
        return wrong("the key is not named");
    }
    let shown = match value {
        Value::String(text) => text.to_lowercase(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Null | Value::Array(_) | Value::Object(_) => String::new(),
    };
    if said.contains(&shown) { None } else { wrong("the value is not named") }
}

/// Requires that ADD refuses each value, and that nothing is left of it.
fn assert_all_refused(plugin: &str, rows: &[(String, Value)]) {
    let sandbox = crate::sandbox();
    let container = sandbox.container("ctr1");
    let mut before = State::capture(&sandbox, &[&container]);
    let mut faults = Vec::new();
    for (pointer, value) in rows {
        let config = changed(plugin, pointer, value);
        let outcome = call(&sandbox, plugin, Verb::Add, &container).config(&config).run();
        faults.extend(fault(&outcome, pointer, value));
        if outcome.succeeded() {
            call(&sandbox, plugin, Verb::Del, &container).config(&config).run();
        }
        let after = State::capture(&sandbox, &[&container]);
        let changes = state::diff(&before, &after);
        if !outcome.succeeded() && !changes.is_empty() {
            faults.push(format!("{pointer} = {value} left behind:\n{}", changes.join("\n")));
        }
        before = after;
    }
    assert!(faults.is_empty(), "{} of {} values:\n{}", faults.len(), rows.len(), faults.join("\n"));
}

fn of_wrong_types(plugin: &str) -> Vec<(String, Value)> {
    let own = KEYS.iter().filter(|(of, _, _)| *of == plugin).map(|(_, pointer, kind)| (*pointer, *kind));
    let reads_result =
        ["loopback", "firewall", "portmap", "tuning", "sbr", "bandwidth", "consul-cni"].contains(&plugin);
    let result = RESULT.iter().copied().filter(|_| reads_result);
    let rows = own
        .chain(result)
        .flat_map(|(pointer, kind)| wrong_types(kind).into_iter().map(move |value| (pointer.to_owned(), value)));
    rows.collect()
}

fn of_unusable_values(plugin: &str) -> Vec<(String, Value)> {
    let rows = unusable().into_iter().filter(|(of, _, _)| *of == plugin);
    rows.map(|(_, pointer, value)| (pointer.to_owned(), value)).collect()
}

#[test]
fn loopback_names_the_key_and_the_value_of_a_wrong_type() {
    assert_all_refused("loopback", &of_wrong_types("loopback"));
}

#[test]
fn bridge_names_the_key_and_the_value_of_a_wrong_type() {
    assert_all_refused("bridge", &of_wrong_types("bridge"));
}

#[test]
fn ptp_names_the_key_and_the_value_of_a_wrong_type() {
    assert_all_refused("ptp", &of_wrong_types("ptp"));
}

#[test]
fn dummy_names_the_key_and_the_value_of_a_wrong_type() {
    assert_all_refused("dummy", &of_wrong_types("dummy"));
}

#[test]
fn macvlan_names_the_key_and_the_value_of_a_wrong_type() {
    assert_all_refused("macvlan", &of_wrong_types("macvlan"));
}

#[test]
fn host_device_names_the_key_and_the_value_of_a_wrong_type() {
    assert_all_refused("host-device", &of_wrong_types("host-device"));
}

#[test]
fn vlan_names_the_key_and_the_value_of_a_wrong_type() {
    assert_all_refused("vlan", &of_wrong_types("vlan"));
}

#[test]
fn dhcp_names_the_key_and_the_value_of_a_wrong_type() {
    assert_all_refused("dhcp", &of_wrong_types("dhcp"));
}

#[test]
fn tap_names_the_key_and_the_value_of_a_wrong_type() {
    assert_all_refused("tap", &of_wrong_types("tap"));
}

#[test]
fn ipvlan_names_the_key_and_the_value_of_a_wrong_type() {
    assert_all_refused("ipvlan", &of_wrong_types("ipvlan"));
}

#[test]
fn host_local_names_the_key_and_the_value_of_a_wrong_type() {
    assert_all_refused("host-local", &of_wrong_types("host-local"));
}

#[test]
fn firewall_names_the_key_and_the_value_of_a_wrong_type() {
    assert_all_refused("firewall", &of_wrong_types("firewall"));
}

#[test]
fn portmap_names_the_key_and_the_value_of_a_wrong_type() {
    assert_all_refused("portmap", &of_wrong_types("portmap"));
}

#[test]
fn tuning_names_the_key_and_the_value_of_a_wrong_type() {
    assert_all_refused("tuning", &of_wrong_types("tuning"));
}

#[test]
fn sbr_names_the_key_and_the_value_of_a_wrong_type() {
    assert_all_refused("sbr", &of_wrong_types("sbr"));
}

#[test]
fn vrf_names_the_key_and_the_value_of_a_wrong_type() {
    let rows = of_wrong_types("vrf");
    // A text of the wrong meaning is in another test.
    assert_all_refused("vrf", &rows);
}

#[test]
fn bandwidth_names_the_key_and_the_value_of_a_wrong_type() {
    assert_all_refused("bandwidth", &of_wrong_types("bandwidth"));
}

#[test]
fn consul_cni_names_the_key_and_the_value_of_a_wrong_type() {
    assert_all_refused("consul-cni", &of_wrong_types("consul-cni"));
}

#[test]
fn a_value_that_cannot_be_used_is_named_with_its_key() {
    for plugin in PLUGINS {
        assert_all_refused(plugin, &of_unusable_values(plugin));
    }
}

/// Values that are wrong together, or by what is not there: both keys are named.
#[test]
fn keys_that_contradict_each_other_are_named() {
    let rows = [
        ("bridge", json!({"hairpinMode": true, "promiscMode": true}), ["hairpin", "promisc"]),
        ("bridge", json!({"disableContainerInterface": true}), ["disablecontainerinterface", "ipam"]),
        ("portmap", json!({"markMasqBit": 13, "externalSetMarkChain": "A"}), ["markmasqbit", "externalsetmarkchain"]),
        ("portmap", json!({"backend": "iptables", "conditionsV4": ["ip", "saddr"]}), ["iptables", "conditionsv4"]),
        ("firewall", json!({"backend": "none", "ingressPolicy": "isolated"}), ["backend", "ingresspolicy"]),
        ("ptp", json!({"ipam": null}), ["ipam", ""]),
        ("ptp", json!({"ipam": {"type": ""}}), ["ipam", ""]),
        ("macvlan", json!({"mode": "passthru"}), ["mode", "mac"]),
        ("vlan", json!({"master": null}), ["master", ""]),
        ("vlan", json!({"ipam": null}), ["ipam", ""]),
        ("ipvlan", json!({"ipam": null}), ["ipam", ""]),
        ("dummy", json!({"ipam": null}), ["ipam", ""]),
        ("dummy", json!({"ipam": {"type": ""}}), ["ipam", ""]),
        ("host-local", json!({"ipam": null}), ["ipam", ""]),
        ("host-local", json!({"ipam": {"type": "host-local"}, "runtimeConfig": null}), ["range", ""]),
        ("host-local", json!({"ipam": {"ranges": [[]]}, "runtimeConfig": null}), ["range", "empty"]),
        ("host-local", json!({"ipam": {"ranges": [[{}]]}, "runtimeConfig": null}), ["subnet", ""]),
        (
            "host-local",
            json!({"ipam": {"ranges": [[{"subnet": "10.88.0.0/24"}, {"subnet": "fd00:88::/64"}]]}}),
            ["10.88.0", "fd00:88:"],
        ),
        (
            "host-local",
            json!({"ipam": {"ranges": [[{"subnet": "10.88.0.0/24"}], [{"subnet": "10.88.0.0/16"}]]}}),
            ["10.88.0", "overlap"],
        ),
    ];
    for (plugin, keys, names) in rows {
        let sandbox = crate::sandbox();
        let container = sandbox.container("ctr1");
        let before = State::capture(&sandbox, &[&container]);
        let outcome = call(&sandbox, plugin, Verb::Add, &container).config(&with(&rich(plugin), &keys)).run();
        let error = outcome.error();
        assert!([2, 6, 7].contains(&error.code), "{keys}: {outcome}");
        let said = format!("{}: {}", error.msg, error.details).to_lowercase();
        assert!(names.iter().all(|name| said.contains(name)), "{names:?} for {keys}: {outcome}");
        state::assert_same(&before, &State::capture(&sandbox, &[&container]));
    }
}

/// Values that the reference takes, odd as they are.
#[test]
fn odd_values_that_the_reference_takes_are_taken() {
    let rows = [
        ("bridge", json!({"mtu": 0})),
        ("bridge", json!({"mtu": -5})),
        ("bridge", json!({"runtimeConfig": {"mac": ""}, "args": {"cni": {"mac": ""}}})),
        ("bridge", json!({"ipMasqBackend": null})),
        ("ptp", json!({"mtu": -5, "ipMasqBackend": null})),
        ("host-local", json!({"ipam": {"ranges": [[{"subnet": "10.88.0.0/024"}]]}, "args": {}, "runtimeConfig": {}})),
        ("host-local", json!({"ipam": {"subnet": "10.88.0.0/24", "dataDir": ""}, "args": {}, "runtimeConfig": {}})),
        ("firewall", json!({"backend": ""})),
        ("firewall", json!({"backend": "none", "ingressPolicy": ""})),
        ("firewall", json!({"iptablesAdminChainName": "", "ingressPolicy": ""})),
        ("portmap", json!({"runtimeConfig": {"portMappings": []}})),
        ("portmap", json!({"runtimeConfig": {}})),
        ("portmap", json!({"markMasqBit": 0})),
        ("portmap", json!({"conditionsV4": [], "conditionsV6": []})),
        (
            "portmap",
            json!({"runtimeConfig": {"portMappings": [
                {"hostPort": 8080, "containerPort": 80, "protocol": "TCP", "hostIP": ""},
            ]}}),
        ),
    ];
    for (plugin, keys) in rows {
        let sandbox = crate::sandbox();
        let container = sandbox.container("ctr1");
        let config = with(&rich(plugin), &keys);
        let outcome = call(&sandbox, plugin, Verb::Add, &container).config(&config).run();
        assert!(outcome.succeeded(), "{keys}: {outcome}");
    }
}

/// DEL and GC clean up what they can, CHECK and STATUS refuse what they look at; none crashes,
/// prints more than one object, or changes a machine where there is nothing to clean up. A first
/// ADD and DEL have made what all containers share.
#[test]
fn no_command_crashes_or_leaves_a_trace_whatever_a_key_holds() {
    for plugin in plugins::that_can_add() {
        let sandbox = crate::sandbox();
        let container = sandbox.container("ctr1");
        for verb in [Verb::Add, Verb::Del] {
            call(&sandbox, plugin, verb, &container).config(&rich(plugin)).run().expect_success();
        }
        let before = State::capture(&sandbox, &[&container]);
        let nulls = KEYS.iter().filter(|(of, pointer, _)| *of == plugin && pointer.ends_with("/0"));
        let nulls = nulls.map(|(_, pointer, _)| ((*pointer).to_owned(), json!(null)));
        let result = ["interfaces", "ips", "routes"].map(|list| (format!("/prevResult/{list}/0"), json!(null)));
        let rows = of_wrong_types(plugin).into_iter().chain(of_unusable_values(plugin)).chain(nulls).chain(result);
        for (pointer, value) in rows {
            let config = with(&changed(plugin, &pointer, &value), &json!({"cniVersion": "1.1.0"}));
            for verb in VERBS.into_iter().filter(|verb| *verb != Verb::Add) {
                assert_orderly(&call(&sandbox, plugin, verb, &container).config(&config), &pointer, &value);
            }
        }
        let changes = state::diff(&before, &State::capture(&sandbox, &[&container]));
        assert!(changes.is_empty(), "{plugin} left behind:\n{}", changes.join("\n"));
    }
}

/// In a list of objects, `null` ends a Go plugin with status 2.
#[test]
fn add_does_not_crash_on_null_in_a_list() {
    let lists =
        KEYS.iter().filter(|(_, pointer, _)| pointer.ends_with("/0")).map(|(plugin, pointer, _)| (*plugin, *pointer));
    let results = ["firewall", "portmap", "loopback", "tuning", "sbr", "bandwidth"].into_iter().flat_map(|plugin| {
        ["/prevResult/interfaces/0", "/prevResult/ips/0", "/prevResult/routes/0"].map(|at| (plugin, at))
    });
    for (plugin, pointer) in lists.chain(results) {
        let sandbox = crate::sandbox();
        let container = sandbox.container("ctr1");
        let config = changed(plugin, pointer, &json!(null));
        assert_orderly(&call(&sandbox, plugin, Verb::Add, &container).config(&config), pointer, &json!(null));
    }
}

#[track_caller]
fn assert_orderly(call: &Invocation, pointer: &str, value: &Value) {
    let outcome = call.run();
    match outcome.code() {
        Some(0) => {
            let said = outcome.stdout();
            let one = said.is_empty() || serde_json::from_str::<Value>(said).is_ok();
            assert!(one, "{pointer} = {value}: {outcome}");
        }
        Some(1) => drop(outcome.error()),
        _ => panic!("{pointer} = {value}: {outcome}"),
    }
}
