//! Steps against the real kernel: each is carried out, and taken back by the step that it returns.

use cni_core::mac::Mac;
use cni_core::names::IfName;
use cni_linux::host::LinuxHost;
use cni_model::link::Link;
use cni_model::plan::{
    Dad, IfPresent, LinkKind, LinkMove, LinkSetting, NewLink, NewRoute, Ns, Step, Sysctl, SysctlNeed, VethPeer,
};
use cni_model::routing::FullRoute;
use cni_model::state_file::StateFile;
use cni_plugin::host::{Host, LinkQuery};
use nix::sched::{CloneFlags, unshare};

const CONFIG: &str = r#"{"cniVersion":"1.0.0","name":"net1","type":"bridge"}"#;

/// Moves the thread of the test into a new namespace, with the veth `d0` and the bridges `br0` and `br1` in it.
fn host() -> Box<dyn Host> {
    unshare(CloneFlags::CLONE_NEWNET).expect("a new network namespace; this test needs root");
    let mut host: Box<dyn Host> = Box::new(LinuxHost::new(&cni_testkit::request("ADD", &[], CONFIG)));
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
    let mut watching = LinuxHost::new(&cni_testkit::request("ADD", &[], CONFIG)).with_watched_veths();
    let mut listed = || {
        let found = watching.links(Ns::Host, LinkQuery::Kind("veth")).expect("an answer");
        found.into_iter().map(|link| (link.name, link.alias)).collect::<Vec<_>>()
    };
    let of = |name: &str, alias: Option<&str>| (name.to_owned(), alias.map(str::to_owned));
    let mut other: Box<dyn Host> = Box::new(LinuxHost::new(&cni_testkit::request("ADD", &[], CONFIG)));
    for _ in 0..2 {
        assert_eq!(listed(), [of("d1", None), of("d0", None)]);
    }
    // Of a link that is down the kernel does not tell that it has another alias.
    for setting in [LinkSetting::Alias("mine".to_owned()), LinkSetting::Up] {
        other.apply(&set(setting)).expect("set");
    }
    assert_eq!(listed(), [of("d1", None), of("d0", Some("mine"))]);
    other.apply(&Step::RemoveLink { ns: Ns::Host, name: name("d0") }).expect("removed");
    assert_eq!(listed(), []);
    other.apply(&create("d0", IfPresent::Refuse, veth())).expect("a link");
    assert_eq!(listed(), [of("d1", None), of("d0", None)]);
}

#[test]
fn a_setting_is_undone_by_the_step_that_it_returns() {
    let mut host = host();
    host.apply(&set(LinkSetting::Alias("mine".to_owned()))).expect("an alias");
    for setting in [
        LinkSetting::Up,
        LinkSetting::Mac(Mac::local([2, 0, 0, 0, 0, 2])),
        LinkSetting::Mtu(1300),
        LinkSetting::Alias("ours".to_owned()),
        LinkSetting::Promisc(true),
        LinkSetting::AllMulticast(true),
        LinkSetting::TxQueueLength(17),
        LinkSetting::Master(name("br0")),
    ] {
        let before = d0(host.as_mut());
        let undo = host.apply(&set(setting.clone())).expect("set").unwrap_or_else(|| panic!("no undo: {setting:?}"));
        assert_ne!(d0(host.as_mut()), before, "{setting:?}");
        assert_eq!(host.apply(&set(setting.clone())).expect("set again"), None, "{setting:?}");
        host.apply(&undo).expect("taken back");
        assert_eq!(d0(host.as_mut()), before, "{setting:?}");
    }
}

#[test]
fn a_port_goes_back_to_the_bridge_that_it_was_in() {
    let mut host = host();
    host.apply(&set(LinkSetting::Master(name("br0")))).expect("a port");
    for setting in [LinkSetting::Master(name("br1")), LinkSetting::NoMaster] {
        let before = d0(host.as_mut());
        let undo = host.apply(&set(setting)).expect("set").expect("undo");
        assert_eq!(undo.to_string(), "host: link set d0 master br0");
        host.apply(&undo).expect("taken back");
        assert_eq!(d0(host.as_mut()).master, before.master);
    }
}

