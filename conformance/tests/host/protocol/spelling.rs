//! Keys in any case, keys that come twice, and `null`.
//!
//! Go's decoder takes keys without regard to case and the last of several; runtimes rely on it:
//! go-cni sends `HostPort`. What is `null` is as good as not there.

use cni_conformance::state::differences;
use cni_conformance::{Invocation, Namespace, Network, Sandbox, State, Verb, plugins};
use serde_json::{Map, Value, json};

use crate::protocol::keys::{self, KEYS};
use crate::protocol::{LEASES, UPLINK, call, config, with};

/// A configuration with every key that changes what ADD leaves.
pub fn rich(plugin: &str) -> Value {
    let ipam = json!({
        "type": "host-local", "dataDir": "/run/other",
        "ranges": [[{"subnet": "10.88.0.0/24", "rangeStart": "10.88.0.10", "rangeEnd": "10.88.0.20", "gateway": "10.88.0.3"}]],
        "routes": [{"dst": "10.9.0.0/16", "gw": "10.88.0.9"}],
    });
    let keys = match plugin {
        "loopback" => json!({}),
        "bridge" => json!({
            "bridge": "br7", "isGateway": true, "isDefaultGateway": true, "ipMasq": true, "mtu": 1400,
            "hairpinMode": true, "portIsolation": true, "ipam": ipam,
            "dns": {"nameservers": ["192.0.2.53"], "domain": "d", "search": ["s"], "options": ["o"]},
            "args": {"cni": {"mac": "02:00:00:00:00:0a"}},
        }),
        "host-device" => json!({
            "device": "ens1", "hwaddr": "02:00:00:00:00:0a", "kernelpath": "/sys/devices/x", "DPDKMode": true, "ipam": ipam,
            "dns": {"nameservers": ["192.0.2.53"], "domain": "d", "search": ["s"], "options": ["o"]},
        }),
        "ptp" => json!({
            "ipMasq": true, "ipMasqBackend": "iptables", "mtu": 1400, "ipam": ipam,
            "dns": {"nameservers": ["192.0.2.53"], "domain": "d", "search": ["s"], "options": ["o"]},
        }),
        "dummy" => json!({
            "ipam": ipam, "dns": {"nameservers": ["192.0.2.53"], "domain": "d", "search": ["s"], "options": ["o"]},
        }),
        "macvlan" => json!({
            "master": UPLINK, "mode": "private", "mtu": 1400, "mac": "02:00:00:00:00:0a", "bcqueuelen": 77, "ipam": ipam,
            "dns": {"nameservers": ["192.0.2.53"], "domain": "d", "search": ["s"], "options": ["o"]},
        }),
        "vlan" => json!({
            "master": UPLINK, "vlanId": 7, "mtu": 1400, "ipam": ipam,
            "dns": {"nameservers": ["192.0.2.53"], "domain": "d", "search": ["s"], "options": ["o"]},
        }),
        "ipvlan" => json!({
            "master": UPLINK, "mode": "l3", "mtu": 1400, "ipam": ipam,
            "dns": {"nameservers": ["192.0.2.53"], "domain": "d", "search": ["s"], "options": ["o"]},
        }),
        "tap" => json!({
            "owner": 1000, "group": 1000, "multiQueue": true, "mtu": 1400, "mac": "02:00:00:00:00:0a", "ipam": ipam,
            "dns": {"nameservers": ["192.0.2.53"], "domain": "d", "search": ["s"], "options": ["o"]},
        }),
        "host-local" => json!({
            "ipam": ipam, "args": {"cni": {"ips": ["10.88.0.15"]}},
            "runtimeConfig": {"ipRanges": [[{"subnet": "10.89.0.0/24"}]], "ips": ["10.89.0.7"]},
        }),
        "dhcp" => json!({
            "ipam": {
                "type": "dhcp", "daemonSocketPath": "/run/other.sock", "priority": 7,
                "request": [{"option": "121", "skipDefault": true}],
                "provide": [{"option": "12", "value": "web", "fromArg": "NAME"}],
            },
        }),
        "static" => json!({
            "ipam": {
                "type": "static", "addresses": [{"address": "10.88.0.6/24", "gateway": "10.88.0.1"}],
                "routes": [{"dst": "10.9.0.0/16", "gw": "10.88.0.9"}], "dns": {"nameservers": ["192.0.2.53"]},
            },
            "args": {"cni": {"ips": ["10.88.0.15"]}}, "runtimeConfig": {"ips": ["10.88.0.16/24"]},
        }),
        "firewall" => json!({"iptablesAdminChainName": "OTHER-ADMIN", "ingressPolicy": "same-bridge"}),
        "portmap" => json!({
            "snat": true, "masqAll": true, "markMasqBit": 5, "conditionsV4": ["!", "-d", "192.0.2.0/24"],
            "runtimeConfig": {"portMappings": [
                {"hostPort": 8080, "containerPort": 80, "protocol": "tcp", "hostIP": "192.0.2.1"},
            ]},
        }),
        "consul-cni" => json!({
            "log_level": "error", "cni_bin_dir": "/opt/cni/bin", "cni_net_dir": "/etc/cni/net.d", "kubeconfig": "k", "multus": true,
        }),
        "sbr" => json!({"table": 70_000}),
        "vrf" => json!({"vrfname": "red", "table": 70_000}),
        // There is no veth here that could be limited.
        "bandwidth" => json!({
            "ingressRate": 0, "ingressBurst": 0, "egressRate": 0, "egressBurst": 0,
            "runtimeConfig": {"bandwidth": {"ingressRate": 0, "ingressBurst": 0, "egressRate": 0, "egressBurst": 0}},
        }),
        "tuning" => json!({
            "sysctl": {"net.ipv4.conf.IFNAME.rp_filter": "1"}, "mac": "02:00:00:00:00:0a", "promisc": true, "mtu": 1300,
            "allmulti": true, "txQLen": 500, "dataDir": "/run/other", "args": {"cni": {"txQLen": 700}},
        }),
        other => panic!("no plugin {other}"),
    };
    with(&config(plugin, "1.0.0"), &keys)
}

