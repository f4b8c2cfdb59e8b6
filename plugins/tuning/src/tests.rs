//! The life of a tuned interface, on a machine in memory.

use std::path::PathBuf;

use super::*;
use cni_model::link::Link;
use cni_model::plan::Ns;
use cni_plugin::host::Host;
use cni_testkit::lifecycle::{assert_add_is_all_or_nothing, assert_del_removes_what_add_made};
use cni_testkit::{Caller, FakeContainer, FakeHost};

mod allow;
mod config;
mod removal;

const NETNS: &str = "/run/netns/c1";

const BACKUP: &str = "/run/cni/tuning/c1_eth0.json";

const PROPERTIES: &str = r#""mac":"02:00:00:00:00:0a","promisc":true,"mtu":1400,"allmulti":true,"txQLen":500"#;

const PARAMETERS: &str = r#""sysctl":{"net.ipv4.conf.IFNAME.rp_filter":"2","net/core/somaxconn":"500"}"#;

fn everything() -> Caller {
    caller(&format!("{PROPERTIES},{PARAMETERS}"))
}

/// A container to whose interface a plugin before has given these keys.
fn caller(keys: &str) -> Caller {
    let comma = if keys.is_empty() { "" } else { "," };
    let result = r#"{"cniVersion":"1.1.0","interfaces":[{"name":"eth0"},{"name":"eth0","mac":"02:00:00:00:00:01",
        "sandbox":"/run/netns/c1","mtu":1500},{"name":"other","mac":"x","sandbox":"/run/netns/c1"}]}"#;
    let config = format!(r#"{{"cniVersion":"1.1.0","name":"n1","type":"tuning","prevResult":{result}{comma}{keys}}}"#);
    Caller::new("c1", &config)
}

fn machine() -> FakeHost {
    let mut host = FakeHost::new().with_container(NETNS, FakeContainer::Present(None));
    host.enter(NETNS).expect("entered");
    let mac = "02:00:00:00:00:01".parse().ok();
    host.add_link(
        Ns::Container,
        Link { name: "eth0".to_owned(), mac, mtu: 1500, tx_queue_length: 1000, ..Link::default() },
    );
    host
}

fn eth0(host: &mut FakeHost) -> Link {
    let host: &mut dyn Host = host;
    host.enter(NETNS).expect("entered");
    host.link(Ns::Container, &cni_core::names::IfName::parse("eth0").expect("a name")).expect("links").expect("eth0")
}

fn backup(host: &FakeHost) -> Option<&str> {
    host.state_files.get(&PathBuf::from(BACKUP)).map(String::as_str)
}

#[test]
fn add_writes_parameters_then_the_backup_and_then_the_properties() {
    let mut host = machine();
    let result = everything().add(&Tuning, &mut host).expect("ADD");
    let text = r#""{\n \"mac\": \"02:00:00:00:00:01\",\n \"promisc\": false,\n \"mtu\": 1500,\n \"allmulti\": false,\n \"txQLen\": 1000\n}""#;
    let [first, applied @ .., last] = host.applied() else { panic!("steps") };
    for record in [first, last] {
        assert!(record.starts_with("host: write record tuning/"), "{record}");
    }
    let mentions = |text: &str| [first, last].map(|record| record.contains(text));
    assert_eq!((mentions("rp_filter"), mentions("arp_notify")), ([true, true], [true, false]));
    let want = [
        "container: sysctl net/ipv4/conf/eth0/rp_filter=2".to_owned(),
        "container: sysctl net/core/somaxconn=500".to_owned(),
        format!("host: write {BACKUP} {text}"),
        "container: sysctl net/ipv4/conf/eth0/arp_notify=1".to_owned(),
        "container: sysctl net/ipv6/conf/eth0/ndisc_notify=1".to_owned(),
        "container: link set eth0 address 02:00:00:00:00:0a".to_owned(),
        "container: sysctl net/ipv4/conf/eth0/arp_notify=0".to_owned(),
        "container: sysctl net/ipv6/conf/eth0/ndisc_notify=0".to_owned(),
        "container: link set eth0 promisc on".to_owned(),
        "container: link set eth0 mtu 1400".to_owned(),
        "container: link set eth0 allmulticast on".to_owned(),
        "container: link set eth0 txqueuelen 500".to_owned(),
    ];
    assert_eq!(applied, want);
    let reported: Vec<(&str, i64)> =
        result.interfaces.iter().map(|reported| (reported.mac.as_str(), reported.mtu)).collect();
    assert_eq!(reported, [("", 0), ("02:00:00:00:00:0a", 1400), ("x", 0)]);
    everything().check(&Tuning, &mut host).expect("CHECK");
}

#[test]
fn a_failure_at_any_step_leaves_nothing() {
    assert_eq!(assert_add_is_all_or_nothing(&Tuning, machine, &everything()), 14);
}

#[test]
fn del_sets_back_what_add_has_changed() {
    assert_del_removes_what_add_made(&Tuning, &mut machine(), &everything());
}

/// As podman and nerdctl write it.
#[test]
fn a_configuration_without_keys_changes_nothing_and_passes_the_result_on() {
    for keys in ["", r#""mac":"","mtu":0,"promisc":false,"sysctl":{},"allmulti":null,"txQLen":null,"ipam":{}"#] {
        let (mut host, caller) = (machine(), caller(keys));
        let before = host.state();
        let result = caller.add(&Tuning, &mut host).expect("ADD");
        assert_eq!(Some(result), caller.request(&Tuning, "ADD").prev_result().expect("a result"));
        caller.check(&Tuning, &mut host).expect("CHECK");
        assert_eq!((host.applied(), host.state()), (&[][..], before.clone()));
        caller.del(&Tuning, &mut host).expect("DEL");
        assert_eq!(host.state(), before);
    }
}