/// It never took effect, and the kernel refuses to remove it as well.
#[test]
fn a_route_that_the_kernel_does_not_take_is_not_reported_as_left() {
    let mut host = host();
    host.apply(&set(LinkSetting::Up)).expect("up");
    let route = NewRoute::to("10.96.0.1/12".parse().expect("CIDR"));
    let full = FullRoute {
        dst: route.dst,
        gateway: None,
        ..FullRoute::default_by([10, 1, 2, 1].into(), d0(host.as_mut()).index, 254)
    };
    for step in
        [Step::AddRoute { ns: Ns::Host, name: name("d0"), route }, Step::AddFullRoute { ns: Ns::Host, route: full }]
    {
        let error = host.apply(&step).expect_err("refused");
        assert!(
            error.details().starts_with("invalid argument") && !error.details().contains("; and"),
            "{}",
            error.in_full()
        );
    }
}

#[test]
fn a_shared_object_is_undone_only_by_its_maker() {
    let mut host = host();
    assert_eq!(host.apply(&create("br0", IfPresent::Accept, bridge())).expect("accepted"), None);
    let error = host.apply(&create("br0", IfPresent::Refuse, bridge())).expect_err("refused");
    assert_eq!(error.to_string(), "failed to create bridge br0");
    let (cidr, dad) = ("10.1.2.1/24".parse().expect("CIDR"), Dad::Skip);
    let add = |if_present| Step::AddAddress { ns: Ns::Host, name: name("br0"), cidr, dad, if_present };
    let undo = host.apply(&add(IfPresent::Accept)).expect("added").expect("undo");
    assert_eq!(host.apply(&add(IfPresent::Accept)).expect("accepted"), None);
    host.apply(&add(IfPresent::Refuse)).expect_err("refused");
    host.apply(&undo).expect("taken back");
    assert_eq!(host.apply(&add(IfPresent::Refuse)).expect("added"), Some(undo));
}

#[test]
fn a_link_that_is_gone_is_down_and_no_port() {
    let mut host = host();
    for setting in [LinkSetting::Down, LinkSetting::NoMaster] {
        let step = Step::SetLink { ns: Ns::Host, name: name("none"), setting };
        assert_eq!(host.apply(&step).expect("nothing to do"), None);
    }
    let up = Step::SetLink { ns: Ns::Host, name: name("none"), setting: LinkSetting::Up };
    let error = host.apply(&up).expect_err("no link");
    assert_eq!(error.to_string(), r#"there is no link "none" in the host namespace"#);
}

#[test]
fn a_route_is_undone_and_a_parameter_gets_its_value_back() {
    let mut host = host();
    for end in ["d0", "d1"] {
        host.apply(&Step::SetLink { ns: Ns::Host, name: name(end), setting: LinkSetting::Up }).expect("up");
    }
    let route = NewRoute { table: Some(100), ..NewRoute::to("10.9.0.0/16".parse().expect("CIDR")) };
    let add = Step::AddRoute { ns: Ns::Host, name: name("d0"), route };
    host.apply(&add).expect("added");
    let found =
        |host: &mut dyn Host| host.routing().routes(Ns::Host, cni_core::family::Family::V4, Some(100)).expect("routes");
    assert_eq!(found(host.as_mut()).len(), 1);
    let undo = add.inverse().expect("undo");
    assert_eq!(host.apply(&undo).expect("removed"), Some(add), "a route that was there is put back");
    assert_eq!(host.apply(&undo).expect("absent"), None);
    assert_eq!(found(host.as_mut()), []);

    let key = Sysctl::interface(cni_core::family::Family::V4, &name("d0"), "arp_notify");
    let write = Step::SetSysctl { ns: Ns::Host, key: key.clone(), value: "1".to_owned(), need: SysctlNeed::Required };
    let undo = host.apply(&write).expect("written").expect("undo");
    assert_eq!(host.apply(&write).expect("nothing to do"), None);
    host.apply(&undo).expect("written back");
    assert_eq!(host.files().sysctl(Ns::Host, &key).expect("read").as_deref(), Some("0"));
}

/// An index that no link has.
const NO_INDEX: u32 = 999_999;

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
    let index = host.link(from, &name(old)).expect("asked").map_or(NO_INDEX, |link| link.index);
    Step::MoveLink(LinkMove { from, index, name: old.to_owned(), to, new_name: name(new), alias: alias.to_owned() })
}

