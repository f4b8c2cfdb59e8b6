//! The vrf plugin, where the kernel has links of that kind.

use std::ops::Deref;

use cni_conformance::Verb::{Add, Check, Del};
use cni_conformance::cases::for_each;
use cni_conformance::injection::calls_of;
use cni_conformance::keys::with;
use cni_conformance::odd_names::{self, ODD_NAMES};
use cni_conformance::uml::on_a_kernel_with;
use cni_conformance::{
    Attachment, ChainedHost, Feature, Invocation, Loss, Network, Runtime, Sandbox, Verb, killed, page,
};
use serde_json::{Value, json};

/// A host, and a container `c1` with two interfaces.
struct VrfHost(ChainedHost);

impl Deref for VrfHost {
    type Target = ChainedHost;

    fn deref(&self) -> &ChainedHost {
        &self.0
    }
}

impl VrfHost {
    fn new() -> Self {
        let machine = Self(ChainedHost::new("vrf", "c1").about("net1"));
        machine.sandbox.host().ip(&[
            "link add host1 type veth peer name net1 netns c1",
            "link add host2 type veth peer name net2 netns c1",
            "link set host1 up",
            "link set host2 up",
        ]);
        machine.container.ip(&[
            "link set net1 up",
            "link set net2 up",
            "address add 10.91.0.2/24 dev net1",
            "address add 10.92.0.2/24 dev net2",
            "address add fd00:91::2/64 dev net1 nodad",
            "address add fd00:92::2/64 dev net2 nodad",
            "route add 10.99.0.0/16 via 10.91.0.1 metric 100",
            "route add 10.98.0.0/16 dev net1",
            "route add default via fd00:91::1 dev net1",
        ]);
        machine
    }

    fn inside(&self, line: &str) -> String {
        self.container.sh(line)
    }

    fn call(&self, verb: Verb, ifname: &str, keys: &Value) -> Invocation {
        self.0.call(verb, &with(&red(), keys)).ifname(ifname)
    }

    #[track_caller]
    fn succeeds(&self, verbs: &[Verb], ifname: &str) {
        for verb in verbs {
            self.call(*verb, ifname, &json!({})).run().expect_success();
        }
    }

    /// The links, and the interface's addresses without what the kernel generates for it.
    fn state(&self) -> (String, Vec<String>) {
        (self.links(), Network::observe(&self.container).addresses_of("net1"))
    }

    /// The routes of a table that do not belong to the kernel alone.
    fn routes(&self, table: &str) -> Vec<String> {
        let text =
            ["-4", "-6"].map(|family| self.container.exec(&["ip", family, "route", "show", "table", table]).stdout);
        let lines = text.iter().flat_map(|text| text.lines());
        let own = lines.filter(|line| line.contains(" via ") || line.starts_with("10.98"));
        own.map(|line| line.split_whitespace().take(5).collect::<Vec<_>>().join(" ")).collect()
    }

    /// The names of the container's links. Their states change when the kernel likes.
    fn links(&self) -> String {
        let links = self.inside("ip -brief link");
        links.lines().filter_map(|line| line.split(['@', ' ']).next()).collect::<Vec<_>>().join(" ")
    }

    fn is_under(&self, ifname: &str, master: &str) -> bool {
        self.inside(&format!("ip -o link show dev {ifname}")).contains(&format!(" master {master} "))
    }
}

fn red() -> Value {
    json!({"vrfname": "red"})
}

const MOVED: [&str; 3] =
    ["10.98.0.0/16 dev net1 scope link", "10.99.0.0/16 via 10.91.0.1 dev net1", "default via fd00:91::1 dev net1"];

#[test]
fn the_interface_moves_with_its_addresses_and_routes() {
    on_a_kernel_with(Feature::VrfLinks, || {
        let machine = VrfHost::new();
        machine.succeeds(&[Add, Check], "net1");
        assert!(machine.is_under("net1", "red"));
        assert_eq!(machine.routes("1"), MOVED);
        assert_eq!(machine.routes("main"), [""; 0]);
        let addresses = machine.inside("ip -o address show dev net1");
        assert!(addresses.contains("10.91.0.2/24"), "{addresses}");
        // The kernel generates the link-local address again, which may still be tentative.
        let moved = addresses.lines().find(|line| line.contains("fd00:91::2/64"));
        assert!(moved.is_some_and(|line| !line.contains("tentative")), "{addresses}");
    });
}

