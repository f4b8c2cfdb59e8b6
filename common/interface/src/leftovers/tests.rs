use super::*;
use cni_core::json::Json;
use cni_model::link::Address;
use cni_model::netns::NamespaceNumber;
use cni_model::plan::Plan;
use cni_plugin::namespace::RecordedNamespace;
use cni_testkit::{FakeContainer, FakeHost};

use crate::fixtures::{attachment, request};
use crate::veth::NewVeth;

const NETNS: &str = "/run/netns/c1";

fn link(name: &str, alias: Option<&str>) -> Link {
    let (kind, alias) = (Some("veth".to_owned()), alias.map(str::to_owned));
    Link { name: name.to_owned(), kind, alias, ..Link::default() }
}

/// A container with two interfaces, one address each, whose host's ends have these aliases.
fn host_with(eth0: Option<&str>, eth1: Option<&str>) -> FakeHost {
    let mut host = FakeHost::new().with_container(NETNS, FakeContainer::Present(None));
    host.enter(NETNS).expect("entered");
    for (name, cidr, alias) in [("eth0", "10.1.2.5/24", eth0), ("eth1", "10.1.3.5/24", eth1)] {
        let at = attachment("c1", name);
        add_veth(&at, alias, &mut host);
        let cidr = cidr.parse().expect("CIDR");
        host.add_address(Ns::Container, name, Address { cidr, tentative: false, dad_failed: false });
    }
    host
}

/// Makes the interface of an attachment, whose end on the host has this alias.
fn add_veth(at: &Attachment, alias: Option<&str>, host: &mut FakeHost) {
    let veth = NewVeth::choose(at, None, host).expect("chosen");
    let mut plan = Plan::default();
    veth.plan(&mut plan, at, None);
    plan.steps().iter().for_each(|(_, step)| drop(host.apply(step).expect("made")));
    host.change_link(Ns::Host, veth.host.as_str(), |link| link.alias = alias.map(str::to_owned));
}

fn host() -> FakeHost {
    host_with(Some("cni:net1:c1:eth0"), Some("cni:net1:c1:eth1"))
}

fn sandbox(host: &mut FakeHost) -> NamespaceContents {
    observe_sandbox(&request(NETNS), &attachment("c1", "eth0"), host).expect("observed")
}

fn ips(texts: &[&str]) -> Vec<IpAddr> {
    texts.iter().map(|text| text.parse().expect("address")).collect()
}

#[test]
fn the_sandbox_tells_own_addresses_from_those_of_other_interfaces() {
    let mut host = host();
    let lo = Address { cidr: "10.1.2.5/32".parse().expect("CIDR"), tentative: false, dad_failed: false };
    host.add_address(Ns::Container, "lo", lo);
    let NamespaceContents { is_seen, veth, own, others, unlabelled } = sandbox(&mut host);
    assert!(is_seen);
    assert!(matches!(veth, NamespaceVeth::Own(_)), "{veth:?}");
    assert_eq!((own, others, unlabelled), (ips(&["10.1.2.5"]), ips(&["10.1.3.5"]), ips(&[])));
}

#[test]
fn an_interface_of_another_network_or_of_the_container_itself_keeps_nothing() {
    for alias in [None, Some("rack 7"), Some("cni:net2:c1:eth1"), Some("cni:net1:c2:eth1"), Some("cni:net1:c1:eth0")] {
        let found = sandbox(&mut host_with(Some("cni:net1:c1:eth0"), alias));
        assert_eq!(found.others, ips(&[]), "{alias:?}");
        let names_attachment = alias.is_some_and(|alias| alias.starts_with("cni:"));
        assert_eq!(found.unlabelled, if names_attachment { ips(&[]) } else { ips(&["10.1.3.5"]) }, "{alias:?}");
    }
}

/// An alias that is too long to name the container.
#[test]
fn another_interface_of_a_network_with_a_long_name_is_known_inside_the_container() {
    let name = "n".repeat(250);
    let of = |network: &str, ifname: &str| cni_testkit::attachment(network, "c1", ifname);
    let own = of(&name, "eth0");
    for (eth1, others) in [(of(&name, "eth1"), ips(&["10.1.3.5"])), (of(&"m".repeat(250), "eth1"), ips(&[]))] {
        let mut host = host_with(Some(&alias::of(&own)), Some(&alias::of(&eth1)));
        let found = observe_sandbox(&request(NETNS), &own, &mut host).expect("observed");
        assert_eq!((found.others, found.unlabelled), (others, ips(&[])));
    }
}

