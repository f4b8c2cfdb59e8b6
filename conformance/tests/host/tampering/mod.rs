//! What a container does to its own namespace affects only itself, and DEL removes everything of the container,
//! whatever it has become, and nothing of others.

use std::time::Duration;

use cni_conformance::cases::for_each;
use cni_conformance::traffic::ping;
use cni_conformance::{
    Attachment, CniTool, Container, Invocation, Network, Nomad, Runtime, Sandbox, Skeleton, State, Verb,
};
use serde_json::{Value, json};

mod deeds;

/// A machine with Nomad's network of both families.
struct TamperedHost {
    sandbox: Sandbox,
    nomad: Nomad,
}

/// Who made a container's veth: the reference sets no alias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum VethMaker {
    Ours,
    Reference,
}

impl TamperedHost {
    fn new() -> Self {
        let (sandbox, nomad) = (Sandbox::new(), Nomad::version("1.0.0").dual_stack());
        nomad.ensure_forwarding_rules(&sandbox);
        Self { sandbox, nomad }
    }

    /// Without loopback, whose interface some containers here rename.
    fn list(&self) -> Value {
        let mut list = self.nomad.conflist();
        list["plugins"].as_array_mut().expect("plugins").remove(0);
        list
    }

    fn runtime(&self) -> Runtime<'_> {
        Runtime::new(&self.sandbox, self.list())
    }

    fn add(&self, name: &str, maker: VethMaker) -> (Container, Attachment) {
        let container = self.sandbox.container(name);
        let mut attachment = Attachment::new(name, &container);
        self.runtime().add(&mut attachment).expect_success();
        if maker == VethMaker::Reference {
            self.sandbox.host().must(&["ip", "link", "set", port(&attachment), "alias", ""]);
        }
        (container, attachment)
    }

    fn state(&self, containers: &[&Container]) -> State {
        let spaces: Vec<_> = containers.iter().map(|container| &***container).collect();
        State::capture(&self.sandbox, &spaces)
    }

    #[track_caller]
    fn assert_nothing_else(&self, before: &State, containers: &[&Container]) {
        Skeleton::of(&self.nomad).assert_nothing_else(before, || self.state(containers));
    }
}

fn port(attachment: &Attachment) -> &str {
    let result = attachment.result.as_ref().expect("the container is attached");
    result["interfaces"][1]["name"].as_str().expect("a name")
}

/// One line of `/sys/class/net/<link>/<about>` of the host.
fn about(machine: &TamperedHost, link: &str, about: &str) -> String {
    machine.sandbox.sh(&format!("cat /sys/class/net/{link}/{about}")).trim().to_owned()
}

/// The path of a process whose number has been given to another container's.
#[test]
fn del_with_another_containers_namespace_leaves_that_one_alone() {
    let makers = [VethMaker::Ours, VethMaker::Reference];
    let rows = makers.into_iter().flat_map(|old| makers.map(|neighbour| (old, neighbour)));
    for_each(rows.map(|row| (format!("{row:?}"), row)), |(old, neighbour)| {
        let machine = TamperedHost::new();
        let (neighbour, neighbours) = machine.add("neighbour", neighbour);
        let before = machine.state(&[&neighbour]);
        let (container, attachment) = machine.add("old", old);
        let elsewhere = attachment.clone().netns(neighbour.path());
        for _ in ["once", "again"] {
            let deleted = machine.runtime().del(&elsewhere);
            machine.runtime().check(&neighbours).expect_success();
            deleted.expect_success();
        }
        // What only the reference makes is deleted with the namespace.
        if old == VethMaker::Reference {
            container.remove();
        }
        machine.assert_nothing_else(&before, &[&neighbour]);
    });
}

#[test]
fn a_veth_of_the_reference_is_removed() {
    for_each([("with result", true), ("without result", false)], |with_result| {
        let machine = TamperedHost::new();
        let before = machine.state(&[]);
        let (container, attachment) = machine.add("c1", VethMaker::Reference);
        let attachment = if with_result { attachment } else { attachment.without_result() };
        machine.runtime().del(&attachment).expect_success();
        machine.assert_nothing_else(&before, &[]);
        assert_eq!(Network::observe(&container).link("eth0"), None);
    });
}