#[test]
fn two_vrfs_do_not_see_each_other() {
    on_a_kernel_with(Feature::VrfLinks, || {
        let machine = VrfHost::new();
        machine.inside("ip address add 10.91.0.3/24 dev net2");
        machine.sandbox.sh("ip address add 10.91.0.1/24 dev host1");
        machine.succeeds(&[Add], "net1");
        machine.call(Add, "net2", &json!({"vrfname": "blue"})).run().expect_success();
        let asks = |vrf: &str| machine.container.exec(&["ping", "-q", "-c", "1", "-W", "2", "-I", vrf, "10.91.0.1"]);
        assert_eq!(asks("red").code, Some(0));
        assert_ne!(asks("blue").code, Some(0), "the same network is another one there");
    });
}

#[test]
fn del_brings_the_routes_back() {
    on_a_kernel_with(Feature::VrfLinks, || {
        let machine = VrfHost::new();
        let before = machine.routes("main");
        machine.succeeds(&[Add, Del, Del], "net1");
        assert_eq!((machine.routes("main"), machine.links().contains("red")), (before, false));
    });
}

/// The network was renamed, or its ADD was refused.
#[test]
fn del_of_another_network_restores_the_interface_unless_its_add_was_refused() {
    on_a_kernel_with(Feature::VrfLinks, || {
        let machine = VrfHost::new();
        let before = machine.state();
        machine.succeeds(&[Add], "net1");
        let unusable = json!({"name": "n2", "vrfname": "more-than-fifteen-letters"});
        assert!(!machine.call(Add, "net1", &unusable).run().succeeded());
        machine.call(Del, "net1", &unusable).run().expect_success();
        assert!(machine.is_under("net1", "red"));
        machine.call(Del, "net1", &json!({"name": "n3"})).run().expect_success();
        assert_eq!(machine.state(), before);
        assert_eq!(machine.routes("main"), MOVED);
    });
}

#[test]
fn the_vrf_goes_with_its_last_interface() {
    on_a_kernel_with(Feature::VrfLinks, || {
        let machine = VrfHost::new();
        machine.succeeds(&[Add], "net1");
        machine.succeeds(&[Add, Check], "net2");
        machine.succeeds(&[Del, Del], "net1");
        machine.succeeds(&[Check, Del, Del], "net2");
        assert!(!machine.links().contains("red"));
    });
}

#[test]
fn add_can_be_repeated() {
    on_a_kernel_with(Feature::VrfLinks, || {
        let machine = VrfHost::new();
        machine.succeeds(&[Add, Add, Check], "net1");
        assert_eq!(machine.routes("1"), MOVED);
    });
}

#[test]
fn a_vrf_that_is_down_is_set_up() {
    on_a_kernel_with(Feature::VrfLinks, || {
        let machine = VrfHost::new();
        machine.succeeds(&[Add], "net1");
        machine.inside("ip link set red down");
        let error = machine.call(Check, "net1", &json!({})).run().error();
        assert_eq!(error.msg, "Interface red in the container namespace is down");
        machine.succeeds(&[Add, Check], "net1");
    });
}

#[test]
fn tables_in_use_are_not_chosen() {
    on_a_kernel_with(Feature::VrfLinks, || {
        let machine = VrfHost::new();
        machine.inside("ip route add 10.7.0.0/16 dev net2 table 1");
        machine.inside("ip rule add from 10.7.0.1 lookup 2");
        machine.succeeds(&[Add], "net1");
        assert!(machine.inside("ip -details link show dev red").contains("vrf table 3"));
    });
}