#[test]
fn what_is_removed_is_the_attachments_wherever_it_is() {
    for (what, eth0, eth1, left) in [
        ("ours", Some("cni:net1:c1:eth0"), None, ["eth1"].as_slice()),
        ("the reference's", None, None, &["eth1"]),
        ("another container's", Some("cni:net1:c2:eth0"), None, &["eth0", "eth1"]),
        ("ours under another name", None, Some("cni:net1:c1:eth0"), &["eth0"]),
        ("ours under another name, beside another's", Some("cni:net1:c2:eth0"), Some("cni:net1:c1:eth0"), &["eth0"]),
    ] {
        let mut host = host_with(eth0, eth1);
        let sandbox = sandbox(&mut host);
        remove_veth(&attachment("c1", "eth0"), &sandbox, &mut host).expect("removed");
        let stay = ["eth0", "eth1"].into_iter().filter(|name| has(&mut host, Ns::Container, name));
        assert_eq!(stay.collect::<Vec<_>>(), left, "{what}");
    }
}

#[test]
fn what_is_no_veth_is_not_the_attachments() {
    let mut host = FakeHost::new().with_container(NETNS, FakeContainer::Present(None));
    host.enter(NETNS).expect("entered");
    host.add_link(Ns::Container, Link { kind: None, ..link("eth0", None) });
    assert_eq!(sandbox(&mut host), NamespaceContents { is_seen: true, ..NamespaceContents::default() });
    remove_veth(&attachment("c1", "eth0"), &NamespaceContents::default(), &mut host).expect("removed");
    assert!(has(&mut host, Ns::Container, "eth0"));
}

#[test]
fn a_namespace_that_is_gone_is_no_failure_and_one_that_is_closed_is() {
    let mut host = host();
    host.set_container(NETNS, FakeContainer::Gone);
    let at = attachment("c1", "eth0");
    assert_eq!(observe_sandbox(&request(NETNS), &at, &mut host).expect("gone"), NamespaceContents::default());
    remove_child("macvlan", &request(NETNS), &mut host).expect("gone");
    host.set_container(NETNS, FakeContainer::Closed);
    assert_eq!(observe_sandbox(&request(NETNS), &at, &mut host).expect_err("closed").code().number(), 8);
    assert_eq!(remove_child("macvlan", &request(NETNS), &mut host).expect_err("closed").code().number(), 8);
}

/// ADD was killed before it gave the host's end its alias, and recorded the link. The address must not be given to another container while
/// the link may be there.
#[test]
fn gc_removes_the_veth_of_a_killed_add_unless_it_may_be_anothers() {
    let unsearchable = "c1 may be in a network namespace that cannot be searched";
    for (port, alias, number, kept, error) in [
        (None, None, true, false, ""),
        (None, Some("cni:net2:c1:eth0"), true, true, ""),
        (Some("cali0123456789a"), None, true, true, ""),
        (None, None, false, true, unsearchable),
    ] {
        let mut host = host_with(alias, Some("cni:net1:c1:eth1"));
        host.set_container(NETNS, FakeContainer::Present(Some("boot:1".to_owned())));
        host.enter(NETNS).expect("entered");
        let (at, maker) = (attachment("c1", "eth0"), "bridge".to_owned());
        let mut namespace = RecordedNamespace::of_entered(NETNS, &mut host).expect("asked").expect("identified");
        if !number {
            namespace.number = namespace.number.map(|number| NamespaceNumber { is_unique: false, ..number });
            namespace.identity = "boot:2".to_owned();
        }
        host.apply(&AttachmentRecord { at, maker, namespace, link: None, is_again: false }.write()).expect("recorded");
        let ends = host.links(Ns::Host, LinkQuery::Kind("veth")).expect("asked");
        let end = ends.iter().find(|end| end.alias.as_deref() == alias).expect("the host's end").name.clone();
        port.into_iter().for_each(|port| host.change_link(Ns::Host, &end, |link| link.name = port.to_owned()));
        let valid = r#"{"cni.dev/valid-attachments":[{"containerID":"c1","ifname":"eth1"}]}"#;
        let valid =
            ValidAttachments::parse(&Json::parse(valid.as_bytes()).expect("JSON")).expect("read").expect("a list");
        let mut removal = Removal::new(&mut host);
        let left = remove_invalid_veths(&request(NETNS), &valid, &mut removal).expect("known");
        let failed = removal.finish().err().map(|error| error.to_string()).unwrap_or_default();
        assert!(failed.ends_with(error) && failed.is_empty() == error.is_empty(), "{failed}");
        assert_eq!(left.len(), usize::from(!error.is_empty()), "{port:?} {alias:?}");
        host.enter(NETNS).expect("entered");
        assert_eq!(
            ["eth0", "eth1"].map(|name| has(&mut host, Ns::Container, name)),
            [kept, true],
            "{port:?} {alias:?}"
        );
    }
}

