//! Steps against the real kernel: each is carried out, and taken back by the step that it returns.

use cni_core::mac::Mac;
use cni_core::names::IfName;
use cni_linux::host::LinuxHost;
use cni_model::link::Link;
use cni_model::plan::{IfPresent, LinkKind, LinkMove, LinkSetting, NewLink, NewRoute, Ns, Step, VethPeer};
use cni_model::routing::FullRoute;
use cni_model::traffic::{FilterRank, Shaper, TrafficControl};
use cni_plugin::host::{Host, LinkQuery};
use nix::sched::{CloneFlags, unshare};

use crate::{request, run};

/// A host with the veth `d0` and the bridges `br0` and `br1`.
fn host() -> Box<dyn Host> {
    let mut host: Box<dyn Host> = Box::new(crate::host());
    for (name, kind) in [("d0", veth()), ("br0", bridge()), ("br1", bridge())] {
        let undo = host.apply(&create(name, IfPresent::Refuse, kind)).expect("a link");
        assert_eq!(undo.map(|undo| undo.to_string()), Some(format!("host: link del {name}")));
    }
    host
}

const fn bridge() -> LinkKind {
    LinkKind::Bridge { vlan_filtering: false }
}

fn veth() -> LinkKind {
    LinkKind::Veth { peer: VethPeer { ns: Ns::Host, name: name("d1"), mac: Mac::local([2, 0, 0, 0, 0, 3]) } }
}

fn name(name: &str) -> IfName {
    IfName::parse(name).expect("a name")
}

fn create(new: &str, if_present: IfPresent, kind: LinkKind) -> Step {
    let link = NewLink { name: name(new), mac: Some(Mac::local([2, 0, 0, 0, 0, 1])), mtu: None, if_present, kind };
    Step::CreateLink { ns: Ns::Host, link }
}

fn set(setting: LinkSetting) -> Step {
    Step::SetLink { ns: Ns::Host, name: name("d0"), setting }
}

/// The link without what the kernel counts or derives.
fn d0(host: &mut dyn Host) -> Link {
    let link = host.link(Ns::Host, &name("d0")).expect("an answer").expect("d0");
    Link { oper_state: Default::default(), ..link }
}

#[test]
fn the_watched_veths_of_the_host_are_those_that_there_are() {
    drop(host());
    let mut watching = LinuxHost::new(&request()).with_watched_veths();
    let mut listed = || {
        let found = watching.links(Ns::Host, LinkQuery::Kind("veth")).expect("an answer");
        found.into_iter().map(|link| (link.name, link.alias)).collect::<Vec<_>>()
    };
    let both = |alias: Option<&str>| [("d1".to_owned(), None), ("d0".to_owned(), alias.map(str::to_owned))];
    let mut other: Box<dyn Host> = Box::new(LinuxHost::new(&request()));
    assert_eq!([listed(), listed()], [both(None), both(None)]);
    // Of a link that is down the kernel does not tell that it has another alias.
    for setting in [LinkSetting::Alias("mine".to_owned()), LinkSetting::Up] {
        other.apply(&set(setting)).expect("set");
    }
    assert_eq!(listed(), both(Some("mine")));
    other.apply(&Step::RemoveLink { ns: Ns::Host, name: name("d0") }).expect("removed");
    assert_eq!(listed(), []);
    other.apply(&create("d0", IfPresent::Refuse, veth())).expect("a link");
    assert_eq!(listed(), both(None));
}

/// A route never took effect, and the kernel refuses to remove it as well.
#[test]
fn a_route_that_the_kernel_does_not_take_is_not_reported_as_left_and_one_that_was_there_is_put_back() {
    let mut host = host();
    for end in ["d0", "d1"] {
        host.apply(&Step::SetLink { ns: Ns::Host, name: name(end), setting: LinkSetting::Up }).expect("up");
    }
    let route = NewRoute::to("10.96.0.1/12".parse().expect("CIDR"));
    let default = FullRoute::default_by([10, 1, 2, 1].into(), d0(host.as_mut()).index, 254);
    let full = FullRoute { dst: route.dst, gateway: None, ..default };
    for step in [
        Step::AddRoute { ns: Ns::Host, name: name("d0"), route },
        Step::AddFullRoute { ns: Ns::Host, route: full.clone() },
    ] {
        let details = host.apply(&step).expect_err("refused").details();
        assert!(details.starts_with("invalid argument") && !details.contains("; and"), "{details}");
    }
    // When it removes a route of IPv6, the kernel does not compare the source address, for which it has refused the other.
    let earlier = FullRoute { dst: "fd00:9::/64".parse().expect("CIDR"), gateway: None, ..full };
    let refused = FullRoute { source: Some([0xfd00, 9, 0, 0, 0, 0, 0, 1].into()), ..earlier.clone() };
    let [earlier, refused] = [earlier, refused].map(|route| Step::AddFullRoute { ns: Ns::Host, route });
    host.apply(&earlier).expect("added").expect("undo");
    host.apply(&refused).expect_err("no link has the address");
    assert_eq!(host.apply(&earlier).expect("it is still there"), None);
    let route = NewRoute { table: Some(100), ..NewRoute::to("10.9.0.0/16".parse().expect("CIDR")) };
    let add = Step::AddRoute { ns: Ns::Host, name: name("d0"), route };
    host.apply(&add).expect("added");
    let undo = add.inverse().expect("undo");
    assert_eq!([(); 2].map(|()| host.apply(&undo).expect("removed, or absent")), [Some(add), None]);
}

