//! The netlink layer against the real kernel. Every test makes its own network namespaces, which ends
//! with its thread; `ip` is the independent witness where the layer itself cannot see what it changed.

use std::fs::File;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::os::fd::AsFd;
use std::process::Command;
use std::rc::Rc;
use std::time::{Duration, Instant};

use cni_core::cidr::Cidr;
use cni_core::error::{Code, Failure};
use cni_core::family::Family;
use cni_core::mac::Mac;
use cni_core::names::IfName;
use cni_linux::netlink::{Cause, NetlinkError, Socket, netns_cookie};
use cni_plugin::link::{Link, OperState};
use cni_plugin::plan::{
    BridgePort, ChildKind, Dad, IfPresent, LinkKind, MacvlanMode, MasterLink, NewLink, NewRoute, Ns, VethPeer,
};
use cni_plugin::vlan::{BridgeVlan, VlanId};
use nix::sched::{CloneFlags, setns, unshare};

const MAIN: Option<u32> = Some(254);

/// A network namespace and a socket in it.
struct Namespace {
    netns: Rc<File>,
    socket: Socket,
}

impl Namespace {
    /// Moves the thread of the test into a new namespace, with `lo` up.
    fn enter() -> Self {
        unshare(CloneFlags::CLONE_NEWNET).expect("a new network namespace; this test needs root");
        let netns = File::open("/proc/thread-self/ns/net").expect("the namespace of the thread");
        let mut namespace = Self { netns: Rc::new(netns), socket: Socket::open().expect("a socket") };
        namespace.socket.set_link_up(1).expect("lo up");
        namespace
    }