fn has(host: &mut dyn Host, ns: Ns, name: &str) -> bool {
    host.link(ns, &IfName::parse(name).expect("name")).expect("asked").is_some()
}

fn with_aliases(aliases: &[(&str, &str)]) -> FakeHost {
    let mut host = FakeHost::new();
    for (name, alias) in aliases {
        host.add_link(Ns::Host, link(name, Some(alias)));
    }
    host
}

const ALIASES: [(&str, &str); 4] = [
    ("veth1", "cni:net1:c1:eth0"),
    ("veth2", "cni:net1:c2:eth0"),
    ("veth3", "cni:net2:c1:eth0"),
    ("veth4", "cni:net1:c1:eth1"),
];

fn names(host: &mut FakeHost) -> Vec<&'static str> {
    ALIASES.into_iter().map(|(name, _)| name).filter(|name| has(host, Ns::Host, name)).collect()
}

#[test]
fn the_links_of_one_attachment_are_removed_by_their_alias() {
    let mut host = with_aliases(&ALIASES);
    remove_veth(&attachment("c1", "eth0"), &NamespaceContents::default(), &mut host).expect("removed");
    assert_eq!(names(&mut host), ["veth2", "veth3", "veth4"]);
}

#[test]
fn the_links_of_a_network_that_no_valid_attachment_has_are_stale() {
    let json = br#"{"cni.dev/valid-attachments":[{"containerID":"c1","ifname":"eth0"}]}"#;
    let json = cni_core::json::Json::parse(json).expect("JSON");
    let valid = ValidAttachments::parse(&json).expect("a list").expect("given");
    let network = attachment("c1", "eth0").network;
    let stale = stale_links(&network, &valid, &mut with_aliases(&ALIASES)).expect("asked");
    assert_eq!(stale.into_iter().map(|link| link.name).collect::<Vec<_>>(), ["veth2", "veth4"]);
}

/// A link of the container that says nothing of its owner, with this MAC address and these addresses.
fn host_with_link(netns: &str, kind: &str, mac: &str, addresses: &[&str]) -> FakeHost {
    let mut host = FakeHost::new().with_container(netns, FakeContainer::Present(None));
    host.enter(netns).expect("entered");
    add_veth(&attachment("c1", "eth0"), None, &mut host);
    let (kind, mac) = (Some(kind.to_owned()), Some(mac.parse().expect("MAC")));
    host.change_link(Ns::Container, "eth0", |link| (link.kind, link.mac) = (kind, mac));
    for address in addresses {
        let cidr = address.parse().expect("CIDR");
        host.add_address(Ns::Container, "eth0", Address { cidr, tentative: false, dad_failed: false });
    }
    host
}

