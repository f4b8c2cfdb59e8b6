use cni_core::names::IfName;
use cni_model::link::OperState;
use cni_model::plan::{BridgePort, Dad, IfPresent, LinkKind, LinkSetting, NewLink, NewRoute, Until, VethPeer};

use super::*;

const NETNS: &str = "/run/netns/c1";

fn name(name: &str) -> IfName {
    IfName::parse(name).expect("a name")
}

/// A host with a bridge, and a container that has been entered.
fn host() -> FakeHost {
    let mut host = FakeHost::new().with_bridge("br0", "10.1.2.1/24");
    host.set_container(NETNS, FakeContainer::Present(None));
    host.enter(NETNS).expect("entered");
    host
}

fn veth(near: &str, far: &str) -> Step {
    let mac = "02:00:00:00:00:01".parse().expect("a MAC");
    let kind = LinkKind::Veth { peer: VethPeer { ns: Ns::Host, name: name(far), mac } };
    let link = NewLink { name: name(near), mac: None, mtu: None, if_present: IfPresent::Refuse, kind };
    Step::CreateLink { ns: Ns::Container, link }
}

fn set(ns: Ns, of: &str, setting: LinkSetting) -> Step {
    Step::SetLink { ns, name: name(of), setting }
}

fn link(host: &mut FakeHost, ns: Ns, of: &str) -> Option<Link> {
    let host: &mut dyn Host = host;
    host.link(ns, &name(of)).expect("an answer")
}

#[test]
fn a_veth_has_two_ends_that_come_up_and_go_together() {
    let mut host = host();
    host.apply(&veth("eth0", "veth1")).expect("made");
    host.apply(&set(Ns::Container, "eth0", LinkSetting::Up)).expect("up");
    let wait = Step::Await { ns: Ns::Container, name: name("eth0"), until: Until::Up };
    let near = link(&mut host, Ns::Container, "eth0").expect("there");
    assert_eq!((near.oper_state, host.apply(&wait).is_err()), (OperState::LowerLayerDown, true));
    host.apply(&set(Ns::Host, "veth1", LinkSetting::Up)).expect("up");
    host.apply(&wait).expect("both are up");
    let far = link(&mut host, Ns::Host, "veth1").expect("there");
    assert_eq!((near.peer, far.peer), (Some(far.index), Some(near.index)));
    host.set_container(NETNS, FakeContainer::Gone);
    assert_eq!(link(&mut host, Ns::Host, "veth1"), None);
}

#[test]
fn first_links_of_two_namespaces_have_the_same_index_and_a_moved_one_gets_another() {
    const OTHER: &str = "/run/netns/c2";
    let mut host = host();
    host.apply(&veth("eth0", "veth1")).expect("made");
    host.set_container(OTHER, FakeContainer::Present(None));
    host.enter(OTHER).expect("entered");
    host.apply(&veth("eth1", "veth2")).expect("made");
    assert_eq!(link(&mut host, Ns::Container, "eth1").map(|link| link.index), Some(2));
    host.enter(NETNS).expect("entered");
    assert_eq!(link(&mut host, Ns::Container, "eth0").map(|link| link.index), Some(2));
    host.move_on("eth0", OTHER);
    host.enter(OTHER).expect("entered");
    let moved = link(&mut host, Ns::Container, "eth0").map(|link| link.index);
    let far = link(&mut host, Ns::Host, "veth1").expect("there");
    assert_eq!((moved, far.peer), (Some(3), moved));
}

#[test]
fn a_step_that_is_refused_changes_nothing() {
    let mut host = host();
    host.apply(&veth("eth0", "veth1")).expect("made");
    let state = host.state();
    let route = NewRoute { gw: Some([10, 9, 0, 1].into()), ..NewRoute::to("10.8.0.0/16".parse().expect("CIDR")) };
    let (ns, cidr) = (Ns::Host, "10.1.2.1/24".parse().expect("CIDR"));
    for (step, why) in [
        (veth("eth0", "veth2"), "eth0 exists"),
        (veth("eth1", "veth1"), "veth1 exists"),
        (set(Ns::Host, "none", LinkSetting::Up), "there is no link \"none\" in host"),
        (set(Ns::Host, "veth1", LinkSetting::Master(name("none"))), "there is no link \"none\" in host"),
        (set(Ns::Host, "veth1", LinkSetting::Port(BridgePort { hairpin: true, isolated: true })), "veth1 is no port"),
        (
            Step::AddAddress { ns, name: name("br0"), cidr, dad: Dad::Skip, if_present: IfPresent::Refuse },
            "file exists",
        ),
        (Step::AddRoute { ns, name: name("veth1"), route: route.clone() }, "link veth1 is down"),
        (Step::AddRoute { ns, name: name("br0"), route }, "network is unreachable: 10.9.0.1 is on no link"),
    ] {
        assert_eq!(host.apply(&step).expect_err("refused").to_string(), why, "{step}");
        assert_eq!(host.state(), state, "{step}");
    }
}

#[test]
fn a_container_must_be_entered_and_may_be_gone_or_closed() {
    let mut host = FakeHost::new();
    host.links(Ns::Container, LinkQuery::Index(1)).expect_err("not entered");
    assert!(matches!(host.enter(NETNS), Err(NetnsError::Gone { .. })));
    host.set_container(NETNS, FakeContainer::Closed);
    assert!(matches!(host.enter(NETNS), Err(NetnsError::Failed { .. })));
    host.set_container(NETNS, FakeContainer::Present(Some("boot:7".to_owned())));
    host.enter(NETNS).expect("entered");
    assert_eq!(host.namespaces().identity(Ns::Container).expect("known").as_deref(), Some("boot:7"));
    assert_eq!(link(&mut host, Ns::Container, "lo").map(|lo| lo.up), Some(false));
}

#[test]
fn packets_leave_by_the_longest_prefix() {
    let mut host = host().with_bridge("br1", "10.1.0.1/16");
    let towards = |host: &mut FakeHost, address: [u8; 4]| {
        let links = host.links(Ns::Host, LinkQuery::Towards(address.into())).expect("an answer");
        links.into_iter().next().map(|link| link.name)
    };
    assert_eq!(towards(&mut host, [10, 1, 2, 9]).as_deref(), Some("br0"));
    assert_eq!(towards(&mut host, [10, 1, 3, 9]).as_deref(), Some("br1"));
    assert_eq!(towards(&mut host, [10, 2, 0, 1]), None);
}

#[test]
fn the_change_of_a_number_fails_once() {
    let mut host = host();
    host.fail_at(2);
    let up = set(Ns::Container, "lo", LinkSetting::Up);
    host.apply(&up).expect("the first");
    assert!(host.is_to_fail());
    let error = host.apply(&up).expect_err("the second");
    assert_eq!(error.to_string(), format!("{REFUSAL}: container: link set lo up"));
    host.apply(&up).expect("the third");
    assert_eq!((host.is_to_fail(), host.applied().len()), (false, 3));
}