#[test]
fn a_link_goes_into_a_container_under_another_name_and_back() {
    let mut host = host();
    host.enter(&container()).expect("entered");
    host.apply(&set(LinkSetting::Alias("mine".to_owned()))).expect("an alias");
    let before = d0(host.as_mut());
    let there = moved(host.as_mut(), (Ns::Host, "d0"), (Ns::Container, "eth0"), "d0");
    let undo = host.apply(&there).expect("moved").expect("undo");
    assert_eq!(undo, moved(host.as_mut(), (Ns::Container, "eth0"), (Ns::Host, "d0"), "mine"));
    let inside = host.link(Ns::Container, &name("eth0")).expect("asked").expect("eth0");
    assert_eq!((inside.alias.as_deref(), inside.mac.clone(), inside.up), (Some("d0"), before.mac.clone(), false));
    assert_eq!(host.link(Ns::Host, &name("d0")).expect("asked"), None);
    host.apply(&undo).expect("moved back");
    assert_eq!(Link { index: before.index, ..d0(host.as_mut()) }, before);
}

#[test]
fn a_link_is_renamed_where_it_is() {
    let mut host = host();
    let rename = moved(host.as_mut(), (Ns::Host, "d0"), (Ns::Host, "e0"), "");
    let undo = host.apply(&rename).expect("renamed").expect("undo");
    assert!(host.link(Ns::Host, &name("e0")).expect("asked").is_some());
    host.apply(&undo).expect("renamed back");
    assert!(host.link(Ns::Host, &name("d0")).expect("asked").is_some());
}

#[test]
fn a_link_stays_where_it_is_when_it_cannot_be_moved() {
    let mut host = host();
    host.enter(&container()).expect("entered");
    for (old, new, code) in [("d0", "lo", 103), ("br0", "eth0", 101), ("none", "eth0", 101)] {
        let links = host.links(Ns::Host, LinkQuery::All).expect("asked");
        let there = moved(host.as_mut(), (Ns::Host, old), (Ns::Container, new), old);
        let error = host.apply(&there).expect_err("refused");
        assert_eq!(error.code().number(), code, "{error}");
        assert_eq!(host.links(Ns::Host, LinkQuery::All).expect("asked"), links);
        assert_eq!(host.links(Ns::Container, LinkQuery::All).expect("asked").len(), 1, "lo alone");
    }
}

/// Root in a container may do both between the question and the step.
#[test]
fn a_link_is_moved_and_removed_by_its_index_whatever_its_name_is_by_then() {
    let mut host = host();
    host.enter(&container()).expect("entered");
    let there = moved(host.as_mut(), (Ns::Host, "d0"), (Ns::Container, "eth0"), "");
    let rename =
        [("d0", "x0"), ("br0", "d0")].map(|(old, new)| moved(host.as_mut(), (Ns::Host, old), (Ns::Host, new), ""));
    rename.iter().for_each(|step| drop(host.apply(step).expect("renamed")));
    host.apply(&there).expect("moved");
    let link = host.link(Ns::Container, &name("eth0")).expect("asked").expect("eth0");
    assert_eq!(link.kind.as_deref(), Some("veth"));
    assert!(host.link(Ns::Host, &name("d0")).expect("asked").is_some(), "the bridge");

    let step = Step::RemoveLinkByIndex { ns: Ns::Container, index: link.index };
    assert_eq!(host.apply(&step).expect("removed"), None);
    assert_eq!(host.links(Ns::Container, LinkQuery::All).expect("asked").len(), 1, "lo alone");
    assert_eq!(host.apply(&step).expect_err("missing").code().number(), 101);
    let lo = Step::RemoveLinkByIndex { ns: Ns::Container, index: 1 };
    assert_eq!(host.apply(&lo).expect_err("lo stays").code().number(), 101);
}

#[test]
fn a_link_is_found_by_another_name_that_it_has() {
    let mut host = host();
    let long = "a-name-of-more-than-fifteen-bytes";
    let done =
        std::process::Command::new("ip").args(["link", "property", "add", "dev", "d0", "altname", long]).status();
    assert!(done.expect("ip runs").success());
    let found = |host: &mut dyn Host, name| host.links(Ns::Host, LinkQuery::Called(name)).expect("asked").pop();
    assert_eq!(found(host.as_mut(), long).map(|link| link.name).as_deref(), Some("d0"));
    for other in ["another-name-of-more-than-fifteen", "", &"x".repeat(128)] {
        assert_eq!(found(host.as_mut(), other), None, "{other}");
    }
}