/// DEL with the result that told the MAC address `02:00:00:00:00:01`, and these addresses.
fn reported(netns: &str, addresses: &[&str]) -> Request {
    let ips: Vec<String> = addresses.iter().map(|one| format!(r#"{{"address":"{one}","interface":0}}"#)).collect();
    let interface = format!(r#"{{"name":"eth0","mac":"02:00:00:00:00:01","sandbox":"{netns}"}}"#);
    let result = format!(r#"{{"cniVersion":"1.1.0","interfaces":[{interface}],"ips":[{}]}}"#, ips.join(","));
    let config = format!(r#"{{"cniVersion":"1.1.0","name":"net1","type":"dummy","prevResult":{result}}}"#);
    cni_testkit::request("DEL", &[("CNI_NETNS", netns)], &config)
}

/// A container of the reference, at a path that has been reused, may have the address.
#[test]
fn a_veth_is_another_containers_if_the_result_names_another_end_on_the_host() {
    let inside = format!(r#"{{"name":"eth0","mac":"02:00:00:00:00:07","sandbox":"{NETNS}"}}"#);
    let own = host_with(None, None).links(Ns::Host, LinkQuery::Kind("veth")).expect("asked")[0].name.clone();
    for (on_host, is_own) in [(&[][..], true), (&["br0", &own], true), (&["br0", "veth12345678"], false)] {
        let mut host = host_with(None, None);
        let names = on_host.iter().map(|name| format!(r#"{{"name":"{name}"}},"#)).collect::<String>();
        let result = format!(
            r#"{{"cniVersion":"1.1.0","interfaces":[{names}{inside}],
                "ips":[{{"address":"10.1.2.5/24","interface":{}}}]}}"#,
            on_host.len()
        );
        let config = format!(r#"{{"cniVersion":"1.1.0","name":"net1","type":"dummy","prevResult":{result}}}"#);
        let request = cni_testkit::request("DEL", &[("CNI_NETNS", NETNS)], &config);
        let found = observe_sandbox(&request, &attachment("c1", "eth0"), &mut host).expect("observed");
        assert_eq!(found.veth != NamespaceVeth::None, is_own, "{on_host:?}");
    }
}

#[test]
fn an_interface_is_another_containers_by_its_mac_address_and_its_addresses() {
    const PROC: &str = "/proc/7/ns/net";
    let (same, other) = ("02:00:00:00:00:01", "02:00:00:00:00:02");
    let (v4, v6, another) = ("10.1.2.5/24", "fd00:1::5/64", "10.1.2.6/24");
    let by_itself = "fe80::1/64";
    for (what, mac, reported_addresses, addresses, [by_name, by_number]) in [
        ("as told", same, [v4].as_slice(), [v4].as_slice(), [true, true]),
        ("other addresses", same, &[v4], &[another], [true, true]),
        ("another MAC address", other, &[v4], &[v4], [true, true]),
        ("another MAC address, and one address left", other, &[v4, v6], &[another, v6], [true, true]),
        ("another container's", other, &[v4], &[another], [false, false]),
        ("without addresses by now", other, &[v4], &[by_itself], [true, false]),
        ("without addresses", other, &[], &[], [true, false]),
        ("with the container's own address", other, &[], &[another], [true, false]),
    ] {
        for (netns, is_ours) in [(NETNS, by_name), (PROC, by_number)] {
            let request = reported(netns, reported_addresses);
            for kind in ["macvlan", "veth"] {
                let mut host = host_with_link(netns, kind, mac, addresses);
                if kind == "macvlan" {
                    remove_child(kind, &request, &mut host).expect("removed");
                } else {
                    let at = attachment("c1", "eth0");
                    let sandbox = observe_sandbox(&request, &at, &mut host).expect("observed");
                    remove_veth(&at, &sandbox, &mut host).expect("removed");
                }
                assert_eq!(!has(&mut host, Ns::Container, "eth0"), is_ours, "{what}, {kind} at {netns}");
            }
        }
    }
}

#[test]
fn a_child_of_another_kind_is_somebody_elses_and_a_result_is_not_needed() {
    let mac = "02:00:00:00:00:02";
    for (kind, is_left) in [("ipvlan", true), ("macvlan", false)] {
        let mut host = host_with_link(NETNS, kind, mac, &[]);
        for _ in ["there", "gone"] {
            remove_child("macvlan", &request(NETNS), &mut host).expect("removed");
            assert_eq!(has(&mut host, Ns::Container, "eth0"), is_left, "{kind}");
        }
    }
}

/// A container with a macvlan, and a record of both, as ADD leaves it.
fn recorded() -> FakeHost {
    recorded_by(Some)
}

/// The same with what an ADD has recorded of the link when it was killed.
fn recorded_by(known: impl FnOnce(RecordedLink) -> Option<RecordedLink>) -> FakeHost {
    let mut host = FakeHost::new().with_container(NETNS, FakeContainer::Present(Some("boot:1".to_owned())));
    host.enter(NETNS).expect("entered");
    let mac = "02:00:00:00:00:01".parse().ok();
    let macvlan = Link { kind: Some("macvlan".to_owned()), mac, ..link("eth0", None) };
    let index = host.add_link(Ns::Container, macvlan.clone());
    let namespace = RecordedNamespace::of_entered(NETNS, &mut host).expect("asked").expect("identified");
    let link = known(RecordedLink::of(&Link { index, ..macvlan }));
    record("net1", namespace, link, &mut host);
    host
}

fn record(network: &str, namespace: RecordedNamespace, link: Option<RecordedLink>, host: &mut FakeHost) {
    let at = cni_testkit::attachment(network, "c1", "eth0");
    let record = AttachmentRecord { at, maker: "macvlan".to_owned(), namespace, link, is_again: false };
    host.apply(&record.write()).expect("written");
}

#[test]
fn a_link_is_found_by_its_record_when_the_container_has_changed_its_name_and_mac_address() {
    let mut host = recorded();
    host.change_link(Ns::Container, "eth0", |link| {
        link.name = "renamed".to_owned();
        link.mac = "02:00:00:00:00:99".parse().ok();
    });
    remove_child("macvlan", &request(NETNS), &mut host).expect("removed");
    assert!(!has(&mut host, Ns::Container, "renamed"));
}

/// The kernel allows what a configuration may not have, and texts of other encodings.
#[test]
fn a_link_is_removed_under_any_name_that_the_kernel_allows() {
    for name in ["\u{3000}".to_owned(), "\u{fffd}".repeat(15)] {
        let mut host = recorded();
        host.change_link(Ns::Container, "eth0", |link| link.name.clone_from(&name));
        remove_child("macvlan", &request(NETNS), &mut host).expect("removed");
        assert_eq!(host.links(Ns::Container, LinkQuery::Kind("macvlan")).expect("asked"), []);
    }
}

#[test]
fn a_link_that_was_found_is_removed_although_another_one_has_its_name_by_then() {
    let mut host = recorded();
    host.interfere_before("link del", |host| {
        host.change_link(Ns::Container, "eth0", |link| "eth9".clone_into(&mut link.name));
        host.add_link(Ns::Container, Link { kind: Some("macvlan".to_owned()), ..link("eth0", None) });
    });
    remove_child("macvlan", &request(NETNS), &mut host).expect("removed");
    assert!(has(&mut host, Ns::Container, "eth0") && !has(&mut host, Ns::Container, "eth9"));
}

#[test]
fn a_link_is_removed_from_a_namespace_that_the_runtime_has_lost() {
    for netns in ["", NETNS] {
        let mut host = recorded();
        host.set_container(NETNS, FakeContainer::Unnamed);
        remove_child("macvlan", &request(netns), &mut host).expect("removed");
        assert!(!host.state().join("\n").contains("link eth0"), "{:?}", host.state());
    }
    let mut host = recorded();
    host.set_container(NETNS, FakeContainer::Gone);
    remove_child("macvlan", &request(""), &mut host).expect("its namespace has ended with it");
}

/// By its name, or by that which it has until it is complete.
#[test]
fn a_link_that_a_killed_add_has_not_recorded_is_removed() {
    for name in ["eth0".to_owned(), temporary_name(&attachment("c1", "eth0").ifname).to_string()] {
        let mut host = recorded_by(|_| None);
        host.change_link(Ns::Container, "eth0", |link| link.name.clone_from(&name));
        let kept = gc(&mut host);
        assert_eq!((host.links(Ns::Container, LinkQuery::Kind("macvlan")).expect("asked"), kept), (vec![], vec![]));
    }
}

/// Or its ADD is about to make.
#[test]
fn a_link_that_another_network_has_recorded_stays() {
    for is_complete in [true, false] {
        let mut own = None;
        let mut host = recorded_by(|link| {
            own = is_complete.then_some(link);
            None
        });
        let namespace = RecordedNamespace::of_entered(NETNS, &mut host).expect("asked").expect("identified");
        record("net2", namespace, own, &mut host);
        assert_eq!(gc(&mut host), []);
        assert!(has(&mut host, Ns::Container, "eth0"), "{is_complete}");
    }
}

/// The attachments that may still have a link.
fn gc(host: &mut FakeHost) -> Vec<Attachment> {
    let mut removal = Removal::new(host);
    let kept = remove_invalid_children("macvlan", &request(NETNS), &ValidAttachments::default(), &mut removal);
    removal.finish().expect("removed");
    kept.expect("known")
}