/// tuning has set the MAC address back when the DEL of the bridge comes, and the result still tells tuning's.
#[test]
fn a_veth_of_the_reference_is_removed_though_its_mac_address_has_changed() {
    for_each([("by tuning", true), ("by the container", false)], |by_tuning| {
        let machine = TamperedHost::new();
        let mut list = machine.list();
        if by_tuning {
            let tuning = json!({"type": "tuning", "mac": "02:00:00:00:00:0a"});
            list["plugins"].as_array_mut().expect("plugins").push(tuning);
        }
        let runtime = Runtime::new(&machine.sandbox, list);
        let add = |name| {
            let container = machine.sandbox.container(name);
            let mut attachment = Attachment::new(name, &container);
            runtime.add(&mut attachment).expect_success();
            (container, attachment)
        };
        // The folder of tuning stays.
        let (_first, of_first) = add("first");
        runtime.del(&of_first).expect_success();
        let before = machine.state(&[]);
        let (container, attachment) = add("c1");
        machine.sandbox.host().must(&["ip", "link", "set", port(&attachment), "alias", ""]);
        if !by_tuning {
            container.must(&["ip", "link", "set", "eth0", "address", "02:00:00:00:00:0b"]);
        }
        runtime.del(&attachment).expect_success();
        assert_eq!(Network::observe(&container).link("eth0"), None);
        machine.assert_nothing_else(&before, &[]);
    });
}

/// What a container may do to its interface, in order.
const DEEDS: [(&str, &[&str]); 8] = [
    ("renamed", &["ip link set eth0 down", "ip link set eth0 name eth9"]),
    ("lo in its place", &["ip link set eth0 down", "ip link set eth0 name eth9", "ip link set lo name eth0"]),
    (
        "lo in its place, and up",
        &["ip link set eth0 down", "ip link set eth0 name eth9", "ip link set lo name eth0", "ip link set eth0 up"],
    ),
    (
        "a bridge in its place",
        &["ip link set eth0 down", "ip link set eth0 name eth9", "ip link add eth0 type bridge", "ip link set eth0 up"],
    ),
    (
        "a veth in its place",
        &["ip link set eth0 down", "ip link set eth0 name eth9", "ip link add eth0 type veth peer name eth8"],
    ),
    ("another address", &["ip addr flush dev eth0", "ip addr add 172.26.64.99/20 dev eth0"]),
    ("an address of another family", &["ip addr flush dev eth0", "ip addr add fd00:99::1/64 dev eth0 nodad"]),
    ("another MAC address", &["ip link set eth0 down", "ip link set eth0 address 02:11:22:33:44:55"]),
];

#[test]
fn del_finds_the_interface_whatever_the_container_has_made_of_it() {
    for_each(DEEDS, |deeds| {
        for with_result in [true, false] {
            let machine = TamperedHost::new();
            let before = machine.state(&[]);
            let (container, attachment) = machine.add("c1", VethMaker::Ours);
            deeds.iter().for_each(|deed| drop(container.sh(deed)));
            let attachment = if with_result { attachment } else { attachment.without_result() };
            for _ in ["once", "again"] {
                machine.runtime().del(&attachment).expect_success();
                machine.assert_nothing_else(&before, &[]);
            }
        }
    });
}

/// The host's end shows whose the interface is, whichever namespace of the container has its other end.
#[test]
fn del_finds_an_interface_that_the_container_has_moved_on() {
    for_each([("with result", true), ("without result", false)], |with_result| {
        let machine = TamperedHost::new();
        let before = machine.state(&[]);
        let (container, attachment) = machine.add("c1", VethMaker::Ours);
        let nested = machine.sandbox.container("nested");
        container.sh("ip link set eth0 netns nested");
        nested.ip(&["addr add 172.26.64.2/20 dev eth0", "link set eth0 up"]);
        let attachment = if with_result { attachment } else { attachment.without_result() };
        for _ in ["once", "again"] {
            machine.runtime().del(&attachment).expect_success();
            assert_eq!(Network::observe(&nested).link("eth0"), None);
        }
        machine.assert_nothing_else(&before, &[]);
    });
}

