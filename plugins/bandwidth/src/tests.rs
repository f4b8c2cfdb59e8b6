//! The life of limits, on a machine in memory.

use super::*;
use cni_core::names::{Attachment, IfName, NetworkName};
use cni_model::link::Link;
use cni_model::plan::{IfPresent, LinkKind, LinkSetting, NewLink, Ns, Step, VethPeer};
use cni_model::traffic::{RootQdisc, Shaper};
use cni_plugin::attachment_record::AttachmentRecord;
use cni_plugin::host::{Host, LinkQuery};
use cni_plugin::journal::Journal;
use cni_plugin::namespace::RecordedNamespace;
use cni_testkit::lifecycle::{assert_add_is_all_or_nothing, assert_del_removes_what_add_made};
use cni_testkit::{Caller, FakeContainer, FakeHost, error_parts};

const BOTH: &str = r#""ingressRate":8000000,"ingressBurst":80000,"egressRate":16000000,"egressBurst":160000"#;
const SEND: &str = r#""egressRate":16000000,"egressBurst":160000"#;

/// A container whose interfaces a plugin before has made, with these keys.
fn caller(keys: &str) -> Caller {
    let comma = if keys.is_empty() { "" } else { "," };
    let result = r#"{"cniVersion":"1.1.0","interfaces":[{"name":"h0"},{"name":"eth0","sandbox":"/run/netns/c1"},
        {"name":"h1"},{"name":"net1","sandbox":"/run/netns/c1"}]}"#;
    let config =
        format!(r#"{{"cniVersion":"1.1.0","name":"n1","type":"bandwidth","prevResult":{result}{comma}{keys}}}"#);
    Caller::new("c1", &config)
}

fn net1(keys: &str) -> Caller {
    Caller { ifname: "net1".to_owned(), ..caller(keys) }
}

fn name(name: &str) -> IfName {
    IfName::parse(name).expect("a name")
}

/// A host with container c1, whose `eth0` and `net1` lead to `h0` and `h1`.
fn machine() -> FakeHost {
    let mut host = FakeHost::new().with_container("/run/netns/c1", FakeContainer::Present(None));
    host.enter("/run/netns/c1").expect("entered");
    for (inside, outside) in [("eth0", "h0"), ("net1", "h1")] {
        add_veth(inside, outside, &mut host);
        host.change_link(Ns::Host, outside, |link| link.alias = Some(format!("cni:n1:c1:{inside}")));
    }
    host.clear_log();
    host
}

fn add_veth(inside: &str, outside: &str, host: &mut FakeHost) {
    let peer = VethPeer { ns: Ns::Host, name: name(outside), mac: "02:00:00:00:00:03".parse().expect("a MAC") };
    let kind = LinkKind::Veth { peer };
    let link = NewLink { name: name(inside), mac: None, mtu: None, if_present: IfPresent::Refuse, kind };
    host.apply(&Step::CreateLink { ns: Ns::Container, link }).expect("a veth");
}

fn ifbs(host: &mut FakeHost) -> Vec<String> {
    let links = host.links(Ns::Host, LinkQuery::Kind("ifb")).expect("links");
    links.into_iter().map(|link| link.name).collect()
}

fn index(link: &str, host: &mut FakeHost) -> u32 {
    let host: &mut dyn Host = host;
    host.link(Ns::Host, &name(link)).expect("links").expect("a link").index
}

/// To how many links everything goes that a link receives.
fn redirects(link: &str, host: &mut FakeHost) -> Vec<u32> {
    let link = index(link, host);
    host.devices().traffic_control(Ns::Host, link).expect("traffic control").redirects
}

fn refused(caller: &Caller, host: &mut FakeHost) -> (u32, String, String) {
    let before = host.state();
    let error = error_parts(caller.add(&Bandwidth, host).expect_err("refused"));
    assert_eq!(host.state(), before);
    error
}