#[test]
fn a_second_add_keeps_what_was_before_the_first() {
    let mut host = machine();
    caller(r#""mtu":1400"#).add(&Tuning, &mut host).expect("ADD");
    caller(r#""mtu":1300,"txQLen":5"#).add(&Tuning, &mut host).expect("ADD");
    assert_eq!(backup(&host), Some("{\n \"mtu\": 1500,\n \"txQLen\": 1000\n}"));
    caller("").del(&Tuning, &mut host).expect("DEL");
    let link = eth0(&mut host);
    assert_eq!((link.mtu, link.tx_queue_length, backup(&host)), (1500, 1000, None));
}

/// The properties, or parameters alone.
#[test]
fn a_second_add_with_another_directory_takes_what_was_before_the_first_there() {
    let add = |directory: &str, keys: &str| caller(&format!(r#""dataDir":"{directory}",{keys}"#));
    for keys in [r#""mtu":1300,"txQLen":5"#, PARAMETERS] {
        let first = || {
            let mut host = machine();
            add("/run/a", r#""mtu":1400"#).add(&Tuning, &mut host).expect("ADD");
            host
        };
        assert_add_is_all_or_nothing(&Tuning, first, &add("/run/b", keys));
        let mut host = first();
        add("/run/b", keys).add(&Tuning, &mut host).expect("ADD");
        let files: Vec<String> = host.state_files.keys().map(|path| path.display().to_string()).collect();
        assert_eq!(files, ["/run/b/c1_eth0.json"]);
        add("/run/b", keys).del(&Tuning, &mut host).expect("DEL");
        assert_eq!(host.state(), machine().state());
    }
}

/// Such as by a link: to remove one would be to remove both.
#[test]
fn a_file_with_the_same_text_in_another_directory_may_be_the_same() {
    let mut host = machine();
    caller(r#""mtu":1400,"dataDir":"/run/a""#).add(&Tuning, &mut host).expect("ADD");
    let text = host.state_files[&PathBuf::from("/run/a/c1_eth0.json")].clone();
    host.state_files.insert("/run/b/c1_eth0.json".into(), text.clone());
    caller(r#""mtu":1300,"dataDir":"/run/b""#).add(&Tuning, &mut host).expect("ADD");
    assert_eq!(host.state_files.into_values().collect::<Vec<_>>(), [text.clone(), text]);
}

#[test]
fn an_interface_that_is_not_there_is_named() {
    let mut host = FakeHost::new().with_container(NETNS, FakeContainer::Present(None));
    let error = caller(r#""mtu":1400"#).add(&Tuning, &mut host).expect_err("no eth0");
    assert_eq!((error.code().number(), error.to_string()), (101, r#"failed to get "eth0": Link not found"#.to_owned()));
    let error = caller("").check(&Tuning, &mut host).expect_err("no eth0");
    assert_eq!((error.code().number(), error.to_string()), (100, "Cannot find container link eth0".to_owned()));
}

#[test]
fn check_names_what_has_another_value() {
    type Change = fn(&mut Link);
    let changes: [(Change, &str); 5] = [
        (|link| link.mac = None, "Ethernet of eth0 is 02:00:00:00:00:0a, current value is none"),
        (|link| link.promisc = false, "promiscuous mode of eth0 is true, current value is false"),
        (|link| link.mtu = 1300, "MTU of eth0 is 1400, current value is 1300"),
        (|link| link.all_multicast = false, "all-multicast mode of eth0 is true, current value is false"),
        (|link| link.tx_queue_length = 555, "Transmit Queue Length of eth0 is 500, current value is 555"),
    ];
    for (change, text) in changes {
        let mut host = machine();
        everything().add(&Tuning, &mut host).expect("ADD");
        host.change_link(Ns::Container, "eth0", change);
        let error = everything().check(&Tuning, &mut host).expect_err(text);
        assert_eq!((error.code().number(), error.to_string()), (100, format!("Error: Tuning configured {text}")));
        caller("").check(&Tuning, &mut host).expect("nothing was asked for");
    }
}

#[test]
fn check_compares_parameters_by_their_words() {
    let check = |have: &str, want: &str| {
        let mut host = machine();
        let keys = |value: &str| format!(r#""sysctl":{{"net.ipv4.tcp_rmem":"{value}"}}"#);
        caller(&keys(have)).add(&Tuning, &mut host).expect("ADD");
        caller(&keys(want)).check(&Tuning, &mut host).map_err(|error| error.to_string())
    };
    assert_eq!(check("1 2 3", r"1\t2\t3\n"), Ok(()));
    let text = "Error: Tuning configured value of /proc/sys/net/ipv4/tcp_rmem is 1 2, current value is 12";
    assert_eq!(check("12", "1 2"), Err(text.to_owned()));
}

#[test]
fn check_and_add_need_the_result_of_the_plugins_before() {
    let lonely = Caller::new("c1", r#"{"cniVersion":"1.0.0","name":"n1","type":"tuning"}"#);
    let add = lonely.add(&Tuning, &mut machine()).expect_err("refused");
    let check = lonely.check(&Tuning, &mut machine()).expect_err("refused");
    for error in [add, check] {
        assert_eq!((error.code().number(), error.to_string()), (7, "Required prevResult missing".to_owned()));
    }
    lonely.del(&Tuning, &mut machine()).expect("DEL does not");
}
