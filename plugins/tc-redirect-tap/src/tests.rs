//! The whole life of a virtual machine's device, on a machine in memory.

use super::*;
use cni_core::mac::Mac;
use cni_core::names::IfName;
use cni_core::result::CniResult;
use cni_interface::alias;
use cni_model::link::Link;
use cni_model::plan::{IfPresent, LinkKind, LinkSetting, NewLink, Ns, Step, TapHeaders, TapOptions, TapQueues};
use cni_model::traffic::{FilterRank, RedirectPart};
use cni_plugin::host::{Host, LinkQuery};
use cni_testkit::lifecycle::{assert_add_is_all_or_nothing, assert_del_removes_what_add_made, find_missing, repair};
use cni_testkit::{Caller, FakeContainer, FakeHost, error_parts};
use proptest::prelude::*;

const NETNS: &str = "/run/netns/c1";

const PREV_RESULT: &str = r#"{"cniVersion":"1.1.0","interfaces":[{"name":"veth0"},{"name":"eth0","sandbox":"/run/netns/c1"}],
    "ips":[{"interface":1,"address":"10.1.2.5/24","gateway":"10.1.2.1"},{"interface":1,"address":"fd00::5/64"}],
    "routes":[{"dst":"0.0.0.0/0"}],"dns":{"domain":"d"}}"#;

fn with(keys: &str) -> Caller {
    with_result(keys, PREV_RESULT)
}