/// What an ADD answered and left, without what is random.
struct Left {
    answer: Value,
    state: Vec<String>,
}

/// Runs ADD on a new machine.
fn left_by(plugin: &str, input: &str) -> Left {
    let sandbox = crate::protocol::sandbox();
    let container = sandbox.container("ctr1");
    let outcome = prepare(&sandbox, plugin, &container, input).run();
    assert!(matches!(outcome.code(), Some(0 | 1)), "{outcome}");
    let answer =
        if outcome.succeeded() { outcome.result() } else { serde_json::from_str(outcome.stdout()).expect("JSON") };
    let lines = State::capture(&sandbox, &[&container]).lines();
    let random = random_names(&sandbox);
    // An index that a plugin keeps for itself beside leases holds times.
    let state = lines.iter().filter(|line| !line.contains("/.cni-plugins-rs/")).map(|line| hide(line, &random));
    let state = state.collect();
    let answer = serde_json::from_str(&hide(&answer.to_string(), &random)).expect("JSON");
    Left { answer, state }
}

#[track_caller]
fn assert_equal(left: &Left, want: &Left, what: &str) {
    assert_eq!(left.answer, want.answer, "{what}");
    let changes = differences(&want.state, &left.state);
    assert!(changes.is_empty(), "{what} left something else:\n{}", changes.join("\n"));
}

fn prepare(sandbox: &Sandbox, plugin: &str, container: &Namespace, input: &str) -> Invocation {
    call(sandbox, plugin, Verb::Add, container).stdin(input.as_bytes())
}

/// Returns names and addresses of links that no configuration decides, on either side.
fn random_names(sandbox: &Sandbox) -> Vec<String> {
    let containers = [sandbox.host().clone(), sandbox.host().clone()];
    let links = containers.iter().flat_map(|namespace| Network::observe(namespace).links);
    let inside = sandbox.exec(&["ip", "-n", "ctr1", "-brief", "link", "show", "dev", "eth0"]).stdout;
    let mac = inside.split_whitespace().nth(2).map(str::to_owned).filter(|mac| !mac.starts_with("02:00:00:00"));
    let random = links.filter(|link| link.name != "lo").flat_map(|link| {
        let veth = link.name.starts_with("veth").then_some(link.name);
        [Some(link.mac), veth].into_iter().flatten()
    });
    random.chain(mac).collect()
}

fn hide(text: &str, random: &[String]) -> String {
    random.iter().fold(text.to_owned(), |text, name| text.replace(name.as_str(), "RANDOM"))
}