/// The rules of a container are for its interface, wherever else it puts the addresses.
#[test]
fn an_address_elsewhere_in_the_container_keeps_no_rules() {
    let places: [(&str, &[&str]); 3] = [
        ("lo", &["ip link set lo up"]),
        ("eth9", &["ip link add eth9 type bridge", "ip link set eth9 up"]),
        ("eth8", &["ip link add eth8 type veth peer name eth7"]),
    ];
    for_each(places, |deeds| {
        for with_result in [true, false] {
            let machine = TamperedHost::new();
            let before = machine.state(&[]);
            let (container, attachment) = machine.add("c1", VethMaker::Ours);
            deeds.iter().for_each(|deed| drop(container.sh(deed)));
            let link = deeds[0].split(' ').nth(3).expect("a name");
            container.sh(&format!("ip addr add 172.26.64.2/32 dev {link}"));
            container.sh(&format!("ip addr add fd00:a110:c8::2/128 dev {link} nodad"));
            let attachment = if with_result { attachment } else { attachment.without_result() };
            machine.runtime().del(&attachment).expect_success();
            machine.assert_nothing_else(&before, &[]);
        }
    });
}

/// The container chooses the indices of its links, and so what the one that it shows seems to lead to.
#[test]
fn a_container_does_not_get_its_spoof_check_onto_another_containers_port() {
    for_each([("as they are", false), ("flushed", true)], |flushed| {
        let machine = TamperedHost::new();
        let mut list = machine.list();
        list["plugins"][0]["macspoofchk"] = json!(true);
        let [attacker, victim] = ["attacker", "victim"].map(|name| {
            let (tool, container) = (CniTool::new(&machine.sandbox, &list), machine.sandbox.container(name));
            let result = tool.add(&container).result();
            (tool, container, result)
        });
        let port = victim.2["interfaces"][1]["name"].as_str().expect("a name");
        let mac = attacker.2["interfaces"][2]["mac"].as_str().expect("a MAC address");
        let (index, of_peer) = (about(&machine, port, "ifindex"), about(&machine, port, "iflink"));
        attacker.1.sh("ip link del eth0");
        let fake = format!("ip link add eth0 index {of_peer} address {mac} type veth peer name p index {index}");
        attacker.1.sh(&fake);
        attacker.1.sh("ip link set eth0 up");
        if flushed {
            machine.sandbox.sh("nft flush ruleset");
        }
        let said = Invocation::new(&machine.sandbox, "cni-plugins", Verb::Add).arguments(&["repair"]).run();
        let words =
            "eth0: failed: CNI veth created for bridge nomad was not found: the peer of eth0 is not a port of nomad";
        assert!(said.stdout().contains(words), "{said}");
        let rules = machine.sandbox.sh("nft list table bridge nat");
        assert_eq!(rules.lines().filter(|line| line.contains(port)).count(), 1, "the victim's own: {rules}");
        assert!(ping(&victim.1, "172.26.64.1".parse().expect("an address"), Duration::from_secs(20)), "{rules}");
        assert!(!attacker.0.check(&attacker.1).succeeded());
        victim.0.check(&victim.1).expect_success();
    });
}

/// DEL of one attachment touches nothing that belongs to the other.
#[test]
fn a_deleted_container_leaves_the_port_alone_that_its_interface_seems_to_lead_to() {
    let machine = TamperedHost::new();
    let (victim, of_victim) = machine.add("victim", VethMaker::Ours);
    let before = machine.state(&[&victim]);
    let (attacker, attachment) = machine.add("attacker", VethMaker::Ours);
    let port = port(&of_victim);
    let (index, of_peer) = (about(&machine, port, "ifindex"), about(&machine, port, "iflink"));
    attacker.sh("ip link del eth0");
    attacker.sh(&format!("ip link add eth0 index {of_peer} type veth peer name p index {index}"));
    machine.runtime().del(&attachment).expect_success();
    machine.assert_nothing_else(&before, &[&victim]);
    machine.runtime().check(&of_victim).expect_success();
}
