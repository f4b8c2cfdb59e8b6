//! What CHECK must not mind: fresh attachments, and what does not stop traffic.

use cni_conformance::cases::for_each;
use cni_conformance::{Attachment, Flavour, PortMapping, Spelling};

use crate::check::check_host::Disturbance::{Host, Inside};
use crate::check::check_host::{CheckHost, Disturbance, V4, V6, name_of, networks};

#[test]
fn check_passes_right_after_add() {
    for_each(networks().into_iter().map(|network| (name_of(&network), network)), |(nomad, ports)| {
        CheckHost::new(nomad, Flavour::Nft, ports).passes();
    });
}

#[test]
fn check_passes_right_after_add_on_legacy_iptables() {
    CheckHost::dual_stack(Flavour::Legacy).passes();
}

/// Names start with those who do such things: udev, packet sniffers, operators, other software.
const CHANGES: [(&str, Disturbance); 23] = [
    ("udev: MAC of the host end", Host("ip link set {port} address 02:00:00:00:00:09")),
    ("udev: MAC of the bridge", Host("ip link set nomad address 02:00:00:00:00:08")),
    ("sniffer: bridge promiscuous", Host("ip link set nomad promisc on")),
    ("sniffer: host end promiscuous", Host("ip link set {port} promisc on")),
    ("sniffer: container end promiscuous", Inside("ip link set eth0 promisc on")),
    ("operator: address in the container", Inside("ip address add 10.9.9.9/24 dev eth0")),
    ("operator: second address of the subnet", Inside("ip address add 172.26.64.99/20 dev eth0")),
    ("operator: v6 address in the container", Inside("ip address add fd99::9/64 dev eth0 nodad")),
    ("operator: address on the bridge", Host("ip address add 10.9.8.1/24 dev nomad")),
    ("operator: route in the container", Inside("ip route add 10.77.0.0/16 via {gateway}")),
    ("operator: v6 route in the container", Inside("ip route add fd77::/64 dev eth0")),
    ("operator: second default route", Inside("ip route add default dev eth0 metric 4000")),
    ("operator: queue length of the host end", Host("ip link set {port} txqueuelen 50")),
    ("operator: queue length of the container end", Inside("ip link set eth0 txqueuelen 50")),
    ("operator: alias of the host end", Host("ip link set {port} alias mine")),
    ("operator: alias of the container end", Inside("ip link set eth0 alias mine")),
    ("operator: policy of FORWARD", Host("iptables -P FORWARD DROP")),
    ("Docker: rule before all of FORWARD", Host("iptables -I FORWARD -j ACCEPT -s 10.5.0.0/16")),
    ("Docker: rule before all of POSTROUTING", Host("iptables -t nat -I POSTROUTING -s 10.5.0.0/16 -j MASQUERADE")),
    ("Docker: rule in the admin chain", Host("iptables -I NOMAD-ADMIN -s 10.5.0.0/16 -j DROP")),
    ("operator: rule in the container's own chain", Host("iptables -t nat -I {ports} -p tcp --dport 1 -j RETURN")),
    (
        "Go: second jump to the entry rules",
        Host("iptables -t nat -A OUTPUT -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT"),
    ),
    ("operator: foreign table", Host("nft add table inet mine")),
];

/// Go fails over the MAC addresses and a promiscuous bridge.
#[test]
fn check_passes_over_what_does_not_stop_traffic() {
    for_each(CHANGES, |change| {
        let machine = CheckHost::dual_stack(Flavour::Nft);
        machine.act(change, &V4);
        machine.passes();
    });
}

#[test]
fn check_passes_with_all_of_them_at_once() {
    let machine = CheckHost::dual_stack(Flavour::Nft);
    for (_, change) in CHANGES {
        machine.act(change, &V4);
    }
    machine.passes();
}

#[test]
fn check_passes_while_neighbours_come_and_go() {
    for flavour in Flavour::ALL {
        let machine = CheckHost::dual_stack(flavour);
        let neighbour = machine.sandbox.container("neighbour");
        let ports = PortMapping::twins(9090, 90);
        let mut attachment = Attachment::new("neighbour", &neighbour).ports(&ports, Spelling::Go);
        machine.runtime().add(&mut attachment).expect_success();
        machine.passes();
        machine.runtime().check(&attachment).expect_success();
        machine.runtime().del(&attachment).expect_success();
        machine.passes();
    }
}

#[test]
fn check_passes_again_when_what_was_missing_is_back() {
    let machine = CheckHost::dual_stack(Flavour::Nft);
    machine.act(Inside("ip {flag} route del default"), &V6);
    machine.fails("bridge", &["::/0".to_owned()]);
    machine.act(Inside("ip {flag} route add default via {gateway} dev eth0"), &V6);
    machine.passes();
}