    /// Runs `ip` (or another program of iproute2) in the namespace and returns what it prints.
    fn run(&self, command: &str) -> String {
        setns(&*self.netns, CloneFlags::CLONE_NEWNET).expect("back into the namespace");
        let mut words = command.split(' ');
        let output =
            Command::new(words.next().expect("a program")).args(words).output().expect("iproute2 is installed");
        assert!(output.status.success(), "{command}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    }

    fn link(&mut self, name: &str) -> Link {
        self.socket.link(name).expect("an answer").unwrap_or_else(|| panic!("there is no link {name}"))
    }

    fn bridge(&mut self, name: &str) -> Link {
        self.socket.create_link(&bridge(name, 1), None).expect("a bridge");
        self.link(name)
    }

    /// Makes a veth with both ends here, both up.
    fn veth(&mut self, name: &str, peer_name: &str) -> Link {
        self.socket.create_link(&veth(name, peer_name), None).expect("a veth");
        for name in [peer_name, name] {
            let index = self.link(name).index;
            self.socket.set_link_up(index).expect("up");
        }
        self.link(name)
    }

    fn addresses(&mut self, index: u32, family: Option<Family>) -> Vec<String> {
        let found = self.socket.addresses(index, family).expect("addresses");
        found.iter().map(|address| address.cidr.to_string()).collect()
    }

    /// The gateways of the routes in a table, each with its destination.
    fn routes(&mut self, family: Family, table: Option<u32>) -> Vec<(String, Vec<String>)> {
        let found = self.socket.routes(family, table).expect("routes");
        found
            .iter()
            .map(|route| (route.dst.to_string(), route.gateways.iter().map(IpAddr::to_string).collect()))
            .collect()
    }
}

fn mac(last: u8) -> Mac {
    Mac::local([2, 0, 0, 0, 0, last])
}

fn cidr(text: &str) -> Cidr {
    text.parse().expect("a CIDR")
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn route(dst: &str, gw: Option<&str>) -> NewRoute {
    NewRoute { gw: gw.map(ip), ..NewRoute::to(cidr(dst)) }
}

fn name(name: &str) -> IfName {
    IfName::parse(name).expect("a name")
}

fn vlan_id(id: u16) -> VlanId {
    VlanId::new(id).expect("a VLAN")
}

fn link(new: &str, kind: LinkKind) -> NewLink {
    NewLink { name: name(new), mac: None, mtu: None, if_present: IfPresent::Refuse, kind }
}

fn bridge(new: &str, last: u8) -> NewLink {
    NewLink { mac: Some(mac(last)), ..link(new, LinkKind::Bridge { vlan_filtering: false }) }
}

/// A pair of which the socket that makes it has the first end.
fn veth(new: &str, peer: &str) -> NewLink {
    let peer = VethPeer { ns: Ns::Host, name: name(peer), mac: mac(5) };
    NewLink { mac: Some(mac(4)), ..link(new, LinkKind::Veth { peer }) }
}

fn errno<T: std::fmt::Debug>(result: Result<T, NetlinkError>) -> Option<i32> {
    result.expect_err("refused").errno()
}

#[test]
fn veths_are_listed_with_their_aliases_and_nothing_else_is() {
    let mut host = Namespace::enter();
    host.bridge("br0");
    let veth = host.veth("veth0", "veth1");
    host.socket.set_alias(veth.index, "cni:net:id:eth0").expect("an alias");
    let mut listed: Vec<_> =
        host.socket.links_of_kind("veth").expect("an answer").into_iter().map(|link| (link.name, link.alias)).collect();
    listed.sort();
    let alias = Some("cni:net:id:eth0".to_owned());
    assert_eq!(listed, [("veth0".to_owned(), alias), ("veth1".to_owned(), None)]);
}

#[test]
fn the_other_end_of_a_veth_is_asked_for_its_addresses_for_as_long_as_its_namespace_lives() {
    let mut host = Namespace::enter();
    let mut container = Namespace::enter();
    container.socket.create_link(&veth("eth0", "veth0"), Some(host.netns.as_fd())).expect("a veth");
    let inner = container.link("eth0");
    for address in ["10.1.2.3/24", "fd00::3/64"] {
        container.socket.add_address(inner.index, cidr(address), Dad::Skip).expect("an address");
    }
    // The host has a link of the same index, with an address.
    host.socket.add_address(1, cidr("10.9.9.9/24"), Dad::Skip).expect("an address");
    let outer = host.link("veth0");
    assert!(outer.peer_netns.is_some());
    let found = host.socket.peer_addresses(&outer).expect("an answer").expect("the namespace lives");
    let found: Vec<String> = found.iter().map(|address| address.cidr.to_string()).collect();
    assert_eq!(found, ["10.1.2.3/24", "fd00::3/64"]);

    setns(&*host.netns, CloneFlags::CLONE_NEWNET).expect("out of the container");
    drop(container);
    // The last user is a netlink socket, which the kernel ends a moment after it was closed.
    let deadline = Instant::now() + Duration::from_secs(5);
    while host.socket.peer_addresses(&outer).expect("an answer").is_some() {
        assert!(Instant::now() < deadline, "the namespace has no user any more");
        std::thread::sleep(Duration::from_millis(1));
    }

    let here = host.veth("a", "b");
    assert_eq!(host.socket.peer_addresses(&here).expect("an answer"), None, "both ends are in the host");
}

#[test]
fn a_namespace_has_a_number_for_another_that_holds_the_other_end_of_a_veth() {
    let mut host = Namespace::enter();
    let mut stranger = Namespace::enter();
    let mut container = Namespace::enter();
    assert_eq!(container.socket.netns_id(host.netns.as_fd()).expect("an answer"), None);
    container.socket.create_link(&veth("eth0", "veth0"), Some(host.netns.as_fd())).expect("a veth");
    let inner = container.link("eth0");
    assert!(inner.peer_netns.is_some());
    assert_eq!(container.socket.netns_id(host.netns.as_fd()).expect("an answer"), inner.peer_netns);
    container.socket.create_link(&veth("eth1", "veth0"), Some(stranger.netns.as_fd())).expect("a veth");
    let elsewhere = container.link("eth1");
    assert_eq!(container.socket.netns_id(stranger.netns.as_fd()).expect("an answer"), elsewhere.peer_netns);
    assert_ne!(elsewhere.peer_netns, inner.peer_netns);
    assert!(host.link("veth0").peer_netns.is_some() && stranger.link("veth0").peer_netns.is_some());
}

#[test]
fn links_are_found_by_name_and_by_index() {
    let mut host = Namespace::enter();
    let lo = host.link("lo");
    assert_eq!((lo.index, lo.mtu, lo.up, lo.kind.clone(), lo.mac.clone()), (1, 65536, true, None, None));
    assert_eq!(host.socket.link_by_index(1).expect("an answer"), Some(lo));
    assert_eq!(host.socket.link("absent0").expect("an answer"), None);
    assert_eq!(host.socket.link_by_index(4711).expect("an answer"), None);
    let error = host.socket.link("a-name-that-is-too-long").expect_err("refused");
    assert_eq!(error.to_string(), "failed to look up link a-name-that-is-too-long");
    assert_eq!(error.cause().to_string(), "numerical result out of range");
}

#[test]
fn a_socket_stays_in_the_namespace_it_was_opened_in() {
    let mut first = Namespace::enter();
    let first_cookie = netns_cookie().expect("an answer");
    let mut second = Namespace::enter();
    first.bridge("br0");
    assert_eq!(second.socket.link("br0").expect("an answer"), None);
    assert!(first_cookie.is_some(), "the kernel has cookies since 5.14");
    assert_ne!(netns_cookie().expect("an answer"), first_cookie);
    setns(&*first.netns, CloneFlags::CLONE_NEWNET).expect("back");
    assert_eq!(netns_cookie().expect("an answer"), first_cookie);
}

#[test]
fn a_bridge_has_the_properties_asked_for() {
    let mut host = Namespace::enter();
    let bridge = NewLink { mtu: Some(1400), ..bridge("br0", 9) };
    host.socket.create_link(&bridge, None).expect("a bridge");
    let link = host.link("br0");
    assert_eq!((link.kind.as_deref(), link.mtu, link.mac, link.up), (Some("bridge"), 1400, Some(mac(9)), false));
    assert_eq!(link.vlan_filtering, Some(false));

    let error = host.socket.create_link(&bridge, None).expect_err("exists");
    assert_eq!((error.errno(), error.code()), (Some(libc::EEXIST), Code::Kernel));
    assert_eq!(error.to_string(), "failed to create bridge br0");
    assert_eq!(error.cause().to_string(), "file exists");
}

#[test]
fn a_veth_is_born_in_both_namespaces() {
    let mut host = Namespace::enter();
    let mut container = Namespace::enter();
    let netns = Rc::clone(&host.netns);
    let veth = NewLink { mtu: Some(1450), ..veth("eth0", "veth0") };
    container.socket.create_link(&veth, Some(netns.as_fd())).expect("a veth");
    let (inner, outer) = (container.link("eth0"), host.link("veth0"));
    assert_eq!(
        (inner.kind.as_deref(), inner.mtu, inner.mac, inner.peer),
        (Some("veth"), 1450, Some(mac(4)), Some(outer.index))
    );
    assert_eq!(
        (outer.kind.as_deref(), outer.mtu, outer.mac, outer.peer),
        (Some("veth"), 1450, Some(mac(5)), Some(inner.index))
    );
    let mut again = |veth: &NewLink| errno(container.socket.create_link(veth, Some(netns.as_fd())));
    assert_eq!(again(&veth), Some(libc::EEXIST), "both names are taken");
    assert_eq!(again(&NewLink { name: name("eth1"), ..veth }), Some(libc::EEXIST), "the name of the peer is taken");

    container.socket.delete_link(inner.index).expect("deleted");
    assert_eq!(host.socket.link("veth0").expect("an answer"), None);
    assert_eq!(errno(container.socket.delete_link(inner.index)), Some(libc::ENODEV));
}

#[test]
fn a_veth_may_be_made_from_the_other_side() {
    let mut host = Namespace::enter();
    let mut container = Namespace::enter();
    let netns = Rc::clone(&container.netns);
    host.socket.create_link(&veth("veth0", "eth0"), Some(netns.as_fd())).expect("a veth");
    assert_eq!((host.link("veth0").mac, container.link("eth0").mac), (Some(mac(4)), Some(mac(5))));
    let multicast = "01:00:5e:00:00:01".parse().expect("a MAC");
    let long = "02:00:00:00:00:00:00:01".parse().expect("a MAC");
    for (mac, number) in [(multicast, libc::EADDRNOTAVAIL), (long, libc::EINVAL)] {
        let refused = NewLink { mac: Some(mac), ..veth("veth1", "eth1") };
        assert_eq!(errno(host.socket.create_link(&refused, Some(netns.as_fd()))), Some(number));
    }
}

#[test]
fn the_properties_of_a_link_can_be_changed() {
    let mut host = Namespace::enter();
    let index = host.veth("eth0", "eth1").index;
    host.socket.set_promisc(index, true).expect("promiscuous");
    host.socket.set_all_multicast(index, true).expect("all multicast");
    host.socket.set_mtu(index, 1300).expect("an MTU");
    host.socket.set_tx_queue_length(index, 17).expect("a length");
    host.socket.set_mac(index, &mac(7)).expect("a MAC");
    let alias = "x".repeat(255);
    host.socket.set_alias(index, &alias).expect("an alias");
    let link = host.link("eth0");
    assert_eq!((link.promiscuity, link.mac, link.alias, link.up), (1, Some(mac(7)), Some(alias), true));
    assert_eq!(link.oper_state, OperState::Up);
    assert_eq!((link.promisc, link.all_multicast, link.mtu, link.tx_queue_length), (true, true, 1300, 17));

    host.socket.set_link_down(index).expect("down");
    host.socket.set_alias(index, "").expect("no alias");
    host.socket.set_all_multicast(index, false).expect("not all multicast");
    let link = host.link("eth0");
    assert_eq!((link.promiscuity, link.alias, link.up, link.oper_state), (1, None, false, OperState::Down));
    assert_eq!((link.promisc, link.all_multicast), (true, false));
    assert_eq!(host.link("eth1").oper_state, OperState::LowerLayerDown);

    assert_eq!(errno(host.socket.set_link_up(4711)), Some(libc::ENODEV));
    assert_eq!(errno(host.socket.delete_link(1)), Some(libc::EOPNOTSUPP), "lo");
}

#[test]
fn a_link_becomes_a_port_with_its_properties() {
    let mut host = Namespace::enter();
    let bridge = host.bridge("br0");
    let port = host.veth("veth0", "veth1").index;
    assert!(host.socket.set_bridge_port(port, BridgePort { hairpin: true, isolated: true }).is_err(), "no port yet");

    host.socket.set_master(port, bridge.index).expect("a port");
    assert_eq!(host.link("veth0").master, Some(bridge.index));
    for (hairpin, isolated, want) in
        [(true, false, ["hairpin on", "isolated off"]), (false, true, ["hairpin off", "isolated on"])]
    {
        host.socket.set_bridge_port(port, BridgePort { hairpin, isolated }).expect("set");
        let shown = host.run("ip -d link show dev veth0");
        assert!(want.iter().all(|want| shown.contains(want)), "{want:?} in {shown}");
    }

    assert_eq!(host.link("br0").mac, Some(mac(1)), "the bridge keeps its MAC");
    let error = host.socket.set_master(bridge.index, bridge.index).expect_err("a bridge is no port of itself");
    assert_eq!(error.errno(), Some(libc::ELOOP));
    assert_eq!(error.details(), "too many levels of symbolic links: Can not enslave a bridge to a bridge");
}

#[test]
fn a_full_bridge_is_named_as_such() {
    let mut host = Namespace::enter();
    let bridge = host.bridge("br0").index;
    for pair in 0..512 {
        let (name, peer_name) = (format!("a{pair}"), format!("b{pair}"));
        host.socket.create_link(&veth(&name, &peer_name), None).expect("a veth");
        let (port, peer) = (host.link(&name).index, host.link(&peer_name).index);
        host.socket.set_master(port, bridge).expect("a port");
        if pair < 511 {
            host.socket.set_master(peer, bridge).expect("a port");
            continue;
        }
        let error = host.socket.set_master(peer, bridge).expect_err("port 1024");
        assert_eq!(
            (error.errno(), error.cause(), error.code()),
            (Some(libc::EXFULL), &Cause::BridgeFull, Code::TryAgain)
        );
    }
}

#[test]
fn port_vlans_are_set_where_the_kernel_filters_vlans() {
    let mut host = Namespace::enter();
    let bridge = host.bridge("br0").index;
    let port = host.veth("veth0", "veth1").index;
    host.socket.set_master(port, bridge).expect("a port");
    let filtering = link("br1", LinkKind::Bridge { vlan_filtering: true });
    let vlan = |id, flags| BridgeVlan { id: vlan_id(id), pvid: flags, untagged: flags };
    let (ten_to_twelve, all) = (vlan_id(10)..=vlan_id(12), VlanId::FIRST..=VlanId::LAST);

    if let Err(error) = host.socket.create_link(&filtering, None) {
        assert_eq!(error.errno(), Some(libc::EOPNOTSUPP), "a kernel without CONFIG_BRIDGE_VLAN_FILTERING");
        assert_eq!(error.cause().to_string(), "operation not supported");
        assert_eq!(errno(host.socket.add_port_vlan(port, vlan(5, true))), Some(libc::EOPNOTSUPP));
        assert_eq!(errno(host.socket.add_port_vlan_range(port, ten_to_twelve)), Some(libc::EOPNOTSUPP));
        host.socket.remove_port_vlans(port, all).expect("absent ones are no error");
        assert_eq!(host.socket.bridge_vlans(port).expect("an answer"), []);
        return;
    }
    assert_eq!(host.link("br1").vlan_filtering, Some(true));
    assert_eq!(host.socket.bridge_vlans(port).expect("an answer"), [vlan(1, true)]);
    host.socket.remove_port_vlans(port, VlanId::FIRST..=VlanId::FIRST).expect("removed");
    host.socket.add_port_vlan(port, vlan(5, true)).expect("added");
    host.socket.add_port_vlan_range(port, ten_to_twelve).expect("added");
    let want = [vlan(5, true), vlan(10, false), vlan(11, false), vlan(12, false)];
    assert_eq!(host.socket.bridge_vlans(port).expect("an answer"), want);
    host.socket.remove_port_vlans(port, vlan_id(2)..=VlanId::LAST).expect("absent ones are no error");
    assert_eq!(host.socket.bridge_vlans(port).expect("an answer"), []);
    assert_eq!(
        errno(host.socket.add_port_vlan_range(port, RangeInclusive::new(vlan_id(12), vlan_id(10)))),
        Some(libc::EINVAL)
    );
}

#[test]
fn addresses_are_added_listed_and_removed() {
    let mut host = Namespace::enter();
    let index = host.veth("eth0", "eth1").index;
    for text in ["2001:db8::7/64", "10.1.2.7/24", "10.9.0.0/31", "10.9.0.9/32"] {
        host.socket.add_address(index, cidr(text), Dad::Skip).expect(text);
    }
    let shown = host.run("ip -o address show dev eth0");
    assert!(shown.contains("inet 10.1.2.7/24 brd 10.1.2.255 scope global"), "{shown}");
    assert!(
        shown.contains("inet 10.9.0.0/31 scope global") && shown.contains("inet 10.9.0.9/32 scope global"),
        "{shown}"
    );
    assert_eq!(host.addresses(index, Some(Family::V4)), ["10.1.2.7/24", "10.9.0.0/31", "10.9.0.9/32"]);
    let all = host.addresses(index, None);
    assert_eq!(all[..3], ["10.1.2.7/24", "10.9.0.0/31", "10.9.0.9/32"]);
    assert!(all[3..].contains(&"2001:db8::7/64".to_owned()), "{all:?}");
    assert_eq!(host.addresses(1, None), ["127.0.0.1/8", "::1/128"]);
    let everywhere = host.socket.addresses(None, Some(Family::V4)).expect("addresses");
    assert_eq!(everywhere.len(), 4, "those of lo and eth0: {everywhere:?}");

    host.socket.remove_address(index, cidr("10.1.2.7/24")).expect("removed");
    host.socket.remove_address(index, cidr("10.1.2.7/24")).expect("absence is no error");
    host.socket.remove_address(index, cidr("2001:db8::7/64")).expect("removed");
    host.socket.remove_address(index, cidr("2001:db8::7/64")).expect("absence is no error");
    host.socket.remove_address(4711, cidr("10.1.2.7/24")).expect("nor is that of the link");
    assert_eq!(host.addresses(index, Some(Family::V4)), ["10.9.0.0/31", "10.9.0.9/32"]);
    assert!(!host.addresses(index, Some(Family::V6)).contains(&"2001:db8::7/64".to_owned()));
}

#[test]
fn a_second_address_is_refused_in_the_words_of_the_kernel() {
    let mut host = Namespace::enter();
    let index = host.bridge("br0").index;
    host.socket.add_address(index, cidr("10.1.2.3/24"), Dad::Skip).expect("added");
    let error = host.socket.add_address(index, cidr("10.1.2.3/24"), Dad::Skip).expect_err("refused");
    assert_eq!(error.to_string(), format!("failed to add address 10.1.2.3/24 to link {index}"));
    assert_eq!((error.errno(), error.code()), (Some(libc::EEXIST), Code::Kernel));
    assert_eq!(error.cause().to_string(), "file exists");
    assert!(
        error.details().starts_with("file exists: ") && error.details().contains("lready assigned"),
        "{}",
        error.details()
    );
    assert_eq!(errno(host.socket.add_address(4711, cidr("10.1.2.3/24"), Dad::Skip)), Some(libc::ENODEV));
    assert_eq!(errno(host.socket.addresses(4711, Some(Family::V4))), Some(libc::ENODEV));
}

#[test]
fn duplicate_address_detection_is_performed_or_not() {
    let mut host = Namespace::enter();
    let index = host.veth("eth0", "eth1").index;
    host.socket.add_address(index, cidr("2001:db8::1/64"), Dad::Skip).expect("added");
    host.socket.add_address(index, cidr("2001:db8::2/64"), Dad::Perform).expect("added");
    let found = host.socket.addresses(index, Some(Family::V6)).expect("addresses");
    let tentative = |text| found.iter().find(|address| address.cidr == cidr(text)).map(|address| address.tentative);
    assert_eq!((tentative("2001:db8::1/64"), tentative("2001:db8::2/64")), (Some(false), Some(true)));
    assert!(found.iter().all(|address| !address.dad_failed));
}

#[test]
fn a_skipped_detection_stays_skipped_when_the_link_comes_up_later() {
    let mut host = Namespace::enter();
    let index = host.veth("eth0", "eth1").index;
    host.socket.set_link_down(index).expect("down");
    host.socket.add_address(index, cidr("2001:db8::1/64"), Dad::Skip).expect("added");
    host.socket.set_link_up(index).expect("up");
    let found = host.socket.addresses(index, Some(Family::V6)).expect("addresses");
    let address = found.iter().find(|address| address.cidr == cidr("2001:db8::1/64")).expect("listed");
    assert!(!address.tentative);
}

#[test]
fn a_dump_of_many_datagrams_is_complete() {
    let mut host = Namespace::enter();
    let index = host.bridge("br0").index;
    let text = |number: u32| format!("10.7.{}.{}/32", number / 200, number % 200);
    for number in 0..1500 {
        host.socket.add_address(index, cidr(&text(number)), Dad::Skip).expect("added");
    }
    let want: Vec<_> = (0..1500).map(text).collect();
    assert_eq!(host.addresses(index, Some(Family::V4)), want);
}

#[test]
fn routes_are_added_listed_and_removed() {
    let mut host = Namespace::enter();
    let link = host.veth("eth0", "eth1").index;
    host.socket.add_address(link, cidr("10.1.2.7/24"), Dad::Skip).expect("an address");
    let default =
        NewRoute { mtu: Some(1300), advmss: Some(1200), priority: Some(5), ..route("0.0.0.0/0", Some("10.1.2.1")) };
    let elsewhere = NewRoute { table: Some(1000), ..route("10.3.0.0/16", Some("10.1.2.1")) };
    let on_link = NewRoute { scope: Some(253), table: Some(100), ..route("10.4.0.0/16", None) };
    let from = NewRoute { source: Some(ip("10.1.2.7")), ..route("10.2.0.0/16", Some("10.1.2.1")) };
    let beyond = NewRoute { onlink: true, table: Some(7), ..route("10.6.0.0/16", Some("10.99.0.1")) };
    let routes = [default, elsewhere, on_link, from, beyond];
    for route in &routes {
        host.socket.add_route(link, route).expect("added");
    }
    let shown = host.run("ip -d route show table all");
    assert!(
        shown.contains(
            "unicast default via 10.1.2.1 dev eth0 table main proto boot scope global metric 5 mtu 1300 advmss 1200"
        ),
        "{shown}"
    );
    assert!(shown.contains("unicast 10.3.0.0/16 via 10.1.2.1 dev eth0 table 1000 proto boot scope global"), "{shown}");
    assert!(shown.contains("unicast 10.4.0.0/16 dev eth0 table 100 proto boot scope link"), "{shown}");
    assert!(
        shown.contains("10.2.0.0/16 via 10.1.2.1 dev eth0 table main proto boot scope global src 10.1.2.7"),
        "{shown}"
    );
    assert!(shown.contains("10.6.0.0/16 via 10.99.0.1 dev eth0 table 7 proto boot scope global onlink"), "{shown}");

    let gateway = || vec!["10.1.2.1".to_owned()];
    let (own, all) = (("10.1.2.0/24".to_owned(), vec![]), ("0.0.0.0/0".to_owned(), gateway()));
    let to_ten_two = ("10.2.0.0/16".to_owned(), gateway());
    assert_eq!(host.routes(Family::V4, MAIN), [all.clone(), own.clone(), to_ten_two]);
    assert_eq!(host.routes(Family::V4, Some(1000)), [("10.3.0.0/16".to_owned(), gateway())]);
    assert_eq!(host.routes(Family::V4, Some(4711)), []);
    let everywhere = host.socket.routes(Family::V4, None).expect("routes");
    let tables: Vec<_> = everywhere.iter().filter(|route| route.links == [link]).map(|route| route.table).collect();
    assert!([100, 254, 255, 1000].iter().all(|table| tables.contains(table)), "{tables:?}");

    for route in routes.iter().chain(&routes) {
        host.socket.remove_route(link, route).expect("removed, or absent");
    }
    for table in [7, 100, 1000] {
        assert_eq!(host.routes(Family::V4, Some(table)), vec![], "{table}");
    }
    assert_eq!(host.routes(Family::V4, MAIN), [own]);
}

#[test]
fn a_destination_may_have_several_gateways() {
    let mut host = Namespace::enter();
    let link = host.veth("eth0", "eth1").index;
    for text in ["10.1.2.7/24", "2001:db8::7/64"] {
        host.socket.add_address(link, cidr(text), Dad::Skip).expect("an address");
    }
    for gateway in ["10.1.2.1", "10.1.2.2"] {
        host.socket.add_route(link, &route("10.5.0.0/16", Some(gateway))).expect("added");
    }
    for gateway in ["2001:db8::1", "2001:db8::2"] {
        host.socket.add_route(link, &route("2001:db8:5::/48", Some(gateway))).expect("added");
    }
    let of = |gateway: &str| ("10.5.0.0/16".to_owned(), vec![gateway.to_owned()]);
    let v4: Vec<_> = host.routes(Family::V4, MAIN).into_iter().filter(|(dst, _)| dst == "10.5.0.0/16").collect();
    assert_eq!(v4, [of("10.1.2.2"), of("10.1.2.1")], "two routes, the last one first");
    let v6: Vec<_> = host.socket.routes(Family::V6, MAIN).expect("routes");
    let v6: Vec<_> = v6.iter().filter(|route| route.dst == cidr("2001:db8:5::/48")).collect();
    assert_eq!(v6.len(), 1, "one multipath route: {v6:?}");
    assert_eq!((v6[0].gateways.clone(), v6[0].links.clone()), (vec![ip("2001:db8::1"), ip("2001:db8::2")], vec![link]));
}

#[test]
fn impossible_routes_are_refused() {
    let mut host = Namespace::enter();
    let link = host.veth("eth0", "eth1").index;
    host.socket.add_address(link, cidr("10.1.2.7/24"), Dad::Skip).expect("an address");
    let possible = route("10.5.0.0/16", Some("10.1.2.1"));
    host.socket.add_route(link, &possible).expect("added");
    assert_eq!(errno(host.socket.add_route(link, &possible)), Some(libc::EEXIST));
    assert_eq!(errno(host.socket.add_route(link, &route("10.6.0.1/16", None))), Some(libc::EINVAL), "host bits");
    let error = host.socket.add_route(link, &route("10.6.0.0/16", Some("10.99.0.1"))).expect_err("gateway on no link");
    assert_eq!(error.to_string(), format!("failed to add route 10.6.0.0/16 via 10.99.0.1 through link {link}"));
    assert_eq!(error.errno(), Some(libc::ENETUNREACH));
    assert!(error.details().starts_with("network is unreachable: "), "{}", error.details());
    let error = host.socket.add_route(link, &route("10.6.0.0/16", Some("fe80::1"))).expect_err("mixed families");
    assert_eq!((error.errno(), error.cause()), (None, &Cause::MixedFamilies));
}

#[test]
fn the_kernels_own_route_is_removed_and_no_other_to_the_same_network() {
    let mut host = Namespace::enter();
    let link = host.veth("eth0", "eth1").index;
    for (address, network, gateway) in
        [("10.1.2.7/24", "10.1.2.0/24", "10.1.2.1"), ("2001:db8::7/64", "2001:db8::/64", "2001:db8::1")]
    {
        let family = cidr(network).family();
        host.socket.add_address(link, cidr(address), Dad::Skip).expect("an address");
        host.socket.add_route(link, &route(network, Some(gateway))).expect("beside the kernel's");
        for there in [true, false] {
            assert_eq!(host.socket.remove_connected_route(link, cidr(network)).expect("an answer"), there);
            let mut left = host.routes(family, MAIN);
            left.retain(|(dst, _)| dst == network);
            assert_eq!(left, [(network.to_owned(), vec![gateway.to_owned()])]);
        }
    }
}

#[test]
fn a_route_to_exactly_an_address_is_told_from_one_to_its_network() {
    let mut host = Namespace::enter();
    let link = host.veth("eth0", "eth1").index;
    let mut exact = |address| host.socket.exact_route(ip(address)).expect("an answer").map(|route| route.links);
    assert_eq!((exact("10.1.2.7"), exact("2001:db8::7")), (None, None), "there is no route at all");
    for (address, other, refused) in
        [("10.1.2.7", "10.1.2.8", "10.1.2.9"), ("2001:db8::7", "2001:db8::8", "2001:db8::9")]
    {
        let network = if address.contains(':') { "2001:db8::/64" } else { "10.1.2.0/24" };
        host.socket.add_route(link, &route(network, None)).expect("added");
        host.socket.add_route(link, &NewRoute::to(Cidr::host(ip(address)))).expect("added");
        host.run(&format!("ip route add unreachable {refused}"));
        let mut exact = |address| host.socket.exact_route(ip(address)).expect("an answer").map(|route| route.links);
        assert_eq!((exact(address), exact(other), exact(refused)), (Some(vec![link]), None, None));
    }
}

#[test]
fn the_way_to_an_address_is_its_output_link() {
    let mut host = Namespace::enter();
    let link = host.veth("eth0", "eth1").index;
    for text in ["10.1.2.7/24", "2001:db8::7/64"] {
        host.socket.add_address(link, cidr(text), Dad::Skip).expect("an address");
    }
    host.run("ip route add unreachable 10.8.0.0/16");
    host.run("ip route add unreachable 2001:db8:8::/48");
    for (address, want) in [
        ("10.1.2.99", Some(link)),
        ("2001:db8::99", Some(link)),
        ("10.1.2.7", Some(1)),
        ("10.77.0.1", None),
        ("2001:db8:77::1", None),
        ("10.8.0.1", None),
        ("2001:db8:8::1", None),
    ] {
        assert_eq!(host.socket.route_to(ip(address)).expect("an answer"), want, "{address}");
    }
}

/// A macvlan on the link of an index.
fn macvlan(new: &str, master: u32, mode: MacvlanMode) -> NewLink {
    let kind = ChildKind::Macvlan { mode, broadcast_queue: Some(77) };
    let master = MasterLink { ns: Ns::Host, index: master, name: "br0".to_owned() };
    NewLink { mac: Some(mac(9)), mtu: Some(1400), ..link(new, LinkKind::Child { master, kind }) }
}

#[test]
fn a_child_of_a_master_is_made_in_another_namespace_and_told_with_what_it_is() {
    let mut container = Namespace::enter();
    let mut host = Namespace::enter();
    let master = host.bridge("br0").index;
    host.socket.create_link(&macvlan("eth0", master, MacvlanMode::Vepa), Some(container.netns.as_fd())).expect("made");
    let made = container.link("eth0");
    let child = ChildKind::Macvlan { mode: MacvlanMode::Vepa, broadcast_queue: Some(77) };
    assert_eq!((made.kind.as_deref(), made.child, made.peer), (Some("macvlan"), Some(child), Some(master)));
    assert_eq!((made.mac, made.mtu, made.peer_netns.is_some()), (Some(mac(9)), 1400, true));
    assert!(host.socket.link("eth0").expect("an answer").is_none(), "it is in the container alone");
    container.socket.set_name(made.index, &name("net1")).expect("renamed");
    assert_eq!(container.link("net1").index, made.index);
    let taken = container.socket.set_name(made.index, &name("lo"));
    assert_eq!(errno(taken), Some(libc::EEXIST));
}

#[test]
fn a_child_in_a_namespace_that_has_a_number_is_found_from_the_masters() {
    let mut container = Namespace::enter();
    let mut host = Namespace::enter();
    let (master, other) = (host.bridge("br0").index, {
        host.socket.create_link(&bridge("br1", 2), None).expect("a bridge");
        host.link("br1").index
    });
    let own = Rc::clone(&host.netns);
    let found = |host: &mut Namespace, master| {
        let found = host.socket.child_elsewhere(master, "macvlan", own.as_fd()).expect("an answer");
        found.map(|link| link.name)
    };
    host.socket
        .create_link(&macvlan("eth0", master, MacvlanMode::Bridge), Some(container.netns.as_fd()))
        .expect("made");
    assert_eq!(found(&mut host, master), None, "the namespace has no number yet");
    for _ in 0..2 {
        host.socket.number_netns(container.netns.as_fd()).expect("a number");
    }
    assert_eq!(found(&mut host, master).as_deref(), Some("eth0"));
    assert_eq!(found(&mut host, other), None, "it is of another master");
    let index = container.link("eth0").index;
    container.socket.delete_link(index).expect("deleted");
    assert_eq!(found(&mut host, master), None);
}

#[test]
fn a_link_is_found_by_its_alternative_names() {
    let mut host = Namespace::enter();
    let index = host.bridge("br0").index;
    let long = "the-interface-that-leads-to-the-network";
    for alternative in [long, "short"] {
        host.run(&format!("ip link property add dev br0 altname {alternative}"));
        assert_eq!(host.socket.link_called(alternative).expect("an answer").expect("a link").index, index);
    }
    assert_eq!(host.socket.link_called("br0").expect("an answer").expect("a link").index, index);
    for absent in ["none", "another-name-that-no-link-is-called-by", "", "br0\0", &"x".repeat(200)] {
        assert_eq!(host.socket.link_called(absent).expect("an answer"), None, "{absent:?}");
    }
}
