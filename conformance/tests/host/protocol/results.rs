//! How results are printed: each version in its own shape, to the byte.
//!
//! Indented by four, no newline at the end. Since 1.0.0 keys are sorted; before, they stand in the
//! order of the SPEC and an empty `dns` is always there. Up to 0.2.0 there is one address of each
//! family and no interface.

use cni_conformance::{Container, Network, Outcome, Sandbox, State, Verb, plugins, state};
use serde_json::{Value, json};

use crate::protocol::{call, config, versions_of, with};

mod golden;

/// A machine with the container `ctr1`.
struct ResultHost {
    sandbox: Sandbox,
    container: Container,
}

impl ResultHost {
    fn new() -> Self {
        let sandbox = crate::protocol::sandbox();
        let container = sandbox.container("ctr1");
        Self { sandbox, container }
    }

    fn run(&self, plugin: &str, verb: Verb, config: &Value) -> Outcome {
        call(&self.sandbox, plugin, verb, &self.container).config(config).run()
    }

    /// Runs an ADD that must print this, and nothing else.
    #[track_caller]
    fn prints(&self, plugin: &str, config: &Value, golden: &str) {
        let outcome = self.run(plugin, Verb::Add, config);
        outcome.expect_success();
        assert_eq!(outcome.stdout(), golden, "{outcome}");
    }
}

#[test]
fn host_local_prints_each_version_in_its_shape() {
    let resolv_conf = "nameserver 192.0.2.53\ndomain example.org\nsearch a.example b.example\noptions ndots:2\n";
    for version in versions_of("host-local") {
        let machine = ResultHost::new();
        std::fs::write("/run/resolv.conf", resolv_conf).expect("write a resolv.conf");
        let mut config = config("host-local", version);
        config["ipam"]["ranges"] = json!([[{"subnet": "10.88.0.0/24"}], [{"subnet": "fd00:88::/64"}]]);
        config["ipam"]["routes"] = json!([{"dst": "0.0.0.0/0"}, {"dst": "fd00:99::/64", "gw": "fd00:88::9"}]);
        config["ipam"]["resolvConf"] = json!("/run/resolv.conf");
        machine.prints("host-local", &config, &golden::HOST_LOCAL.of(version));
    }
}

/// Go prints the shape of 1.0.0 for every version that is given; SPEC and Nomad want the version's.
#[test]
fn loopback_prints_each_version_in_its_shape() {
    for version in versions_of("loopback") {
        ResultHost::new().prints("loopback", &config("loopback", version), &golden::LOOPBACK.of(version));
    }
}

#[test]
fn bridge_prints_each_version_in_its_shape() {
    for version in versions_of("bridge") {
        let machine = ResultHost::new();
        let outcome = machine.run("bridge", Verb::Add, &config("bridge", version));
        outcome.expect_success();
        let host = Network::observe(machine.sandbox.host());
        let port = host.links.iter().find(|link| link.kind.as_deref() == Some("veth")).expect("a port of the bridge");
        let golden = golden::BRIDGE
            .of(version)
            .replace("BRIDGE_MAC", &host.link("br0").expect("br0").mac)
            .replace("PORT_MAC", &port.mac)
            .replace("ETH0_MAC", &Network::observe(&machine.container).link("eth0").expect("eth0").mac)
            .replace("PORT", &port.name);
        assert_eq!(outcome.stdout(), golden, "{outcome}");
    }
}

/// All that a result of 1.1.0 may hold; `x-` keys are nobody's.
fn full() -> Value {
    json!({
        "interfaces": [
            {"name": "br0", "mac": "aa:aa:aa:aa:aa:aa", "mtu": 1400, "x-a": 1},
            {"name": "eth0", "mac": "a<b&c>", "sandbox": "/run/netns/ctr1", "socketPath": "/s", "pciID": "00:1f.6"},
        ],
        "ips": [{"address": "10.88.0.5/24", "gateway": "10.88.0.1", "interface": 1, "x-b": {}}],
        "routes": [{
            "dst": "10.9.0.1/16", "gw": "10.88.0.9", "mtu": 1300, "advmss": 1200, "priority": 7, "table": 0, "scope": 253,
        }],
        "dns": {"nameservers": ["192.0.2.53"], "domain": "example.org", "search": ["a"], "options": ["b"]},
        "x-c": [],
    })
}

/// The members that older plugins know no version of are dropped, HTML is escaped, zero is kept
/// where it is a value. Go v1.1.1 drops more.
#[test]
fn a_chained_plugin_prints_what_it_got_without_unknown_members() {
    passes_through(golden::FULL_SORTED, &["1.0.0", "1.1.0"]);
}

#[test]
fn a_chained_plugin_prints_0_4_0_in_the_order_of_its_spec() {
    passes_through(golden::FULL_DECLARED, &["0.3.0", "0.3.1", "0.4.0"]);
}

/// Requires that every chained plugin prints this in its versions of these.
#[track_caller]
fn passes_through(golden: &str, versions: &[&str]) {
    let machine = ResultHost::new();
    // It adds two interfaces.
    for plugin in plugins::that_read_prev_result().into_iter().filter(|plugin| *plugin != "tc-redirect-tap") {
        for version in versions_of(plugin).iter().filter(|version| versions.contains(version)) {
            let config = with(&config(plugin, version), &json!({"prevResult": full()}));
            machine.prints(plugin, &config, &golden.replace("VERSION", version));
        }
    }
}

#[test]
fn check_and_del_print_nothing() {
    for plugin in plugins::that_can_add() {
        for version in ["0.4.0", "1.0.0", "1.1.0"] {
            let machine = ResultHost::new();
            let mut config = config(plugin, version);
            config["prevResult"] = machine.run(plugin, Verb::Add, &config).result();
            for verb in [Verb::Check, Verb::Del, Verb::Del] {
                let outcome = machine.run(plugin, verb, &config);
                assert_eq!((outcome.code(), outcome.stdout()), (Some(0), ""), "{outcome}");
            }
        }
    }
}

/// The kernel clears the host bits of an IPv6 destination, and refuses an IPv4 one that has some: an example of cri-o has the first.
#[test]
fn a_route_with_host_bits_passes_check_or_is_refused_before_anything_is_made() {
    let refused = "failed to add route to 10.96.0.1/12: the destination has host bits; write 10.96.0.0/12";
    for plugin in ["bridge", "ptp", "tap"] {
        let machine = ResultHost::new();
        let config = |dst: &str| {
            let addresses = json!([{"address": "10.88.0.5/24", "gateway": "10.88.0.1"}, {"address": "fd88::5/64", "gateway": "fd88::1"}]);
            let ipam = json!({"type": "static", "addresses": addresses, "routes": [{"dst": dst}]});
            with(&config(plugin, "1.0.0"), &json!({"ipam": ipam}))
        };
        let before = State::capture(&machine.sandbox, &[&machine.container]);
        let error = machine.run(plugin, Verb::Add, &config("10.96.0.1/12")).expect_error(7, refused);
        assert_eq!(error.details, "", "{plugin}");
        state::assert_same(&before, &State::capture(&machine.sandbox, &[&machine.container]));
        let config = config("1100:200::1/24");
        let result = machine.run(plugin, Verb::Add, &config).result();
        assert_eq!(result["routes"][0]["dst"], "1100:200::1/24", "{plugin}");
        machine.run(plugin, Verb::Check, &with(&config, &json!({"prevResult": result}))).expect_success();
    }
}