fn with_keys(value: &Value, change: fn(&str) -> String) -> Value {
    match value {
        Value::Object(entries) => {
            // The names of parameters are the kernel's.
            let below = |key: &str, value| if key == "sysctl" { Value::clone(value) } else { with_keys(value, change) };
            let changed = entries.iter().map(|(key, value)| (change(key), below(key, value)));
            Value::Object(changed.collect::<Map<_, _>>())
        }
        Value::Array(items) => items.iter().map(|item| with_keys(item, change)).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

fn pascal(key: &str) -> String {
    let mut letters = key.chars();
    letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect()
}

#[test]
fn keys_are_taken_in_any_case() {
    for plugin in plugins::that_can_add() {
        let config = rich(plugin);
        let want = left_by(plugin, &config.to_string());
        assert!(want.answer["cniVersion"] == json!("1.0.0"), "{plugin}: {}", want.answer);
        let changes: [fn(&str) -> String; 3] = [str::to_uppercase, str::to_lowercase, pascal];
        for change in changes {
            let text = with_keys(&config, change).to_string();
            assert_equal(&left_by(plugin, &text), &want, &format!("{plugin} with {text}"));
        }
    }
}

/// Puts a second pair in front of the last brace.
fn and(config: &Value, pair: &str) -> String {
    let text = config.to_string();
    format!("{},{pair}}}", text.strip_suffix('}').expect("an object"))
}

#[test]
fn the_last_of_equal_keys_wins_whatever_their_case() {
    for plugin in plugins::that_can_add() {
        let last = left_by(plugin, &and(&config(plugin, "1.0.0"), "\"CNIVERSION\":\"1.1.0\""));
        assert_eq!(last.answer["cniVersion"], json!("1.1.0"), "{plugin}: {}", last.answer);
        let wrong = with(&config(plugin, "1.0.0"), &json!({"cniVersion": "9.9.9"}));
        let first = left_by(plugin, &and(&wrong, "\"cniVersion\":\"1.0.0\""));
        assert_eq!(first.answer["cniVersion"], json!("1.0.0"), "{plugin}: {}", first.answer);
    }
    for (plugin, first, second, key, value) in [
        ("bridge", json!({"bridge": "br1"}), "\"BRIDGE\":\"br2\"", "bridge", json!("br2")),
        ("firewall", json!({"ingressPolicy": "bogus"}), "\"ingresspolicy\":\"open\"", "ingressPolicy", json!("open")),
        ("firewall", json!({"ingressPolicy": "bogus"}), "\"ingressPolicy\":\"open\"", "ingressPolicy", json!("open")),
        ("portmap", json!({"snat": true}), "\"Snat\":false", "snat", json!(false)),
        ("portmap", json!({"snat": false}), "\"SNAT\":true", "snat", json!(true)),
        ("host-local", json!({"name": "n2"}), "\"NAME\":\"n3\"", "name", json!("n3")),
    ] {
        let twice = left_by(plugin, &and(&with(&config(plugin, "1.0.0"), &first), second));
        let once = left_by(plugin, &with(&config(plugin, "1.0.0"), &json!({key: value})).to_string());
        assert_equal(&twice, &once, &format!("{plugin} with {second} behind {first}"));
    }
}

/// A later `null` takes nothing back.
#[test]
fn a_null_behind_a_value_leaves_it() {
    for (plugin, key, null) in [
        ("bridge", json!({"bridge": "br2"}), "\"bridge\":null"),
        ("firewall", json!({"iptablesAdminChainName": "OTHER"}), "\"iptablesadminchainname\":null"),
        ("portmap", json!({"masqAll": true}), "\"masqAll\":null"),
        ("host-local", json!({"name": "n2"}), "\"name\":null"),
        ("loopback", json!({"cniVersion": "1.1.0"}), "\"cniVersion\":null"),
    ] {
        let config = with(&config(plugin, "1.0.0"), &key);
        let (with_null, without) = (left_by(plugin, &and(&config, null)), left_by(plugin, &config.to_string()));
        assert_equal(&with_null, &without, &format!("{plugin} with {null}"));
    }
}

/// Every key that a plugin has, one after the other. Go has other words for a subnet that is `null`.
#[test]
fn null_is_the_same_as_absent() {
    for &(plugin, pointer, _) in KEYS.iter().filter(|(_, pointer, _)| !pointer.ends_with("/0")) {
        let mut null = rich(plugin);
        keys::set(&mut null, pointer, json!(null));
        let mut absent = null.clone();
        keys::remove(&mut absent, pointer);
        let (null, absent) = (left_by(plugin, &null.to_string()), left_by(plugin, &absent.to_string()));
        assert_equal(&null, &absent, &format!("{plugin} with {pointer}: null"));
    }
}

/// Nomad's clients of old have leases in this place; a key in another case must not move them.
#[test]
fn the_ipam_plugin_reads_the_same_bytes_as_bridge() {
    let mut config = config("bridge", "1.0.0");
    config["ipam"] = json!({"TYPE": "host-local", "Subnet": "10.88.0.0/24", "DATADIR": LEASES});
    let left = left_by("bridge", &config.to_string());
    assert_eq!(left.answer["ips"][0]["address"], json!("10.88.0.2/24"), "{}", left.answer);
    let lease = format!("files: {LEASES}/n1/10.88.0.2 ");
    assert!(left.state.iter().any(|line| line.starts_with(&lease)), "{lease} in {:#?}", left.state);
}