/// Between a question and a step, a container may end.
#[test]
fn a_link_that_is_gone_is_down_and_no_port_and_has_no_traffic_control() {
    let mut host = host();
    let gone = d0(host.as_mut()).index;
    host.apply(&Step::RemoveLink { ns: Ns::Host, name: name("d0") }).expect("removed");
    let seen = host.devices().traffic_control(Ns::Host, gone).expect("an answer");
    assert_eq!(seen, TrafficControl { root: None, redirects: Vec::new() });
    let (ns, of) = (Ns::Host, || name("d0"));
    for step in [
        set(LinkSetting::Down),
        set(LinkSetting::NoMaster),
        Step::RemoveShaper { ns, name: of() },
        Step::RemoveRedirect { ns, name: of(), to: of() },
    ] {
        assert_eq!(host.apply(&step).expect("nothing to do"), None);
    }
    let shaper = Shaper { rate: 1_000_000, limit: 35_000, buffer: 156_250 };
    for step in [set(LinkSetting::Up), Step::SetShaper { ns, name: of(), shaper }] {
        let error = host.apply(&step).expect_err("no link");
        assert_eq!(error.to_string(), r#"there is no link "d0" in the host namespace"#);
    }
}

#[test]
fn a_last_redirect_comes_after_the_filters_of_others_and_leaves_their_discipline() {
    for (place, parent) in [("clsact", "ingress"), ("ingress", "parent ffff:")] {
        let (mut host, ns) = (host(), Ns::Host);
        let last = Step::AddRedirect { ns, name: name("d0"), to: name("br0"), rank: FilterRank::Last };
        run(&format!("tc qdisc add dev d0 {place}"));
        let undo = host.apply(&last).expect("made").expect("a change");
        let shown = run(&format!("tc filter show dev d0 {parent}"));
        assert!(shown.contains("pref 49151 u32"), "{shown}");
        host.apply(&undo).expect("taken back");
        assert_eq!(run(&format!("tc filter show dev d0 {parent}")), "");
        assert!(run("tc qdisc show dev d0").contains(place), "an empty {place} stays");
    }
}

/// The path of a namespace that a thread keeps until the test ends.
fn container() -> String {
    let (reported, path_of_thread) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        unshare(CloneFlags::CLONE_NEWNET).expect("a new network namespace");
        reported.send(format!("/proc/{}/task/{}/ns/net", std::process::id(), nix::unistd::gettid())).expect("told");
        std::thread::park();
    });
    path_of_thread.recv().expect("a namespace")
}

fn moved(host: &mut dyn Host, (from, old): (Ns, &str), (to, new): (Ns, &str), alias: &str) -> Step {
    let index = host.link(from, &name(old)).expect("asked").map_or(999_999, |link| link.index);
    Step::MoveLink(LinkMove { from, index, name: old.to_owned(), to, new_name: name(new), alias: alias.to_owned() })
}

/// Root in a container may do both between the question and the step.
#[test]
fn a_link_is_moved_and_removed_by_its_index_whatever_its_name_is_by_then() {
    let mut host = host();
    host.enter(&container()).expect("entered");
    let there = moved(host.as_mut(), (Ns::Host, "d0"), (Ns::Container, "eth0"), "");
    for (old, new) in [("d0", "x0"), ("br0", "d0")] {
        let rename = moved(host.as_mut(), (Ns::Host, old), (Ns::Host, new), "");
        host.apply(&rename).expect("renamed").expect("undo");
    }
    host.apply(&there).expect("moved");
    let link = host.link(Ns::Container, &name("eth0")).expect("asked").expect("eth0");
    assert_eq!(link.kind.as_deref(), Some("veth"));
    let step = Step::RemoveLinkByIndex { ns: Ns::Container, index: link.index };
    assert_eq!(host.apply(&step).expect("removed"), None);
    let lo = Step::RemoveLinkByIndex { ns: Ns::Container, index: 1 };
    for refused in [step, lo] {
        assert_eq!(host.apply(&refused).expect_err("missing, or lo").code().number(), 101);
    }
}