#[test]
fn a_failed_add_leaves_nothing() {
    on_a_kernel_with(Feature::VrfLinks, || {
        let machine = VrfHost::new();
        machine.inside("ip link add br0 type bridge");
        machine.inside("ip link set net2 master br0");
        let before = (machine.links(), machine.routes("main"));
        for (ifname, keys, code, text) in [
            ("net2", json!({}), 103, "interface net2 has already a master set: br0"),
            ("net1", json!({"vrfname": "br0"}), 103, "Netlink br0 is not a VRF"),
            ("net9", json!({}), 101, "could not get link by name net9"),
            ("lo", json!({}), 101, ""),
            ("net1", json!({"vrfname": ""}), 7, "configuration is expected to have a valid vrf name"),
            ("net1", json!({"prevResult": null}), 7, "missing prevResult from earlier plugin"),
        ] {
            machine.call(Add, ifname, &keys).run().expect_error(code, text);
            assert_eq!((machine.links(), machine.routes("main")), before);
        }
        machine.succeeds(&[Add], "net1");
        let text = "VRF red already exist with different routing table 1";
        machine.call(Add, "net1", &json!({"table": 9})).run().expect_error(103, text);
    });
}

#[test]
fn del_leaves_other_masters_and_needs_no_interface() {
    on_a_kernel_with(Feature::VrfLinks, || {
        let machine = VrfHost::new();
        machine.succeeds(&[Add], "net1");
        machine.inside("ip link add br0 type bridge");
        machine.inside("ip link set net2 master br0");
        machine.succeeds(&[Del], "net2");
        assert!(machine.is_under("net2", "br0"));
        machine.inside("ip link del net1");
        machine.call(Del, "net1", &json!({"prevResult": null})).run().expect_success();
        assert!(!machine.links().contains("red"));
        for path in ["", "/run/netns/none"] {
            machine.call(Del, "net1", &json!({})).netns(path).run().expect_success();
        }
        machine.container.unmount();
        machine.succeeds(&[Del], "net1");
    });
}

#[test]
fn del_removes_a_vrf_under_any_name_that_the_kernel_allows() {
    on_a_kernel_with(Feature::VrfLinks, || {
        for_each(ODD_NAMES, |name| {
            let machine = VrfHost::new();
            machine.succeeds(&[Add], "net1");
            odd_names::rename(&machine.container, "red", name);
            machine.succeeds(&[Del], "net1");
            assert_eq!(machine.inside("ip -o link show type vrf"), "");
        });
    });
}

#[test]
fn whatever_was_lost_del_succeeds_twice_and_leaves_no_vrf() {
    on_a_kernel_with(Feature::VrfLinks, || {
        for_each(Loss::ALL.map(|loss| (loss, loss)), |loss| {
            let machine = VrfHost::new();
            machine.succeeds(&[Add], "net1");
            let del = machine.del_after(loss, &red());
            for _ in 0..2 {
                del.run().expect_success();
                let is_out_of_reach = loss.ends_the_namespace() || loss == Loss::NetnsPath;
                assert!(is_out_of_reach || !machine.links().contains("red"));
            }
        });
    });
}

/// A runtime has no result of an ADD that was killed. Whenever that was, DEL leaves what was before; but for the routes, which
/// go while the interface changes its place and which nobody else knows.
#[test]
fn del_takes_away_what_a_killed_add_made() {
    on_a_kernel_with(Feature::VrfLinks, || {
        let then = |machine: &VrfHost, before: &(String, Vec<String>)| {
            machine.call(Del, "net1", &json!({"prevResult": null})).run().expect_success();
            assert_eq!(machine.state(), *before);
            assert!(!machine.inside("ip -o link show dev net1").contains(" master "));
            machine.succeeds(&[Add, Check, Del], "net1");
        };
        killed::at_each_moment(8, VrfHost::new, |machine| machine.call(Add, "net1", &json!({})), VrfHost::state, then);
    });
}

