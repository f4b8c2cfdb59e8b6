//! Links that go into a container and come back, on a machine in memory.

use super::*;
use cni_core::names::IfName;
use cni_core::request::Command;
use cni_core::version::Version;
use cni_model::link::Link;
use cni_model::plan::{LinkMove, LinkSetting, Ns, Step};
use cni_plugin::attachment_record::AttachmentRecord;
use cni_plugin::host::{Host, LinkQuery};
use cni_plugin::namespace::RecordedNamespace;
use cni_testkit::lifecycle::{LinkChange, assert_check_compares};
use cni_testkit::{Caller, FakeContainer, FakeHost, error_parts, lifecycle};

mod devices;
mod impostor;

const NETNS: &str = "/run/netns/c1";
const SECOND: &str = "/run/netns/c2";
const MAC: &str = "02:00:00:00:00:0a";

const ANSWER: &str = r#"{"cniVersion":"1.1.0","ips":[{"address":"10.1.2.5/24","gateway":"10.1.2.1"},{"address":"fd00::5/64"}],
    "routes":[{"dst":"0.0.0.0/0"}],"dns":{"domain":"ipam"}}"#;

fn caller(keys: &str) -> Caller {
    Caller::new("c1", &format!(r#"{{"cniVersion":"1.1.0","name":"n1","type":"host-device",{keys}}}"#))
}

/// A device by name, without and with addresses.
const PLAIN: &str = r#""device":"ens1""#;
const ADDRESSED: &str = r#""device":"ens1","ipam":{"type":"host-local"}"#;

/// Hardware of the host, up, a port of `br0`, with an alias of its administrator.
fn machine() -> FakeHost {
    let mut host = FakeHost::new().with_ipam(ANSWER).with_bridge("br0", "10.9.0.1/16");
    host.set_container(NETNS, FakeContainer::Present(None));
    let (mac, alias) = (Some(MAC.parse().expect("a MAC")), Some("uplink".to_owned()));
    host.add_link(Ns::Host, Link { name: "ens1".to_owned(), mac, alias, up: true, ..Link::default() });
    host.apply(&Step::set_link(Ns::Host, &name("ens1"), LinkSetting::Master(name("br0")))).expect("a port");
    host.clear_log();
    host
}

/// The hardware says which device it is.
fn machine_with_card() -> FakeHost {
    let mut host = machine();
    host.change_link(Ns::Host, "ens1", |link| link.parent_device = Some("pci/0000:05:00.0".to_owned()));
    host
}

fn name(text: &str) -> IfName {
    IfName::parse(text).expect("a name")
}

fn on_host(host: &mut FakeHost, of: &str) -> Option<Link> {
    (host as &mut dyn Host).link(Ns::Host, &name(of)).expect("asked")
}

fn names(host: &mut FakeHost, ns: Ns) -> Vec<String> {
    host.links(ns, LinkQuery::All).expect("asked").into_iter().map(|link| link.name).collect()
}

#[test]
fn add_records_and_moves_the_link_and_asks_for_addresses_then() {
    let mut host = machine();
    let result = caller(ADDRESSED).add(&HostDevice, &mut host).expect("ADD");
    let record = host.applied()[0].clone();
    assert!(record.starts_with("host: write record devices/") && record.contains("ens1"), "{record}");
    let want = [
        "host: link set ens1 down",
        "host: link set ens1 nomaster",
        r#"host: link set ens1 netns container name eth0 alias "ens1""#,
        "container: link set eth0 up",
        "delegate ADD to host-local",
        "container: sysctl net/ipv6/conf/lo/disable_ipv6=0",
        "container: sysctl net/ipv6/conf/eth0/disable_ipv6=0",
        "container: sysctl net/ipv6/conf/eth0/keep_addr_on_down=1",
        "container: addr add 10.1.2.5/24 dev eth0",
        "container: addr add fd00::5/64 dev eth0",
        "container: link set eth0 up",
        "container: settle addresses of eth0",
        "container: route add 0.0.0.0/0 via 10.1.2.1 dev eth0",
    ];
    assert_eq!(host.applied()[1..], want);
    let [interface] = &result.interfaces[..] else { panic!("{:?}", result.interfaces) };
    assert_eq!((interface.name.as_str(), interface.mac.as_str(), interface.sandbox.as_str()), ("eth0", MAC, NETNS));
    assert!(result.ips.iter().all(|ip| ip.interface == Some(0)));
    assert_eq!(result.dns.domain, "ipam");
}

/// With its name, its alias, its bridge, and up.
#[test]
fn del_gives_the_link_back_as_it_was() {
    for keys in [PLAIN, ADDRESSED] {
        lifecycle::assert_del_removes_what_add_made(&HostDevice, &mut machine(), &caller(keys));
    }
}

#[test]
fn an_ipam_plugin_that_fails_add_is_called_with_del() {
    lifecycle::assert_failed_ipam_is_released(&HostDevice, machine, &caller(ADDRESSED));
}

#[test]
fn an_add_that_fails_at_any_step_gives_the_link_back_as_it_was() {
    assert_eq!(lifecycle::assert_add_is_all_or_nothing(&HostDevice, machine, &caller(PLAIN)), 5);
    assert_eq!(lifecycle::assert_add_is_all_or_nothing(&HostDevice, machine, &caller(ADDRESSED)), 14);
}

/// Before the IPAM plugin releases them: another container would get an address that this one still has.
#[test]
fn a_failed_add_takes_the_addresses_off_first() {
    let mut host = machine();
    host.fail_at(14);
    caller(ADDRESSED).add(&HostDevice, &mut host).expect_err("the last step fails");
    let undone = ["container: addr del fd00::5/64 dev eth0", "container: addr del 10.1.2.5/24 dev eth0"];
    assert_eq!(host.applied()[14..16], undone);
    assert_eq!(host.delegated(), ["host-local ADD", "host-local DEL"]);
}

#[test]
fn a_link_that_gets_another_index_in_the_container_is_recorded_with_it() {
    let mut host = machine();
    caller(PLAIN).add(&HostDevice, &mut host).expect("ADD");
    host.enter(NETNS).expect("entered");
    host.change_link(Ns::Container, "eth0", |link| {
        link.name = "renamed".to_owned();
        link.alias = None;
    });
    caller(PLAIN).del(&HostDevice, &mut host).expect("DEL");
    let link = on_host(&mut host, "ens1").expect("back");
    assert_eq!((link.alias.as_deref(), link.up), (Some("uplink"), true));
}

#[test]
fn hardware_whose_namespace_has_ended_gets_its_name_back() {
    for netns in [NETNS, ""] {
        let mut host = machine();
        let before = host.state();
        caller(ADDRESSED).add(&HostDevice, &mut host).expect("ADD");
        host.set_container(NETNS, FakeContainer::Gone);
        assert!(names(&mut host, Ns::Host).contains(&"eth0".to_owned()));
        let request = Caller { netns: netns.to_owned(), ..caller(ADDRESSED) };
        for _ in 0..2 {
            request.del(&HostDevice, &mut host).expect("DEL");
        }
        let after: Vec<String> = host.state();
        let of_container =
            |lines: Vec<String>| lines.into_iter().filter(|line| !line.starts_with(NETNS)).collect::<Vec<_>>();
        assert_eq!(of_container(after), of_container(before), "{netns:?}");
    }
}

/// As tuning does, whose DEL cannot restore them once the namespace has ended.
#[test]
fn a_card_gets_the_address_and_the_mtu_back_that_the_container_has_changed() {
    for (is_ended, has_successor) in [(false, false), (true, false), (true, true)] {
        let mut host = machine_with_card();
        let before = on_host(&mut host, "ens1").expect("the card");
        caller(PLAIN).add(&HostDevice, &mut host).expect("ADD");
        on_container(&mut host);
        let other = Some("02:00:00:00:00:77".parse().expect("a MAC"));
        host.change_link(Ns::Container, "eth0", |link| (link.mac, link.mtu) = (other, 1400));
        if is_ended {
            host.set_container(NETNS, FakeContainer::Gone);
        }
        let mut last = caller(PLAIN);
        if has_successor {
            host.set_container(SECOND, FakeContainer::Present(None));
            last = Caller { netns: SECOND.to_owned(), container: "c2".to_owned(), ..last };
            last.add(&HostDevice, &mut host).expect("ADD of the next container");
        }
        last.del(&HostDevice, &mut host).expect("DEL");
        let back = on_host(&mut host, "ens1").expect("back");
        assert_eq!((back.mac, back.mtu, back.up), (before.mac, before.mtu, true), "{is_ended} {has_successor}");
    }
}

/// The kernel needs a moment to end a namespace.
#[test]
fn hardware_that_is_nowhere_yet_is_found_by_the_next_add() {
    let mut host = machine();
    caller(PLAIN).add(&HostDevice, &mut host).expect("ADD");
    let lost = on_container(&mut host);
    host.enter(NETNS).expect("entered");
    host.apply(&Step::RemoveLink { ns: Ns::Container, name: name("eth0") }).expect("away");
    caller(PLAIN).del(&HostDevice, &mut host).expect("DEL");
    host.add_link(Ns::Host, Link { up: false, name: "eth0".to_owned(), ..lost });
    caller(PLAIN).add(&HostDevice, &mut host).expect("ADD again");
    caller(PLAIN).del(&HostDevice, &mut host).expect("DEL again");
    let link = on_host(&mut host, "ens1").expect("back");
    assert_eq!((link.alias.as_deref(), link.up, link.master.is_some()), (Some("uplink"), true, true));
}

fn on_container(host: &mut FakeHost) -> Link {
    host.enter(NETNS).expect("entered");
    (host as &mut dyn Host).link(Ns::Container, &name("eth0")).expect("asked").expect("eth0")
}

#[test]
fn the_record_of_a_card_that_another_container_has_brought_back_goes() {
    let mut host = machine();
    caller(PLAIN).add(&HostDevice, &mut host).expect("ADD");
    host.set_container(NETNS, FakeContainer::Gone);
    host.set_container(NETNS, FakeContainer::Present(None));
    let second = Caller { container: "c2".to_owned(), ..caller(PLAIN) };
    second.add(&HostDevice, &mut host).expect("ADD");
    for _ in 0..2 {
        second.del(&HostDevice, &mut host).expect("DEL");
        caller(PLAIN).del(&HostDevice, &mut host).expect("the late DEL");
    }
    let link = on_host(&mut host, "ens1").expect("back");
    assert_eq!((link.alias.as_deref(), link.up), (Some("uplink"), true));
    assert!(!host.state().iter().any(|line| line.starts_with("record")), "{:?}", host.state());
}

/// The runtime has not called DEL for the first one, or only afterwards.
#[test]
fn a_late_del_and_gc_leave_a_card_in_the_container_that_has_it_now() {
    for is_gc in [true, false] {
        let mut host = machine_with_card();
        host.set_container(SECOND, FakeContainer::Present(Some("boot:2".to_owned())));
        caller(PLAIN).add(&HostDevice, &mut host).expect("ADD");
        host.set_container(NETNS, FakeContainer::Gone);
        let second = Caller { container: "c2".to_owned(), netns: SECOND.to_owned(), ..caller(PLAIN) };
        second.add(&HostDevice, &mut host).expect("ADD");
        if is_gc {
            let valid = r#""device":"ens1","cni.dev/valid-attachments":[{"containerID":"c2","ifname":"eth0"}]"#;
            let request = caller(valid).request(&HostDevice, "GC");
            let valid = request.valid_attachments().expect("understood").expect("a list");
            HostDevice.gc(&request, &valid, &mut host).expect("GC");
        } else {
            caller(PLAIN).del(&HostDevice, &mut host).expect("the late DEL");
        }
        host.enter(SECOND).expect("entered");
        assert_eq!(names(&mut host, Ns::Container), ["lo", "eth0"], "GC: {is_gc}");
        second.del(&HostDevice, &mut host).expect("DEL");
        let link = on_host(&mut host, "ens1").expect("back");
        assert_eq!((link.alias.as_deref(), link.up), (Some("uplink"), true));
    }
}

/// Other plugins have given it to that container, whose ADD of ours has only been recorded.
#[test]
fn a_late_del_takes_nothing_from_a_namespace_that_is_recorded_for_another_container() {
    for path in [SECOND, NETNS] {
        let mut host = machine_with_card();
        caller(PLAIN).add(&HostDevice, &mut host).expect("ADD");
        host.set_container(NETNS, FakeContainer::Gone);
        host.set_container(path, FakeContainer::Present(Some("boot:2".to_owned())));
        record("c2", path, &mut host);
        let Link { index, name: old, .. } = on_host(&mut host, "eth0").expect("back under the container's name");
        let (alias, new_name) = ("ens1".to_owned(), name("eth0"));
        let moved = LinkMove { from: Ns::Host, index, name: old, to: Ns::Container, new_name, alias };
        host.apply(&Step::MoveLink(moved)).expect("moved");
        let late = Caller { netns: String::new(), ..caller(PLAIN) };
        late.del(&HostDevice, &mut host).expect("the late DEL");
        host.enter(path).expect("entered");
        assert_eq!(names(&mut host, Ns::Container), ["lo", "eth0"], "{path}");
    }
}

/// Other plugins have given the card to a container that has no record.
#[test]
fn a_late_del_leaves_a_card_where_it_is_if_the_namespace_of_its_container_has_ended() {
    for is_ended in [true, false] {
        let mut host = machine_with_card();
        host.set_container(NETNS, FakeContainer::Present(Some("boot:1".to_owned())));
        host.set_container(SECOND, FakeContainer::Present(Some("boot:2".to_owned())));
        caller(PLAIN).add(&HostDevice, &mut host).expect("ADD");
        let record = record("c1", NETNS, &mut host);
        host.move_on("eth0", SECOND);
        if is_ended {
            host.set_container(NETNS, FakeContainer::Gone);
        }
        caller(PLAIN).del(&HostDevice, &mut host).expect("the late DEL");
        assert_eq!(on_host(&mut host, "ens1").is_none(), is_ended);
        host.apply(&AttachmentRecord::remove(&record.at)).expect("removed, as by the end of DEL");
        caller(PLAIN).del(&HostDevice, &mut host).expect("the DEL that is repeated");
        assert_eq!(on_host(&mut host, "ens1").is_none(), is_ended);
    }
}

/// Records an attachment in the namespace at a path, as the end of ADD does.
fn record(container: &str, netns: &str, host: &mut FakeHost) -> AttachmentRecord {
    host.enter(netns).expect("entered");
    let namespace = RecordedNamespace::of_entered(netns, host).expect("an answer").expect("a namespace");
    let (at, maker) = (cni_testkit::attachment("n1", container, "eth0"), "host-device".to_owned());
    let record = AttachmentRecord { at, maker, namespace, link: None, is_again: false };
    host.apply(&record.write()).expect("recorded");
    record
}

/// Its alias still says the name; by its address alone it would be recorded under the container's name for it.
#[test]
fn lost_hardware_that_is_found_by_its_address_keeps_the_name_that_it_had() {
    let mut host = machine();
    caller(PLAIN).add(&HostDevice, &mut host).expect("ADD");
    host.set_container(NETNS, FakeContainer::Gone);
    host.set_container(NETNS, FakeContainer::Present(None));
    let by_mac = Caller { container: "c2".to_owned(), ..caller(&format!(r#""hwaddr":"{MAC}""#)) };
    by_mac.add(&HostDevice, &mut host).expect("ADD by address");
    by_mac.del(&HostDevice, &mut host).expect("DEL");
    let link = on_host(&mut host, "ens1").expect("back");
    assert_eq!((link.alias.as_deref(), link.up), (Some("uplink"), true));
}

#[test]
fn a_virtual_link_that_went_with_its_namespace_is_no_failure() {
    let mut host = machine();
    host.change_link(Ns::Host, "ens1", |link| link.kind = Some("macvlan".to_owned()));
    caller(ADDRESSED).add(&HostDevice, &mut host).expect("ADD");
    host.set_container(NETNS, FakeContainer::Gone);
    caller(ADDRESSED).del(&HostDevice, &mut host).expect("DEL");
    assert!(
        !host.state().iter().any(|line| line.starts_with("record") || line.starts_with("lease")),
        "{:?}",
        host.state()
    );
}

/// As an ADD of the reference leaves it: the name is in the alias, and nowhere else.
fn as_the_reference(host: &mut FakeHost, alias: &str) {
    host.enter(NETNS).expect("entered");
    let Link { index, name: old, .. } = on_host(host, "ens1").expect("the link");
    let (alias, new_name) = (alias.to_owned(), name("eth0"));
    let moved = LinkMove { from: Ns::Host, index, name: old, to: Ns::Container, new_name, alias };
    host.apply(&Step::MoveLink(moved)).expect("moved");
}

#[test]
fn a_link_of_the_reference_goes_back_under_the_name_in_its_alias() {
    let mut host = machine();
    as_the_reference(&mut host, "ens1");
    caller(PLAIN).del(&HostDevice, &mut host).expect("DEL");
    let link = on_host(&mut host, "ens1").expect("back");
    assert_eq!((link.alias, link.up), (None, false));
}

#[test]
fn lost_hardware_of_the_reference_is_found_by_the_configured_name() {
    let mut host = machine();
    as_the_reference(&mut host, "ens1");
    host.set_container(NETNS, FakeContainer::Gone);
    caller(PLAIN).del(&HostDevice, &mut host).expect("DEL");
    assert!(on_host(&mut host, "ens1").is_some());
    assert!(on_host(&mut host, "eth0").is_none());
}

#[test]
fn what_no_alias_says_stays_in_the_container() {
    for alias in ["", "lo", "a/b", "sixteen-bytes-ab", "a%d"] {
        let mut host = machine();
        as_the_reference(&mut host, alias);
        caller(PLAIN).del(&HostDevice, &mut host).expect("DEL");
        assert_eq!(names(&mut host, Ns::Container), ["lo", "eth0"], "{alias:?}");
    }
}

/// The path of a process whose number another container has by now.
#[test]
fn the_link_of_another_attachment_stays_where_it_is() {
    let mut host = machine();
    caller(PLAIN).add(&HostDevice, &mut host).expect("ADD");
    let late = Caller { container: "c0".to_owned(), ..caller(PLAIN) };
    late.del(&HostDevice, &mut host).expect("DEL");
    assert_eq!(names(&mut host, Ns::Container), ["lo", "eth0"]);
}

/// The path that the runtime names leads to another container by now, and the one of ADD still to the link.
#[test]
fn the_link_is_looked_for_in_the_namespace_of_add_too() {
    const OTHER: &str = "/run/netns/other";
    let mut host = machine();
    caller(PLAIN).add(&HostDevice, &mut host).expect("ADD");
    host.set_container(OTHER, FakeContainer::Present(None));
    let elsewhere = Caller { netns: OTHER.to_owned(), ..caller(PLAIN) };
    elsewhere.del(&HostDevice, &mut host).expect("DEL");
    let link = on_host(&mut host, "ens1").expect("back");
    assert_eq!((link.alias.as_deref(), link.up), (Some("uplink"), true));
}

#[test]
fn a_name_that_is_taken_on_the_host_is_reported_before_the_link_is_touched() {
    let mut host = machine();
    caller(ADDRESSED).add(&HostDevice, &mut host).expect("ADD");
    host.add_link(Ns::Host, Link { name: "ens1".to_owned(), ..Link::default() });
    let inside = on_container(&mut host);
    let error = caller(ADDRESSED).del(&HostDevice, &mut host).expect_err("the name is taken");
    assert_eq!(error.to_string(), "ens1 exists");
    assert_eq!(on_container(&mut host), inside);
    assert_eq!(host.delegated(), ["host-local ADD"], "the addresses stay reserved");
    host.apply(&Step::RemoveLink { ns: Ns::Host, name: name("ens1") }).expect("removed");
    caller(ADDRESSED).del(&HostDevice, &mut host).expect("the second DEL");
    assert!(on_host(&mut host, "ens1").expect("back").up);
}

#[test]
fn del_needs_neither_the_device_nor_a_configuration_that_can_be_used() {
    for keys in
        [r#""pciBusID":"0000:05:00.0""#, r#""runtimeConfig":{"deviceID":"gone"}"#, r#""hwaddr":"zz""#, r#""x":1"#]
    {
        let mut host = machine();
        caller(PLAIN).add(&HostDevice, &mut host).expect("ADD");
        caller(keys).del(&HostDevice, &mut host).expect("DEL");
        assert!(on_host(&mut host, "ens1").is_some(), "{keys}");
    }
}

#[test]
fn the_bridge_may_be_gone_when_the_link_comes_back() {
    let mut host = machine();
    caller(PLAIN).add(&HostDevice, &mut host).expect("ADD");
    host.apply(&Step::RemoveLink { ns: Ns::Host, name: name("br0") }).expect("removed");
    caller(PLAIN).del(&HostDevice, &mut host).expect("DEL");
    let link = on_host(&mut host, "ens1").expect("back");
    assert_eq!((link.master, link.up), (None, true));
}

fn refused(keys: &str, host: &mut FakeHost) -> (u32, String, String) {
    error_parts(caller(keys).add(&HostDevice, host).expect_err("refused"))
}

#[test]
fn a_configuration_that_cannot_be_used_is_refused_before_anything_is_done() {
    for (keys, text) in [
        (r#""x":1"#, r#"specify either "device", "hwaddr", "kernelpath" or "pciBusID""#),
        (r#""hwaddr":"zz""#, r#"failed to parse MAC address "zz" of hwaddr"#),
        (
            r#""kernelpath":"/sys/class/net""#,
            r#"kernelpath: kernel device path "/sys/class/net" must be absolute and begin with /sys/devices/"#,
        ),
        (
            r#""kernelpath":"/sys/devices/../class""#,
            r#"kernelpath: kernel device path "/sys/devices/../class" must be absolute and begin with /sys/devices/"#,
        ),
        (r#""pciBusID":"../x""#, r#"pciBusID "../x" is not the name of a device"#),
        (r#""runtimeConfig":{"deviceID":".."}"#, r#"deviceID ".." is not the name of a device"#),
    ] {
        let mut host = machine();
        let (code, said, _) = refused(keys, &mut host);
        assert_eq!((code, said.as_str()), (7, text));
        for error in [caller(keys).check(&HostDevice, &mut host), caller(keys).status(&HostDevice, &mut host)] {
            assert_eq!(error.expect_err("refused").to_string(), text);
        }
        assert_eq!((host.applied(), host.delegated()), (&[][..], &[][..]));
    }
}

#[test]
fn a_missing_link_is_reported_with_the_references_words() {
    for (keys, text) in [
        (r#""device":"ens9""#, "failed to find host device: Link not found"),
        (r#""device":"a-name-of-more-than-fifteen-bytes""#, "failed to find host device: Link not found"),
        (r#""hwaddr":"02:00:00:00:00:99""#, "failed to find host device: failed to find physical interface"),
        (r#""runtimeConfig":{"deviceID":"x"}"#, "runtime config DeviceID x not found or unsupported"),
        (r#""pciBusID":"0000:05:00.0""#, "failed to find host device: no net directory under pci device 0000:05:00.0"),
        (
            r#""kernelpath":"/sys/devices/x""#,
            "failed to find host device: failed to read directory /sys/devices/x/net: no such file or directory",
        ),
    ] {
        let mut host = machine();
        let (code, said, _) = refused(keys, &mut host);
        assert_eq!((code, said.as_str(), host.applied().len()), (7, text, 0));
    }
}

#[test]
fn an_address_that_several_links_have_is_that_of_the_hardware_or_refused() {
    let keys = format!(r#""hwaddr":"{MAC}""#);
    let mut host = machine();
    let mac = Some(MAC.parse().expect("a MAC"));
    let kind = Some("vlan".to_owned());
    host.add_link(Ns::Host, Link { name: "ens1.5".to_owned(), mac: mac.clone(), kind, ..Link::default() });
    caller(&keys).add(&HostDevice, &mut host).expect("the hardware");
    assert_eq!(names(&mut host, Ns::Host), ["lo", "br0", "ens1.5"]);
    caller(&keys).del(&HostDevice, &mut host).expect("DEL");

    host.add_link(Ns::Host, Link { name: "ens2".to_owned(), mac: mac.clone(), ..Link::default() });
    let text = format!("failed to find host device: 3 interfaces have the address {MAC}");
    let (code, said, details) = refused(&keys, &mut host);
    assert_eq!((code, said), (7, text));
    assert!(details.contains("ens1") && details.contains("ens2"), "{details}");
    host.change_link(Ns::Host, "ens2", |link| link.permanent_mac = mac);
    caller(&keys).add(&HostDevice, &mut host).expect("the one that was made with it");
    assert!(on_host(&mut host, "ens2").is_none());
}

#[test]
fn a_name_that_the_container_has_is_refused_before_the_link_is_touched() {
    let mut host = machine();
    host.enter(NETNS).expect("entered");
    host.add_link(Ns::Container, Link { name: "eth0".to_owned(), ..Link::default() });
    let (code, text, details) = refused(PLAIN, &mut host);
    assert_eq!((code, text.as_str()), (103, "failed to move link: file exists"));
    assert_eq!((details.as_str(), host.applied().len()), (r#"the container has an interface "eth0" already"#, 0));
}

#[test]
fn check_names_what_is_not_as_add_left_it() {
    let changes: &[LinkChange] = &[
        (|link| link.up = false, "Interface eth0 in the container namespace is down"),
        (|link| link.mac = None, "Interface eth0 Mac MAC doesn't match container Mac: "),
        (|link| link.name = "other".to_owned(), "Interface name eth0 not found in the container namespace"),
    ];
    assert_check_compares(&HostDevice, machine, &caller(ADDRESSED), changes);
}

#[test]
fn gc_releases_what_no_valid_attachment_has() {
    for (container, back) in [("c1", false), ("other", true)] {
        for gone in [false, true] {
            let mut host = machine();
            caller(PLAIN).add(&HostDevice, &mut host).expect("ADD");
            if gone {
                host.set_container(NETNS, FakeContainer::Gone);
            }
            let valid = format!(r#""cni.dev/valid-attachments":[{{"containerID":"{container}","ifname":"eth0"}}]"#);
            caller(&format!(r#"{ADDRESSED},{valid}"#)).gc(&HostDevice, &mut host).expect("GC");
            assert_eq!(on_host(&mut host, "ens1").is_some(), back, "{container}, gone: {gone}");
            assert_eq!(host.delegated(), ["host-local GC"]);
        }
    }
}

#[test]
fn del_tells_of_ipam_and_of_a_namespace_that_cannot_be_entered() {
    let mut host = machine();
    caller(ADDRESSED).add(&HostDevice, &mut host).expect("ADD");
    host.fail_delegate(Some(Command::Del));
    let error = caller(ADDRESSED).del(&HostDevice, &mut host).expect_err("IPAM fails");
    assert_eq!(error.to_string(), "host-local has failed");
    assert!(on_host(&mut host, "ens1").is_some());

    let mut host = machine();
    caller(ADDRESSED).add(&HostDevice, &mut host).expect("ADD");
    host.set_container(NETNS, FakeContainer::Closed);
    caller(ADDRESSED).del(&HostDevice, &mut host).expect_err("closed");
    assert!(host.state().iter().any(|line| line.starts_with("lease")));
    host.set_container(NETNS, FakeContainer::Present(None));
    caller(ADDRESSED).del(&HostDevice, &mut host).expect("DEL");
    assert!(!host.state().iter().any(|line| line.starts_with("lease")));
    assert!(on_host(&mut host, "ens1").is_some());
}

#[test]
fn status_asks_the_ipam_plugin_if_there_is_one() {
    let mut host = machine();
    caller(PLAIN).status(&HostDevice, &mut host).expect("STATUS");
    assert_eq!(host.delegated(), [""; 0]);
    host.fail_delegate(Some(Command::Status));
    assert_eq!(caller(ADDRESSED).status(&HostDevice, &mut host).expect_err("IPAM fails").code().number(), 100);
}