fn with_result(keys: &str, result: &str) -> Caller {
    let keys = if keys.is_empty() { String::new() } else { format!("{keys},") };
    let config =
        format!(r#"{{"cniVersion":"1.1.0","name":"n1","type":"tc-redirect-tap",{keys}"prevResult":{result}}}"#);
    Caller::new("c1", &config)
}

fn without_result() -> Caller {
    Caller::new("c1", r#"{"cniVersion":"1.1.0","name":"n1","type":"tc-redirect-tap"}"#)
}

fn mac() -> Mac {
    Mac::local([0, 0, 0, 0, 0, 9])
}

/// A container with an interface, and a driver for the devices.
fn machine() -> FakeHost {
    let mut host = FakeHost::new().with_container(NETNS, FakeContainer::Present(None));
    host.devices.add_directory("/dev/net/tun");
    host.enter(NETNS).expect("entered");
    let (name, kind) = ("eth0".to_owned(), Some("veth".to_owned()));
    host.add_link(Ns::Container, Link { name, kind, mac: Some(mac()), mtu: 1450, up: true, ..Link::default() });
    host
}

fn name(name: &str) -> IfName {
    IfName::parse(name).expect("a name")
}

fn link(host: &mut FakeHost, link: &str) -> Link {
    let host: &mut dyn Host = host;
    host.links(Ns::Container, LinkQuery::Name(&name(link))).expect("asked").pop().unwrap_or_else(|| panic!("no {link}"))
}

fn has_link(host: &mut FakeHost, link: &str) -> bool {
    let host: &mut dyn Host = host;
    !host.links(Ns::Container, LinkQuery::Name(&name(link))).expect("asked").is_empty()
}

fn added(caller: &Caller, host: &mut FakeHost) -> CniResult {
    caller.add(&TcRedirectTap, host).expect("ADD")
}

/// The caller of what comes after ADD.
fn after_add(keys: &str, host: &mut FakeHost) -> Caller {
    let result = added(&with(keys), host).render(Version::LATEST).expect("text");
    with_result(keys, &result)
}

fn refused(caller: &Caller, host: &mut FakeHost) -> (u32, String) {
    let (code, text, _) = error_parts(caller.add(&TcRedirectTap, host).expect_err("refused"));
    (code, text)
}

fn redirect(from: &str, to: &str) -> Step {
    Step::AddRedirect { ns: Ns::Container, name: name(from), to: name(to), rank: FilterRank::Last }
}

/// What the original makes: the same without an alias.
fn add_as_the_original(host: &mut FakeHost) {
    let tap = TapOptions { owner: Some(0), group: Some(0), queues: TapQueues::One };
    let kind = LinkKind::Tap { tap, label: None, headers: TapHeaders::Virtio, alias: None };
    let (mtu, if_present) = (Some(1450), IfPresent::Refuse);
    let link = NewLink { name: name("tap0"), mac: None, mtu, if_present, kind };
    for step in [
        Step::CreateLink { ns: Ns::Container, link },
        Step::set_link(Ns::Container, &name("tap0"), LinkSetting::Up),
        redirect("tap0", "eth0"),
        redirect("eth0", "tap0"),
    ] {
        host.apply(&step).expect("made");
    }
}

/// The result of the original.
fn originals_result() -> String {
    PREV_RESULT.replace(
        r#""sandbox":"/run/netns/c1"}]"#,
        r#""sandbox":"/run/netns/c1"},{"name":"tap0","sandbox":"/run/netns/c1"},
        {"name":"tap0","mac":"02:00:00:00:00:09","sandbox":"c1"}]"#,
    )
}

#[test]
fn add_makes_the_device_and_crosses_it_with_the_interface() {
    let mut host = machine();
    added(&with(""), &mut host);
    let want = [
        r#"container: link add tap0 type tun mode tap user 0 group 0 pi one_queue vnet_hdr alias "cni:n1:c1:eth0" mtu 1450"#,
        "container: sysctl net/ipv6/conf/tap0/addr_gen_mode=1",
        "container: link set tap0 up",
        "container: filter add dev tap0 ingress last redirect dev eth0",
        "container: filter add dev eth0 ingress last redirect dev tap0",
    ];
    assert_eq!(host.applied(), want);
}

#[test]
fn the_result_names_the_device_and_gives_the_guest_a_copy_of_each_address() {
    let mut host = machine();
    let result = added(&with(""), &mut host);
    let before = with("").request(&TcRedirectTap, "ADD").prev_result().expect("readable").expect("a result");
    assert_eq!((&result.interfaces[..2], &result.ips[..2]), (&before.interfaces[..], &before.ips[..]));
    assert_eq!((&result.routes, &result.dns), (&before.routes, &before.dns));
    let tap = link(&mut host, "tap0");
    let device = &result.interfaces[2];
    assert_eq!((device.name.as_str(), device.sandbox.as_str(), device.mtu), ("tap0", NETNS, 1450));
    assert_eq!(device.mac, tap.mac.expect("an address").to_string());
    let guest = &result.interfaces[3];
    assert_eq!((guest.name.as_str(), guest.sandbox.as_str(), guest.mtu), ("tap0", "c1", 0));
    assert_eq!(guest.mac, mac().to_string());
    let copies: Vec<_> = before.ips.iter().map(|ip| cni_core::result::IpConfig { interface: Some(3), ..*ip }).collect();
    assert_eq!(result.ips[2..], copies);
    assert_eq!(result.interfaces.len(), 4);
}

/// The sandbox of the result may be another path to the namespace.
#[test]
fn addresses_of_no_interface_are_the_guests_where_they_can_be() {
    let cilium = r#"{"cniVersion":"1.1.0","interfaces":[{"name":"lxc1"}],"ips":[{"address":"10.1.2.5/32"}]}"#;
    let result = added(&with_result("", cilium), &mut machine());
    assert_eq!(result.ips.iter().map(|ip| ip.interface).collect::<Vec<_>>(), [None, Some(2)]);
    let wrong = PREV_RESULT.replace(r#""interface":1"#, r#""interface":7"#);
    let text = "prevResult has no interface 7 of address 10.1.2.5/24".to_owned();
    assert_eq!(refused(&with_result("", &wrong), &mut machine()), (7, text));
}

#[test]
fn arguments_override_keys() {
    let keys = r#""tapName":"key0","owner":1,"group":2,"multiQueue":true,"vnetHdr":false"#;
    for (args, want) in [
        ("", "key0 type tun mode tap multi_queue user 1 group 2 pi one_queue alias"),
        (
            "TC_REDIRECT_TAP_NAME=arg0;TC_REDIRECT_TAP_UID=0;TC_REDIRECT_TAP_GID=5",
            "arg0 type tun mode tap multi_queue user 0 group 5 pi one_queue alias",
        ),
        ("TC_REDIRECT_TAP_NAME=vm%d", "vm0 type tun mode tap multi_queue user 1 group 2 pi one_queue alias"),
        ("TC_REDIRECT_TAP_NAME=;Other=a=b", "key0 type tun mode tap multi_queue user 1 group 2 pi one_queue alias"),
    ] {
        let mut host = machine();
        added(&with(keys).with_args(args), &mut host);
        assert!(host.applied()[0].contains(want), "{args}: {:?}", host.applied());
    }
}

#[test]
fn a_number_is_the_first_that_is_free() {
    let mut host = machine();
    for taken in ["tap0", "tap1", "tap3"] {
        host.add_link(Ns::Container, Link { name: taken.to_owned(), ..Link::default() });
    }
    assert_eq!(added(&with(""), &mut host).interfaces[2].name, "tap2");
}

#[test]
fn a_device_has_no_larger_mtu_than_it_can() {
    let mut host = machine();
    host.change_link(Ns::Container, "eth0", |link| link.mtu = 65536);
    let caller = after_add("", &mut host);
    assert_eq!(link(&mut host, "tap0").mtu, 65521);
    caller.check(&TcRedirectTap, &mut host).expect("CHECK");
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_done() {
    let nobody = |key: &str| format!("invalid {key} 4294967295 (must be at most 4294967294)");
    for (keys, args, code, text) in [
        (r#""owner":4294967295"#, "", 7, nobody("owner")),
        (r#""group":4294967295"#, "", 7, nobody("group")),
        (r#""tapName":"a/b""#, "", 7, r#"invalid name "a/b" of the tap device (tapName)"#.to_owned()),
        ("", "TC_REDIRECT_TAP_UID=x", 4, r#"tapUID should be numeric convertible, got "x""#.to_owned()),
        ("", "FOO", 4, r#"Invalid cni arguments format, "FOO""#.to_owned()),
        (
            "",
            "TC_REDIRECT_TAP_NAME=sixteen-letters-",
            4,
            r#"invalid name "sixteen-letters-" of the tap device (CNI_ARGS TC_REDIRECT_TAP_NAME)"#.to_owned(),
        ),
        (
            r#""tapName":"eth0""#,
            "",
            103,
            r#"failed to create tap device: the container has an interface "eth0" already"#.to_owned(),
        ),
    ] {
        let mut host = machine();
        assert_eq!(refused(&with(keys).with_args(args), &mut host), (code, text), "{keys} {args}");
        assert_eq!(host.applied(), [""; 0], "{keys} {args}");
    }
    for keys in [r#""owner":"root""#, r#""group":-1"#, r#""multiQueue":1"#, r#""vnetHdr":"no""#, r#""tapName":7"#] {
        assert_eq!(refused(&with(keys), &mut machine()).0, 6, "{keys}");
    }
}

#[test]
fn an_interface_and_a_result_are_needed() {
    let text = "no previous result was found, was this plugin chained with a previous one?".to_owned();
    assert_eq!(refused(&without_result(), &mut machine()), (7, text.clone()));
    let (code, message, _) =
        error_parts(without_result().check(&TcRedirectTap, &mut machine()).expect_err("no result"));
    assert_eq!((code, message), (7, text));
    let other = Caller { ifname: "eth9".to_owned(), ..with("") };
    let text = r#"failed to find redirect interface "eth9": did not find expected network device with name "eth9""#;
    assert_eq!(refused(&other, &mut machine()), (7, text.to_owned()));
}

/// The original fails half-way, and leaves what it has made.
#[test]
fn an_interface_has_one_device() {
    let mut host = machine();
    added(&with(""), &mut host);
    let before = host.state();
    let text = r#"failed to redirect interface "eth0": its frames go to "tap0" already"#.to_owned();
    assert_eq!(refused(&with(""), &mut host), (103, text));
    assert_eq!(host.state(), before);
}

#[test]
fn a_failure_at_any_step_leaves_nothing() {
    assert_eq!(assert_add_is_all_or_nothing(&TcRedirectTap, machine, &with("")), 5);
}

#[test]
fn del_removes_what_add_made() {
    for caller in [with(""), with(r#""tapName":"vm%d","multiQueue":true"#)] {
        assert_del_removes_what_add_made(&TcRedirectTap, &mut machine(), &caller);
    }
}

#[test]
fn del_needs_neither_result_nor_arguments_nor_a_namespace() {
    let torn = with_result("", r#"{"cniVersion":"9","ips":7}"#);
    for caller in [without_result(), torn, with("").with_args("no pair"), with(r#""owner":4294967295"#)] {
        let mut host = machine();
        let before = host.state();
        added(&with("").with_args("TC_REDIRECT_TAP_NAME=vm7"), &mut host);
        caller.del(&TcRedirectTap, &mut host).expect("DEL");
        assert_eq!(host.state(), before);
    }
    let mut host = machine();
    host.set_container(NETNS, FakeContainer::Gone);
    with("").del(&TcRedirectTap, &mut host).expect("DEL");
    host.set_container(NETNS, FakeContainer::Closed);
    assert_eq!(error_parts(with("").del(&TcRedirectTap, &mut host).expect_err("closed")).0, 8);
}

#[test]
fn del_finds_the_device_though_the_interface_is_missing() {
    let mut host = machine();
    added(&with(""), &mut host);
    host.apply(&Step::RemoveLink { ns: Ns::Container, name: name("eth0") }).expect("removed");
    without_result().del(&TcRedirectTap, &mut host).expect("DEL");
    assert!(!has_link(&mut host, "tap0"));
}

#[test]
fn del_ends_a_redirect_to_a_device_that_was_deleted() {
    let mut host = machine();
    let before = host.state();
    added(&with(""), &mut host);
    host.apply(&Step::RemoveLink { ns: Ns::Container, name: name("tap0") }).expect("removed");
    without_result().del(&TcRedirectTap, &mut host).expect("DEL");
    assert_eq!(host.state(), before);
}

#[test]
fn what_the_original_made_is_checked_and_removed_with_and_without_its_result() {
    for caller in [with_result("", &originals_result()), without_result()] {
        let mut host = machine();
        let before = host.state();
        add_as_the_original(&mut host);
        with_result("", &originals_result()).check(&TcRedirectTap, &mut host).expect("CHECK");
        caller.del(&TcRedirectTap, &mut host).expect("DEL");
        assert_eq!(host.state(), before);
    }
}

/// The original deletes whatever link the result names, and any ingress filter.
#[test]
fn del_leaves_links_and_filters_of_others() {
    let another = alias::of(&cni_testkit::attachment("n1", "c2", "eth0"));
    for change in [|_: &mut Link| (), |link: &mut Link| link.kind = Some("veth".to_owned())] {
        let mut host = machine();
        add_as_the_original(&mut host);
        host.change_link(Ns::Container, "tap0", change);
        host.change_link(Ns::Container, "tap0", |link| link.alias = Some(another.clone()));
        let before = host.state();
        with_result("", &originals_result()).del(&TcRedirectTap, &mut host).expect("DEL");
        assert_eq!(host.state(), before);
    }
    let mut host = machine();
    host.add_link(Ns::Container, Link { name: "dummy0".to_owned(), kind: Some("dummy".to_owned()), ..Link::default() });
    host.apply(&redirect("eth0", "dummy0")).expect("redirected");
    let before = host.state();
    without_result().del(&TcRedirectTap, &mut host).expect("DEL");
    assert_eq!(host.state(), before);
}

#[test]
fn check_names_what_is_not_as_add_made_it() {
    type Change = fn(&mut FakeHost);
    fn change(host: &mut FakeHost, name: &str, change: impl FnOnce(&mut Link)) {
        host.change_link(Ns::Container, name, change);
    }
    fn unredirect(host: &mut FakeHost, from: &str, to: &str) {
        host.apply(&Step::RemoveRedirect { ns: Ns::Container, name: name(from), to: name(to) }).expect("ended");
    }
    let changes: [(Change, &str, &str); 9] = [
        (
            |host| change(host, "tap0", |link| link.kind = Some("veth".to_owned())),
            "interface tap0 is not a tap device",
            "see ip -details link show tap0",
        ),
        (
            |host| {
                change(host, "tap0", |link| link.tap = Some(TapOptions { owner: Some(7), ..link.tap.expect("a tap") }))
            },
            "tap device tap0 is tun mode tap user 7 group 5, and not tun mode tap user 1000 group 5",
            "see ip -details link show tap0",
        ),
        (
            |host| change(host, "tap0", |link| link.mtu = 900),
            "tap device tap0 has MTU 900, and not 1450",
            "see ip -details link show tap0",
        ),
        (|host| change(host, "tap0", |link| link.up = false), "Interface tap0 in the container namespace is down", ""),
        (
            |host| change(host, "tap0", |link| link.name = "other".to_owned()),
            "Interface name tap0 not found in the container namespace",
            "",
        ),
        (
            |host| change(host, "eth0", |link| link.mac = Some(Mac::local([7; 6]))),
            r#"the virtual machine has MAC address "02:00:00:00:00:09", and interface eth0 has "06:07:07:07:07:07""#,
            "see ip link show eth0",
        ),
        (
            |host| unredirect(host, "eth0", "tap0"),
            "frames that eth0 receives are not redirected to tap0",
            "see tc filter show dev eth0 ingress",
        ),
        (
            |host| unredirect(host, "tap0", "eth0"),
            "frames that tap0 receives are not redirected to eth0",
            "see tc filter show dev tap0 ingress",
        ),
        (
            |host| {
                change(host, "tap0", |link| {
                    link.tap = Some(TapOptions { queues: TapQueues::Many, ..link.tap.expect("a tap") })
                })
            },
            "tap device tap0 is tun mode tap multi_queue user 1000 group 5",
            "see ip -details link show tap0",
        ),
    ];
    for (change, text, hint) in changes {
        let mut host = machine();
        let caller = after_add(r#""owner":1000,"group":5"#, &mut host);
        caller.check(&TcRedirectTap, &mut host).expect("CHECK");
        change(&mut host);
        let (code, message, details) = error_parts(caller.check(&TcRedirectTap, &mut host).expect_err("changed"));
        assert!(code == 100 && message.contains(text) && details == hint, "{code} {message}: {details}");
    }
}

/// Which redirects are missing.
fn missing(host: &mut FakeHost, caller: &Caller) -> Vec<String> {
    find_missing(&TcRedirectTap, host, caller).into_iter().map(|part| part.missing).collect()
}

#[test]
fn redirects_that_somebody_has_removed_are_restored() {
    let (to_tap, to_eth0) = (("eth0", "tap0"), ("tap0", "eth0"));
    for removed in [&[][..], &[to_tap], &[to_eth0], &[to_eth0, to_tap]] {
        let mut host = machine();
        let caller = after_add("", &mut host);
        let before = host.state();
        for (from, to) in removed {
            host.apply(&Step::RemoveRedirect { ns: Ns::Container, name: name(from), to: name(to) }).expect("removed");
        }
        let text = |(from, to): &(&str, &str)| format!("tc filter dev {from} ingress redirect dev {to}");
        assert_eq!(missing(&mut host, &caller), removed.iter().map(text).collect::<Vec<_>>());
        assert_eq!(repair(&TcRedirectTap, &mut host, &caller), removed.len());
        assert_eq!(host.state(), before);
        caller.check(&TcRedirectTap, &mut host).expect("CHECK");
    }
}

#[test]
fn a_missing_link_is_not_restored() {
    for lost in ["tap0", "eth0"] {
        let mut host = machine();
        let caller = after_add("", &mut host);
        host.apply(&Step::RemoveLink { ns: Ns::Container, name: name(lost) }).expect("removed");
        assert_eq!(missing(&mut host, &caller), [""; 0], "{lost}");
    }
}

#[test]
fn check_needs_the_result_of_the_whole_list() {
    let mut host = machine();
    added(&with(""), &mut host);
    let guest = r#"{"name":"tap0","sandbox":"c1"}"#;
    let twice = PREV_RESULT.replace(r#"{"name":"veth0"}"#, &format!("{guest},{guest}"));
    let alone = PREV_RESULT.replace(r#"{"name":"veth0"}"#, guest);
    for (result, text) in [
        (PREV_RESULT, r#"prevResult has no interface with sandbox "c1", which is the virtual machine's"#),
        (&twice, r#"expected to find at most 1 interface in sandbox "c1""#),
        (&alone, r#"prevResult has no tap device of the virtual machine "c1""#),
    ] {
        let (code, message, _) =
            error_parts(with_result("", result).check(&TcRedirectTap, &mut host).expect_err("incomplete"));
        assert_eq!((code, message.as_str()), (7, text));
    }
}

/// Kernels before 4.17 do not tell, and a runtime may leave the arguments out on CHECK.
#[test]
fn check_passes_where_the_owner_is_not_known() {
    let mut host = machine();
    let caller = after_add(r#""owner":1000"#, &mut host);
    let silent = caller.with_config(&caller.config.replace(r#""owner":1000,"#, ""));
    silent.check(&TcRedirectTap, &mut host).expect("CHECK");
    host.change_link(Ns::Container, "tap0", |link| link.tap = None);
    caller.check(&TcRedirectTap, &mut host).expect("CHECK");
}

#[test]
fn status_says_what_the_kernel_lacks() {
    let status = |mut host: FakeHost| without_result().status(&TcRedirectTap, &mut host);
    status(machine()).expect("STATUS");
    let text = "/dev/net/tun does not exist, load the module tun".to_owned();
    let (code, message, _) = error_parts(status(FakeHost::new()).expect_err("no driver"));
    assert_eq!((code, message), (50, text));
    for (part, module) in
        [(RedirectPart::Ingress, "sch_ingress"), (RedirectPart::U32, "cls_u32"), (RedirectPart::Mirred, "act_mirred")]
    {
        let (code, message, _) =
            error_parts(status(machine().without_redirect_part(part)).expect_err("a part is missing"));
        assert_eq!((code, message), (50, format!("the kernel cannot redirect frames, load the module {module}")));
    }
}

fn any_args() -> impl Strategy<Value = String> {
    let name = prop_oneof!["[a-z%d/ ]{0,17}", Just("vm%d".to_owned()), Just("eth0".to_owned())];
    let number = prop_oneof![any::<u32>().prop_map(|id| id.to_string()), "[0-9a-z-]{0,11}"];
    let rest = prop_oneof![4 => Just(String::new()), 1 => "[A-Z=;]{0,8}"];
    (name, number, rest)
        .prop_map(|(name, id, rest)| format!("TC_REDIRECT_TAP_NAME={name};TC_REDIRECT_TAP_UID={id};A={rest}"))
}

proptest! {
    /// Whatever the arguments say, ADD refuses them and leaves nothing, or makes a device that passes CHECK; DEL leaves what was
    /// there before.
    #[test]
    fn any_arguments_make_a_device_that_del_removes_or_are_refused(args in any_args()) {
        let mut host = machine();
        let before = host.state();
        let caller = with("").with_args(&args);
        match caller.add(&TcRedirectTap, &mut host) {
            Ok(result) => {
                let text = result.render(Version::LATEST).expect("text");
                with_result("", &text).with_args(&args).check(&TcRedirectTap, &mut host).expect("CHECK");
            }
            Err(error) => {
                prop_assert!([4, 103].contains(&error.code().number()), "{}", error);
                prop_assert_eq!(host.state(), before.clone());
            }
        }
        caller.del(&TcRedirectTap, &mut host).expect("DEL");
        prop_assert_eq!(host.state(), before);
    }
}