/// One machine for all: an ADD that fails leaves what was before.
#[test]
fn an_add_is_rolled_back_whichever_call_fails() {
    on_a_kernel_with(Feature::VrfLinks, || {
        let machine = VrfHost::new();
        // Nobody waits for other owners of the addresses, a second each time.
        machine.inside("sysctl -qw net.ipv6.conf.net1.accept_dad=0");
        let all = || (machine.state(), machine.routes("main"));
        let before = all();
        let add = machine.call(Add, "net1", &json!({}));
        let calls = calls_of(&add);
        machine.succeeds(&[Del], "net1");
        assert!(calls.len() > 20, "{}", calls.len());
        for_each(calls.into_iter().map(|call| (call.label(), call)), |system_call| {
            let injected = system_call.fail_in(&add);
            if injected.outcome.succeeded() {
                machine.succeeds(&[Check, Del], "net1");
            } else {
                injected.expect_error();
            }
            assert_eq!(all(), before);
        });
    });
}

/// IPv6 addresses, and the routes by them, go where the kernel cannot be told to keep them; an ADD makes sure, a DEL does not
/// wait for it.
#[test]
fn whatever_call_of_del_fails_the_next_one_succeeds_and_the_routes_are_restored() {
    on_a_kernel_with(Feature::VrfLinks, || {
        let machine = VrfHost::new();
        machine.inside("sysctl -qw net.ipv6.conf.net1.accept_dad=0");
        let all = || (machine.links(), machine.routes("main"));
        let before = all();
        machine.succeeds(&[Add], "net1");
        let del = machine.call(Del, "net1", &json!({}));
        let calls = calls_of(&del);
        assert!(calls.len() > 20, "{}", calls.len());
        for_each(calls.into_iter().map(|call| (call.label(), call)), |system_call| {
            machine.succeeds(&[Add], "net1");
            let injected = system_call.fail_in(&del);
            if !injected.outcome.succeeded() {
                injected.expect_error();
                machine.succeeds(&[Del], "net1");
            }
            if !machine.inside("ip -6 address show dev net1").contains("fd00:91::2/64") {
                machine.inside("ip address add fd00:91::2/64 dev net1 nodad");
                machine.inside("ip route add default via fd00:91::1 dev net1");
            }
            assert_eq!(all(), before);
        });
    });
}

#[test]
fn the_example_of_the_page_does_what_it_says() {
    on_a_kernel_with(Feature::VrfLinks, || {
        let list = page::example(include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../plugins/vrf/README.md")));
        let sandbox = Sandbox::new();
        let runtime = Runtime::new(&sandbox, list);
        let container = sandbox.container("c1");
        let mut attachment = Attachment::new("c1", &container);
        runtime.add(&mut attachment).expect_success();
        runtime.check(&attachment).expect_success();
        container.sh("ping -q -c 1 -W 2 -I red 10.95.0.1");
        assert!(container.sh("ip route show vrf red").contains("10.96.0.0/16 via 10.95.0.1"));
        runtime.del(&attachment).expect_success();
        assert!(!container.sh("ip -brief link").contains("red"));
    });
}

/// The local routes of a link in a VRF are in the VRF's table. ADD of bridge waits for the one of the gateway.
#[test]
fn add_of_a_bridge_in_a_vrf_finds_its_gateway() {
    on_a_kernel_with(Feature::VrfLinks, || {
        let sandbox = Sandbox::new();
        sandbox.host().ip(&[
            "link add red type vrf table 10",
            "link set red up",
            "link add br0 type bridge",
            "link set br0 master red",
        ]);
        let ipam = json!({"type": "host-local", "ranges": [[{"subnet": "fd00:1::/64"}]], "dataDir": "/run/ipam"});
        let plugin = json!({"type": "bridge", "bridge": "br0", "isGateway": true, "ipam": ipam});
        let list = json!({"cniVersion": "1.0.0", "name": "net1", "plugins": [plugin]});
        let chain = Runtime::new(&sandbox, list).add(&mut Attachment::new("c1", &sandbox.container("c1")));
        chain.expect_success();
        assert_eq!(chain.step("bridge").stderr(), "", "a warning of addresses that are not accepted");
    });
}