/// It may be anybody's, such as the end of a veth that somebody else has moved into the container.
#[test]
fn a_link_of_the_host_that_the_result_does_not_have_is_refused() {
    let none = "no interfaces provided";
    let unknown = "no veth peer of container interface found in host ns";
    let details = "the other end is h0, which prevResult does not have as an interface of the host";
    for (interfaces, code, msg) in [
        ("[]", 7, none),
        (r#"[{"name":"h1"},{"name":"eth0","sandbox":"/run/netns/c1"}]"#, 2, unknown),
        (r#"[{"name":"h0","sandbox":"/run/netns/c2"}]"#, 2, unknown),
    ] {
        let result = format!(r#""prevResult":{{"cniVersion":"1.1.0","interfaces":{interfaces}}}"#);
        let config = format!(r#"{{"cniVersion":"1.1.0","name":"n1","type":"bandwidth",{result},{BOTH}}}"#);
        let caller = caller("").with_config(&config);
        let (found, text, why) = refused(&caller, &mut machine());
        assert_eq!((found, text.as_str()), (code, msg));
        assert!(msg == none || why == details, "{why}");
        let error = caller.check(&Bandwidth, &mut machine()).expect_err("refused");
        assert_eq!((error.code().number(), error.to_string()), (code, msg.to_owned()));
        caller.del(&Bandwidth, &mut machine()).expect("DEL needs no result");
    }
}

#[test]
fn add_limits_the_link_and_leads_what_it_receives_to_an_ifb() {
    let mut host = machine();
    let result = caller(BOTH).add(&Bandwidth, &mut host).expect("ADD");
    let ifb = crate::ifb::IfbNames::of(&caller("").attachment(&Bandwidth)).expect("names").shared;
    let want = [
        "host: qdisc replace dev h0 root tbf rate 1000000bps limit 35000 buffer 156250".to_owned(),
        format!("host: link add {ifb} type ifb mtu 1500"),
        format!(r#"host: link set {ifb} alias "cni:n1:c1:eth0""#),
        format!("host: link set {ifb} txqueuelen 0"),
        format!("host: link set {ifb} up"),
        format!("host: qdisc replace dev {ifb} root tbf rate 2000000bps limit 70000 buffer 156250"),
        format!("host: filter add dev h0 ingress redirect dev {ifb}"),
    ];
    assert_eq!(host.applied(), want);
    let reported = result.interfaces.last().expect("the ifb");
    assert_eq!((reported.name.as_str(), reported.sandbox.as_str(), reported.mtu), (ifb.as_str(), "", 0));
    assert!(reported.mac.starts_with("02:"), "{}", reported.mac);
    caller(BOTH).check(&Bandwidth, &mut host).expect("CHECK");
}

/// Its name is the reference's; see section 6.3 of its description.
#[test]
fn the_ifb_has_the_references_name() {
    let names = |network, container, ifname| {
        let names = crate::ifb::IfbNames::of(&cni_testkit::attachment(network, container, ifname)).expect("names");
        names.texts()
    };
    assert_eq!(names("n1", "ctr1", "eth0")[0], "bwpc189d8b6a7b4");
    assert_eq!(names("cni-plugin-bandwidth-test", "dummy", "eth0")[0], "bwpa8eda89404b7");
    assert_ne!(names("n1", "ctr1", "eth0")[1], names("n1", "ctr1", "eth1")[1]);
}

#[test]
fn a_failure_at_any_step_leaves_nothing() {
    assert_eq!(assert_add_is_all_or_nothing(&Bandwidth, machine, &caller(BOTH)), 7);
    let with_earlier = || {
        let mut host = machine();
        caller(SEND).add(&Bandwidth, &mut host).expect("ADD");
        host.clear_log();
        host
    };
    assert!(assert_add_is_all_or_nothing(&Bandwidth, with_earlier, &caller(BOTH)) == 3);
}

#[test]
fn del_removes_what_add_made() {
    for keys in [BOTH, SEND, r#""ingressRate":8000000,"ingressBurst":80000"#] {
        assert_del_removes_what_add_made(&Bandwidth, &mut machine(), &caller(keys));
    }
    let mut host = machine();
    net1(BOTH).add(&Bandwidth, &mut host).expect("ADD");
    assert_del_removes_what_add_made(&Bandwidth, &mut host, &caller(BOTH));
}

/// As most containers are added to a list that k3s or Calico writes.
#[test]
fn without_limits_the_result_is_passed_on_and_nothing_changes() {
    let zeros = r#""runtimeConfig":{"bandwidth":{"ingressRate":0,"ingressBurst":0,"egressRate":0,"egressBurst":0}}"#;
    for keys in ["", zeros, r#""ingressRate":null,"runtimeConfig":{"bandwidth":{"IngressRate":8}}"#] {
        let (mut host, caller) = (machine(), caller(keys));
        let before = host.state();
        let result = caller.add(&Bandwidth, &mut host).expect("ADD");
        assert_eq!(Some(result), caller.request(&Bandwidth, "ADD").prev_result().expect("a result"));
        caller.check(&Bandwidth, &mut host).expect("CHECK");
        Caller { netns: "/gone".to_owned(), ..caller.clone() }.check(&Bandwidth, &mut host).expect("CHECK");
        assert_eq!((host.applied(), host.state()), (&[][..], before));
    }
}

/// As containerd spells it.
#[test]
fn the_runtime_brings_limits_unless_the_list_has_some() {
    let runtime = r#""runtimeConfig":{"bandWidth":{"IngressRate":8000000,"IngressBurst":4294967295}}"#;
    let mut host = machine();
    caller(runtime).add(&Bandwidth, &mut host).expect("ADD");
    let want = ["host: qdisc replace dev h0 root tbf rate 1000000bps limit 536895911 buffer 4294967295"];
    assert_eq!(host.applied(), want);
    caller(runtime).check(&Bandwidth, &mut host).expect("CHECK");
    let both = format!(r#"{runtime},"egressRate":0"#);
    caller(&both).add(&Bandwidth, &mut host).expect("ADD");
    assert_eq!(host.applied(), want);
}

#[test]
fn numbers_that_are_no_limit_are_refused() {
    let burst = |bits: u64| format!(r#""ingressRate":8000000,"ingressBurst":{bits}"#);
    for (keys, text, details) in [
        (
            r#""egressRate":8000"#.to_owned(),
            "if rate is set, burst must also be set",
            "egressRate is 8000, and there is no egressBurst",
        ),
        (
            r#""ingressBurst":8000"#.to_owned(),
            "if burst is set, rate must also be set",
            "ingressBurst is 8000, and there is no ingressRate",
        ),
        (
            burst(34_359_738_360),
            "burst cannot be more than 4GB",
            "ingressBurst is 34359738360 bits, where 34359738359 is the most",
        ),
        (
            r#""ingressRate":7,"ingressBurst":80000"#.to_owned(),
            "rate cannot be less than 8 bits per second",
            "ingressRate is 7 bits per second; 0 is no limit",
        ),
        (burst(12_111), "ingressBurst of 12104 bits cannot pass a frame of 1514 bytes: 12112 bits are needed", ""),
        (
            r#""egressRate":8,"egressBurst":80000"#.to_owned(),
            "egressRate of 8 bits per second is too low for a frame of 1514 bytes",
            "",
        ),
    ] {
        let want = (7, text.to_owned(), details.to_owned());
        assert_eq!(refused(&caller(&keys), &mut machine()), want, "{keys}");
        caller(&keys).del(&Bandwidth, &mut machine()).expect("DEL needs no limits");
    }
    for keys in [burst(12_112), burst(34_359_738_359)] {
        caller(&keys).add(&Bandwidth, &mut machine()).expect("ADD");
    }
    for number in ["-1", "1.5", "1e6", r#""8000""#] {
        let keys = format!(r#""ingressRate":{number},"ingressBurst":80000"#);
        assert_eq!(refused(&caller(&keys), &mut machine()).0, 6, "{number}");
    }
}

#[test]
fn only_the_end_of_a_veth_is_limited() {
    let mut host = machine();
    let lonely = Caller::new("c1", &format!(r#"{{"cniVersion":"1.1.0","name":"n1","type":"bandwidth",{BOTH}}}"#));
    assert_eq!(refused(&lonely, &mut host).1, "must be called as chained plugin");
    assert_eq!(
        lonely.check(&Bandwidth, &mut host).expect_err("refused").to_string(),
        "must be called as chained plugin"
    );
    let missing = Caller { ifname: "eth9".to_owned(), ..caller(BOTH) };
    let text = r#"container interface eth9 has no veth peer: could not look up "eth9": Link not found"#;
    assert_eq!((refused(&missing, &mut host).0, refused(&missing, &mut host).1), (2, text.to_owned()));
    host.change_link(Ns::Container, "eth0", |link| link.kind = Some("macvlan".to_owned()));
    let text = r#"container interface eth0 has no veth peer: interface "eth0" was not a veth interface"#;
    assert_eq!(refused(&caller(BOTH), &mut host).1, text);
    caller("").add(&Bandwidth, &mut host).expect("there is nothing to limit");
}

#[test]
fn the_second_interface_of_a_container_has_an_ifb_of_its_own() {
    let mut host = machine();
    let (first, second) = (caller(SEND), net1(SEND));
    first.add(&Bandwidth, &mut host).expect("ADD");
    let alone = host.state();
    second.add(&Bandwidth, &mut host).expect("ADD");
    assert_eq!(ifbs(&mut host).len(), 2);
    for caller in [&first, &second] {
        caller.check(&Bandwidth, &mut host).expect("CHECK");
    }
    second.del(&Bandwidth, &mut host).expect("DEL");
    assert_eq!(host.state(), alone);
    first.check(&Bandwidth, &mut host).expect("CHECK");
}

#[test]
fn an_add_can_be_repeated_and_changes_the_limits() {
    let mut host = machine();
    let before = host.state();
    caller(SEND).add(&Bandwidth, &mut host).expect("ADD");
    for keys in [BOTH, BOTH, r#""egressRate":80000000,"egressBurst":160000"#] {
        caller(keys).add(&Bandwidth, &mut host).expect("ADD");
        caller(keys).check(&Bandwidth, &mut host).expect("CHECK");
        assert_eq!((ifbs(&mut host).len(), redirects("h0", &mut host).len()), (1, 1));
    }
    caller("").del(&Bandwidth, &mut host).expect("DEL");
    assert_eq!(host.state(), before);
}

#[test]
fn an_add_with_fewer_limits_ends_the_others() {
    const RECEIVE: &str = r#""ingressRate":8000000,"ingressBurst":80000"#;
    for (first, second) in [(BOTH, RECEIVE), (BOTH, SEND), (BOTH, ""), (SEND, RECEIVE), (SEND, ""), (RECEIVE, SEND)] {
        let mut host = machine();
        net1(BOTH).add(&Bandwidth, &mut host).expect("another interface");
        caller(second).add(&Bandwidth, &mut host).expect("ADD");
        let kinds = |host: &mut FakeHost| {
            let h0 = index("h0", host);
            (
                host.devices().traffic_control(Ns::Host, h0).expect("traffic control").root,
                redirects("h0", host).len(),
                ifbs(host),
            )
        };
        let want = kinds(&mut host);
        caller(first).add(&Bandwidth, &mut host).expect("ADD");
        caller(second).add(&Bandwidth, &mut host).expect("ADD");
        assert_eq!(kinds(&mut host), want, "{first} {second}");
        net1(BOTH).check(&Bandwidth, &mut host).expect("CHECK");
    }
}

/// What the reference has made: no alias, and the wrapped numbers.
fn add_as_the_reference(host: &mut FakeHost) {
    let both = r#""egressRate":1000000,"egressBurst":4294967295"#;
    caller(both).add(&Bandwidth, host).expect("ADD");
    let ifb = ifbs(host).pop().expect("an ifb");
    host.change_link(Ns::Host, &ifb, |link| link.alias = None);
    let shaper = Shaper { rate: 125_000, limit: 536_874_036, buffer: 2_684_354_435 };
    host.apply(&Step::SetShaper { ns: Ns::Host, name: name(&ifb), shaper }).expect("wrapped");
}

#[test]
fn what_the_reference_has_made_is_checked_and_removed() {
    let mut host = machine();
    let before = host.state();
    add_as_the_reference(&mut host);
    caller(r#""egressRate":1000000,"egressBurst":4294967295"#).check(&Bandwidth, &mut host).expect("CHECK");
    caller("").del(&Bandwidth, &mut host).expect("DEL");
    assert_eq!(host.state(), before);
}

#[test]
fn an_ifb_of_the_reference_that_another_interface_uses_is_left_to_it() {
    let mut host = machine();
    add_as_the_reference(&mut host);
    let first = host.state();
    net1("").del(&Bandwidth, &mut host).expect("DEL");
    assert_eq!(host.state(), first);
    net1(SEND).add(&Bandwidth, &mut host).expect("ADD");
    assert_eq!(ifbs(&mut host).len(), 2);
    net1("").del(&Bandwidth, &mut host).expect("DEL");
    assert_eq!(host.state(), first);
}

/// The reference joins network and container, as this plugin joins network, container and interface.
#[test]
fn an_ifb_of_the_reference_with_the_own_name_of_another_interface_is_left() {
    let mut host = machine();
    add_veth("eth2", "h2", &mut host);
    let result = r#"{"cniVersion":"1.1.0","interfaces":[{"name":"h2"},{"name":"eth2","sandbox":"/run/netns/c1"}]}"#;
    let config = format!(r#"{{"cniVersion":"1.1.0","name":"n1","type":"bandwidth","prevResult":{result},{SEND}}}"#);
    let other =
        Caller { ifname: "eth2".to_owned(), netns: "/run/netns/c1".to_owned(), ..Caller::new("c1eth0", &config) };
    other.add(&Bandwidth, &mut host).expect("ADD");
    let ifb = ifbs(&mut host).pop().expect("an ifb");
    assert_eq!(ifb, ifb::IfbNames::of(&caller("").attachment(&Bandwidth)).expect("names").own.as_str());
    host.change_link(Ns::Host, &ifb, |link| link.alias = None);
    let before = host.state();
    caller("").del(&Bandwidth, &mut host).expect("DEL");
    assert_eq!(host.state(), before);
}

/// ADD makes the ifb before its alias, and leads packets to it last.
#[test]
fn gc_leaves_an_ifb_that_an_add_in_another_network_has_just_made() {
    for (network, is_left) in [("n2", true), ("n1", false)] {
        let mut host = machine();
        host.set_container("/run/netns/c1", FakeContainer::Present(Some("boot:1".to_owned())));
        host.enter("/run/netns/c1").expect("entered");
        let namespace = RecordedNamespace::of_entered("/run/netns/c1", &mut host).expect("asked").expect("identified");
        let network = NetworkName::parse(network).expect("a name");
        let at = Attachment { network, ..caller("").attachment(&Bandwidth) };
        let name = ifb::IfbNames::of(&at).expect("names").shared.to_string();
        let record = AttachmentRecord { at, maker: "bridge".to_owned(), namespace, link: None, is_again: false };
        host.apply(&record.write()).expect("recorded");
        host.add_link(Ns::Host, Link { name, kind: Some("ifb".to_owned()), ..Link::default() });
        caller(r#""cni.dev/valid-attachments":[]"#).gc(&Bandwidth, &mut host).expect("GC");
        assert_eq!(ifbs(&mut host).len(), usize::from(is_left));
    }
}

/// The token bucket is deleted with the veth.
#[test]
fn del_leaves_the_limit_of_a_veth_that_is_not_known_to_be_its_own() {
    for (alias, is_left) in
        [(None, true), (Some("uplink"), true), (Some("cni:n1:c2:eth0"), true), (Some("cni:n1:c1:eth0"), false)]
    {
        let mut host = machine();
        caller(BOTH).add(&Bandwidth, &mut host).expect("ADD");
        host.change_link(Ns::Host, "h0", |link| link.alias = alias.map(str::to_owned));
        caller("").del(&Bandwidth, &mut host).expect("DEL");
        let h0 = index("h0", &mut host);
        let root = host.devices().traffic_control(Ns::Host, h0).expect("traffic control").root;
        assert_eq!((root.is_some(), ifbs(&mut host).len()), (is_left, 0), "{alias:?}");
    }
}

/// As DEL of the reference leaves it, if the veth still exists.
#[test]
fn a_redirect_to_a_link_that_is_gone_does_not_stay() {
    let mut host = machine();
    let before = host.state();
    caller(SEND).add(&Bandwidth, &mut host).expect("ADD");
    let ifb = name(&ifbs(&mut host).pop().expect("an ifb"));
    host.apply(&Step::RemoveLink { ns: Ns::Host, name: ifb }).expect("removed");
    assert_eq!(redirects("h0", &mut host), [0]);
    let error = caller(SEND).check(&Bandwidth, &mut host).expect_err("lost");
    assert_eq!(error.to_string(), "get ifb device: Link not found");
    caller(SEND).add(&Bandwidth, &mut host).expect("ADD");
    caller(SEND).check(&Bandwidth, &mut host).expect("CHECK");
    caller("").del(&Bandwidth, &mut host).expect("DEL");
    assert_eq!(host.state(), before);
}

#[test]
fn del_ends_the_limits_without_the_namespace() {
    for container in [FakeContainer::Gone, FakeContainer::Present(None)] {
        let mut host = machine();
        caller(SEND).add(&Bandwidth, &mut host).expect("ADD");
        host.set_container("/run/netns/c1", container);
        let nameless = Caller { netns: String::new(), ..caller("") };
        nameless.del(&Bandwidth, &mut host).expect("DEL");
        assert_eq!(ifbs(&mut host), [""; 0]);
        nameless.del(&Bandwidth, &mut host).expect("DEL again");
    }
    let mut host = machine();
    caller(SEND).add(&Bandwidth, &mut host).expect("ADD");
    Caller { netns: String::new(), ..caller("") }.del(&Bandwidth, &mut host).expect("DEL");
    assert_eq!(redirects("h0", &mut host), [0; 0]);
}

#[test]
fn a_namespace_that_cannot_be_entered_fails_del_and_the_ifb_goes_all_the_same() {
    let mut host = machine();
    caller(BOTH).add(&Bandwidth, &mut host).expect("ADD");
    host.set_container("/run/netns/c1", FakeContainer::Closed);
    caller("").del(&Bandwidth, &mut host).expect_err("it may be there still");
    assert_eq!(ifbs(&mut host), [""; 0]);
}

#[test]
fn links_of_somebody_else_are_not_taken_over() {
    let names = crate::ifb::IfbNames::of(&caller("").attachment(&Bandwidth)).expect("names").texts();
    let mut host = machine();
    for link in &names {
        let kind = Some("dummy".to_owned());
        host.add_link(Ns::Host, Link { name: link.clone(), kind, ..Link::default() });
    }
    let details = format!("the links {} and {} of the host are somebody else's", names[0], names[1]);
    assert_eq!(refused(&caller(SEND), &mut host), (103, "adding link: file exists".to_owned(), details));
    let before = host.state();
    caller("").del(&Bandwidth, &mut host).expect("DEL");
    assert_eq!(host.state(), before);
}

#[test]
fn check_names_what_is_not_as_add_made_it() {
    let ifb = crate::ifb::IfbNames::of(&caller("").attachment(&Bandwidth)).expect("names").shared;
    let shaper = |rate| Shaper { rate, limit: 35_000, buffer: 156_250 };
    let set = |link: &str, shaper| Step::SetShaper { ns: Ns::Host, name: name(link), shaper };
    let slow = Shaper { limit: 1, ..shaper(1_000_000) };
    let short = Shaper { buffer: 1, ..shaper(1_000_000) };
    for (step, text) in [
        (set("h0", shaper(7)), "Rate doesn't match: h0 has 7, and 1000000 was configured".to_owned()),
        (set("h0", slow), "Limit doesn't match: h0 has 1, and 35000 was configured".to_owned()),
        (set("h0", short), "Buffer doesn't match: h0 has 1, and 156250 was configured".to_owned()),
        (
            Step::RemoveShaper { ns: Ns::Host, name: name("h0") },
            "Failed to find qdisc: h0 sends without a limit".to_owned(),
        ),
        (
            Step::RemoveShaper { ns: Ns::Host, name: ifb.clone() },
            format!("Failed to find qdisc: {ifb} sends without a limit"),
        ),
        (Step::set_link(Ns::Host, &ifb, LinkSetting::Down), format!("Interface {ifb} in the host namespace is down")),
        (
            Step::RemoveRedirect { ns: Ns::Host, name: name("h0"), to: ifb.clone() },
            format!("what the container sends is not limited: nothing leads from h0 to {ifb}"),
        ),
        (Step::RemoveLink { ns: Ns::Host, name: ifb.clone() }, "get ifb device: Link not found".to_owned()),
    ] {
        let mut host = machine();
        caller(BOTH).add(&Bandwidth, &mut host).expect("ADD");
        host.apply(&step).expect("changed");
        let error = caller(BOTH).check(&Bandwidth, &mut host).expect_err(&text);
        assert_eq!((error.code().number(), error.to_string()), (100, text));
    }
}

#[test]
fn gc_removes_the_ifbs_of_attachments_that_are_not_valid() {
    let mut host = machine();
    net1(SEND).add(&Bandwidth, &mut host).expect("ADD");
    let kept = host.state();
    caller(SEND).add(&Bandwidth, &mut host).expect("ADD");
    let of_another = Link {
        name: "bwp0123456789ab".to_owned(),
        kind: Some("ifb".to_owned()),
        alias: Some("cni:n2:c1:eth0".to_owned()),
        ..Link::default()
    };
    host.add_link(Ns::Host, of_another.clone());
    let foreign = Link { name: "ifb0".to_owned(), alias: None, ..of_another.clone() };
    host.add_link(Ns::Host, foreign);
    let unsaid = Link { name: "bwpba9876543210".to_owned(), alias: None, ..of_another };
    host.add_link(Ns::Host, unsaid);
    let valid = r#""cni.dev/valid-attachments":[{"containerID":"c1","ifname":"net1"}]"#;
    caller(valid).gc(&Bandwidth, &mut host).expect("GC");
    let mut left = host.state();
    left.retain(|line| !line.contains("link ifb0 ") && !line.contains("link bwp0123456789ab "));
    assert_eq!((left, ifbs(&mut host).len()), (kept, 3));
}

#[test]
fn status_asks_for_the_links_that_the_limits_need() {
    let without = || machine().without_link_kind("ifb");
    let error = error_parts(caller(BOTH).status(&Bandwidth, &mut without()).expect_err("no ifb"));
    assert_eq!((error.0, error.1.as_str()), (50, "this kernel has no links of kind ifb, load their module"));
    for keys in ["", r#""ingressRate":8000000,"ingressBurst":80000"#] {
        caller(keys).status(&Bandwidth, &mut without()).expect("ready");
    }
    caller(BOTH).status(&Bandwidth, &mut machine()).expect("ready");
    caller(r#""egressRate":1"#).status(&Bandwidth, &mut machine()).expect_err("refused");
}

/// A process that is killed takes nothing back.
#[test]
fn del_removes_what_an_add_left_that_was_killed_before_any_step() {
    for step in 1.. {
        let mut host = machine();
        let before = host.state();
        host.fail_at(step);
        let added = Bandwidth.add(&caller(BOTH).request(&Bandwidth, "ADD"), &mut Journal::new(&mut host));
        if added.is_ok() {
            assert_eq!(step, 8);
            break;
        }
        caller("").del(&Bandwidth, &mut host).expect("DEL");
        assert_eq!(host.state(), before, "killed before step {step}");
    }
}

#[test]
fn a_limit_that_the_administrator_has_set_is_not_replaced() {
    let mut host = machine();
    caller(BOTH).add(&Bandwidth, &mut host).expect("ADD");
    let found = index("h0", &mut host);
    let root = host.devices().traffic_control(Ns::Host, found).expect("traffic control").root;
    assert_eq!(root, Some(RootQdisc::Shaper(Shaper { rate: 1_000_000, limit: 35_000, buffer: 156_250 })));
    let mut host = machine();
    host.set_root_qdisc(Ns::Host, "h0", RootQdisc::Other { kind: "htb".to_owned() });
    assert_eq!(refused(&caller(BOTH), &mut host).1, "h0 has a qdisc of kind htb");
    let before = host.state();
    caller("").del(&Bandwidth, &mut host).expect("DEL");
    assert_eq!(host.state(), before);
    let error = caller(BOTH).check(&Bandwidth, &mut host).expect_err("htb");
    assert_eq!(error.to_string(), "Failed to find qdisc: h0 sends by a qdisc of kind htb, and not by tbf");
}