#[test]
fn the_kernel_says_which_kinds_of_links_it_has_and_makes_none() {
    let mut host = host();
    let before = host.links(Ns::Host, LinkQuery::Kind("bridge")).expect("an answer").len();
    for kind in [bridge(), veth()] {
        assert!(host.devices().has_link_kind(kind.name()).expect("an answer"), "{}", kind.name());
    }
    let dummy = Step::CreateLink {
        ns: Ns::Host,
        link: NewLink { name: name("x0"), mac: None, mtu: None, if_present: IfPresent::Refuse, kind: LinkKind::Dummy },
    };
    let has_dummies = host.devices().has_link_kind("dummy").expect("an answer");
    match host.apply(&dummy) {
        Ok(_) => assert!(has_dummies),
        Err(error) => {
            assert!(!has_dummies && error.code().number() == 2, "{error}");
            assert!(error.to_string().contains("this kernel has no links of kind dummy"), "{error}");
        }
    }
    assert_eq!(host.links(Ns::Host, LinkQuery::Kind("bridge")).expect("an answer").len(), before);
}

#[test]
fn a_parameter_that_can_only_be_written_is_written_and_has_no_value_before() {
    let mut host = host();
    let set = |path: &[&str], value: &str| Step::SetSysctl {
        ns: Ns::Host,
        key: Sysctl::fixed(path),
        value: value.to_owned(),
        need: SysctlNeed::Required,
    };
    assert_eq!(host.apply(&set(&["net", "ipv4", "route", "flush"], "1")).expect("written"), None);
    let error = host.apply(&set(&["net", "ipv4", "tcp_rmem"], "many")).expect_err("no number");
    assert_eq!(error.to_string(), r#"failed to write "many" to /proc/sys/net/ipv4/tcp_rmem"#);
    let error = host.apply(&set(&["net", "none"], "1")).expect_err("no such parameter");
    assert!(error.details().contains("No such file"), "{}", error.details());
}

#[test]
fn a_state_file_is_undone_with_the_directories_that_were_made_for_it() {
    let mut host = host();
    let root = tempfile::tempdir().expect("directory");
    let directory = root.path().join("a/b");
    let file = StateFile::new(directory.to_str().expect("text"), "x.json").expect("a place");
    let write = |text: &str| Step::WriteStateFile { file: file.clone(), text: text.to_owned() };
    assert_eq!(host.files().state_file(&file).expect("none"), None);
    let remove = host.apply(&write("first")).expect("written").expect("undo");
    assert_eq!(host.apply(&write("first")).expect("as it is"), None);
    let undo = host.apply(&write("second")).expect("written").expect("undo");
    assert_eq!(undo, write("first"));
    host.apply(&undo).expect("written back");
    assert_eq!(host.files().state_file(&file).expect("read").as_deref(), Some("first"));
    for _ in 0..2 {
        assert_eq!(host.apply(&remove).expect("removed, or absent"), None);
        assert!(!root.path().join("a").exists() && root.path().exists());
    }
    host.apply(&write("alone")).expect("written");
    std::fs::write(directory.join("other"), "").expect("written");
    host.apply(&remove).expect("removed");
    assert!(directory.join("other").exists(), "a directory that others use stays");
}

#[test]
fn an_administrators_file_may_be_a_link_and_must_be_text() {
    let mut host = host();
    let root = tempfile::tempdir().expect("directory");
    let [list, link] = ["list", "link"].map(|name| root.path().join(name));
    assert_eq!(host.files().administrators_file(&list).expect("none"), None);
    std::fs::write(&list, "text").expect("written");
    std::os::unix::fs::symlink(&list, &link).expect("linked");
    assert_eq!(host.files().administrators_file(&link).expect("read").as_deref(), Some("text"));
    std::fs::write(&list, [0xff]).expect("written");
    for path in [&list, root.path()] {
        let error = host.files().administrators_file(path).expect_err("refused");
        assert_eq!(error.to_string(), format!("failed to read {}", path.display()));
    }
}
