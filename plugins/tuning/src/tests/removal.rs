//! What DEL restores, what GC removes, and what both keep.

use super::*;
use cni_model::plan::{Step, Sysctl, SysctlNeed};
use cni_plugin::journal::Journal;

#[test]
fn a_torn_backup_is_replaced_by_add_and_ignored_by_del() {
    let mut host = machine();
    host.state_files.insert(BACKUP.into(), "{\n \"mtu\": 9".to_owned());
    caller(r#""mtu":1400"#).add(&Tuning, &mut host).expect("ADD");
    assert_eq!(backup(&host), Some("{\n \"mtu\": 1500\n}"));
    host.state_files.insert(BACKUP.into(), "{".to_owned());
    caller("").del(&Tuning, &mut host).expect("DEL");
    assert_eq!((eth0(&mut host).mtu, backup(&host)), (1400, None));
}

#[test]
fn without_the_namespace_or_the_interface_del_restores_nothing() {
    let mut host = machine();
    caller(r#""mtu":1400"#).add(&Tuning, &mut host).expect("ADD");
    host.set_container(NETNS, FakeContainer::Gone);
    caller("").del(&Tuning, &mut host).expect("DEL");
    assert_eq!(backup(&host), None);
    let mut host = machine();
    caller(r#""mtu":1400"#).add(&Tuning, &mut host).expect("ADD");
    host.change_link(Ns::Container, "eth0", |link| link.name = "moved".to_owned());
    caller("").del(&Tuning, &mut host).expect("DEL");
    assert_eq!(backup(&host), None);
}

#[test]
fn a_failed_restoration_stops_neither_the_others_nor_del() {
    let mut host = machine();
    caller(r#""mtu":1400,"txQLen":5"#).add(&Tuning, &mut host).expect("ADD");
    host.fail_at(host.applied().len() + 1);
    caller("").del(&Tuning, &mut host).expect("DEL");
    let link = eth0(&mut host);
    assert_eq!((link.mtu, link.tx_queue_length), (1400, 1000));
    assert!(backup(&host).is_some(), "the next DEL tries again");
    caller("").del(&Tuning, &mut host).expect("DEL");
    assert_eq!((eth0(&mut host).mtu, backup(&host)), (1500, None));
}

/// Otherwise DEL could not restore it.
#[test]
fn add_fails_if_it_cannot_read_a_present_value() {
    for (path, msg) in [
        ("net/core/somaxconn", "failed to read net/core/somaxconn"),
        ("/run/cni/tuning/c1_eth0.json", "failed to read /run/cni/tuning/c1_eth0.json"),
    ] {
        let mut host = machine();
        let before = host.state();
        host.unreadable.insert(path.to_owned());
        let error = everything().add(&Tuning, &mut host).expect_err("unreadable");
        assert_eq!((error.code().number(), error.to_string()), (101, msg.to_owned()));
        assert_eq!(host.state(), before);
    }
}

#[test]
fn add_fails_if_it_cannot_read_the_backup_of_an_earlier_add_elsewhere() {
    let mut host = machine();
    caller(r#""mtu":1400"#).add(&Tuning, &mut host).expect("ADD");
    let before = host.state();
    host.unreadable.insert(BACKUP.to_owned());
    let error = caller(r#""mtu":1300,"dataDir":"/run/b""#).add(&Tuning, &mut host).expect_err("unreadable");
    assert_eq!((error.code().number(), error.to_string()), (101, format!("failed to read {BACKUP}")));
    assert_eq!(host.state(), before);
}

#[test]
fn a_write_only_parameter_has_no_value() {
    let mut host = machine();
    host.unreadable.insert("net/ipv4/route/flush".to_owned());
    let caller = caller(r#""sysctl":{"net.ipv4.route.flush":"1"}"#);
    caller.add(&Tuning, &mut host).expect("ADD");
    caller.check(&Tuning, &mut host).expect("CHECK");
    caller.del(&Tuning, &mut host).expect("DEL");
    assert_eq!(host.records.len(), 0);
}

#[test]
fn check_fails_when_it_cannot_read_a_parameter() {
    let mut host = machine();
    with_somaxconn("500").add(&Tuning, &mut host).expect("ADD");
    host.unreadable.insert(SOMAXCONN.to_owned());
    let error = with_somaxconn("500").check(&Tuning, &mut host).expect_err("unreadable");
    assert_eq!((error.code().number(), error.to_string()), (101, format!("failed to read {SOMAXCONN}")));
}

/// The next DEL restores it.
#[test]
fn del_keeps_the_backup_until_it_can_restore_the_value() {
    for path in [SOMAXCONN, BACKUP] {
        let mut host = machine();
        let before = host.state();
        everything().add(&Tuning, &mut host).expect("ADD");
        host.unreadable.insert(path.to_owned());
        caller("").del(&Tuning, &mut host).expect("DEL");
        assert!(backup(&host).is_some() && host.records.len() == 1, "{path}");
        host.unreadable.clear();
        caller("").del(&Tuning, &mut host).expect("DEL");
        assert_eq!(host.state(), before);
    }
}

#[test]
fn a_container_id_of_any_length_has_a_file() {
    for length in [240, 245, 246, 250, 400] {
        let mut host = machine();
        let before = host.state();
        let caller = Caller { container: "c".repeat(length), ..everything() };
        caller.add(&Tuning, &mut host).expect("ADD");
        let file = host.state_files.keys().next().and_then(|path| path.file_name()).expect("a file").to_owned();
        let reference = format!("{}_eth0.json", caller.container);
        assert_eq!(file == reference.as_str(), length <= 245, "{length}");
        assert!(file.len() <= 255);
        caller.del(&Tuning, &mut host).expect("DEL");
        assert_eq!(host.state(), before);
    }
}

#[test]
fn a_namespace_that_cannot_be_entered_fails_del() {
    let mut host = machine();
    caller(r#""mtu":1400"#).add(&Tuning, &mut host).expect("ADD");
    host.set_container(NETNS, FakeContainer::Closed);
    caller("").del(&Tuning, &mut host).expect_err("it may be there still");
    assert!(backup(&host).is_some());
}

/// The value of a parameter of the container; nothing for the first one.
fn parameter(host: &FakeHost, path: &str) -> Option<String> {
    let start = format!("{NETNS} {path}=");
    host.state().iter().find_map(|line| line.strip_prefix(&start).map(str::to_owned))
}

const SOMAXCONN: &str = "net/core/somaxconn";

fn with_somaxconn(value: &str) -> Caller {
    caller(&format!(r#""sysctl":{{"net.core.somaxconn":"{value}"}}"#))
}

#[test]
fn a_second_add_keeps_the_parameters_of_the_first() {
    let mut host = machine();
    let before = host.state();
    for value in ["500", "600", "600"] {
        with_somaxconn(value).add(&Tuning, &mut host).expect("ADD");
    }
    caller(PROPERTIES).add(&Tuning, &mut host).expect("ADD");
    assert_eq!(parameter(&host, SOMAXCONN).as_deref(), Some("600"));
    caller("").del(&Tuning, &mut host).expect("DEL");
    assert_eq!(host.state(), before);
}

#[test]
fn a_parameter_that_was_changed_since_is_not_restored() {
    let mut host = machine();
    with_somaxconn("500").add(&Tuning, &mut host).expect("ADD");
    let other = Caller { container: "c2".to_owned(), ..with_somaxconn("600") };
    other.add(&Tuning, &mut host).expect("ADD");
    caller("").del(&Tuning, &mut host).expect("DEL");
    assert_eq!(parameter(&host, SOMAXCONN).as_deref(), Some("600"));
}

#[test]
fn a_parameter_of_another_interface_stays_as_it_is() {
    let mut host = machine();
    let second = Caller { ifname: "net1".to_owned(), ..with_somaxconn("500") };
    for caller in [&with_somaxconn("500"), &second] {
        caller.add(&Tuning, &mut host).expect("ADD");
    }
    caller("").del(&Tuning, &mut host).expect("DEL");
    assert_eq!(parameter(&host, SOMAXCONN).as_deref(), Some("500"));
    second.check(&Tuning, &mut host).expect_err("there is no net1");
    assert_eq!(host.records.len(), 1);
}

/// Whichever comes and goes first: the one that stays has its value, and the last one leaves what was before both.
#[test]
fn a_parameter_of_two_interfaces_is_restored_when_both_are_gone() {
    let net1 = |value: &str| Caller { ifname: "net1".to_owned(), ..with_somaxconn(value) };
    for second in ["600", "500"] {
        for first_goes_first in [true, false] {
            let mut host = machine();
            set_somaxconn(&mut host, "4096");
            let before = host.state();
            let both = [(with_somaxconn("500"), "500"), (net1(second), second)];
            for (caller, value) in both.iter().chain(&both) {
                caller.add(&Tuning, &mut host).expect("ADD");
                assert_eq!(parameter(&host, SOMAXCONN).as_deref(), Some(*value));
            }
            let [goes, (stays, value)] = if first_goes_first { [&both[0], &both[1]] } else { [&both[1], &both[0]] };
            for _ in 0..2 {
                goes.0.del(&Tuning, &mut host).expect("DEL");
                assert_eq!(parameter(&host, SOMAXCONN).as_deref(), Some(*value));
            }
            stays.del(&Tuning, &mut host).expect("DEL");
            assert_eq!(host.state(), before, "{second}, {first_goes_first}");
        }
    }
}

fn set_somaxconn(host: &mut FakeHost, value: &str) {
    let (ns, key, need) = (Ns::Container, Sysctl::fixed(&["net", "core", "somaxconn"]), SysctlNeed::Required);
    host.apply(&Step::SetSysctl { ns, key, value: value.to_owned(), need }).expect("set");
}

fn identified(id: &str) -> FakeContainer {
    FakeContainer::Present(Some(id.to_owned()))
}

#[test]
fn a_parameter_of_an_interface_in_another_namespace_is_another_one() {
    let mut host = machine();
    host.set_container(NETNS, identified("old"));
    with_somaxconn("500").add(&Tuning, &mut host).expect("ADD");
    host.set_container(NETNS, identified("new"));
    set_somaxconn(&mut host, "1000");
    let second = Caller { ifname: "net1".to_owned(), ..with_somaxconn("600") };
    second.add(&Tuning, &mut host).expect("ADD");
    second.del(&Tuning, &mut host).expect("DEL");
    assert_eq!(parameter(&host, SOMAXCONN).as_deref(), Some("1000"));
}

#[test]
fn what_was_written_down_for_another_namespace_does_not_count() {
    let mut host = machine();
    host.set_container(NETNS, identified("old"));
    let caller = caller(r#""mtu":1400,"sysctl":{"net.core.somaxconn":"500"}"#);
    caller.add(&Tuning, &mut host).expect("ADD");
    host.set_container(NETNS, identified("new"));
    host.change_link(Ns::Container, "eth0", |link| link.mtu = 9000);
    caller.del(&Tuning, &mut host).expect("DEL");
    assert_eq!((eth0(&mut host).mtu, backup(&host), host.records.len()), (9000, None, 0));

    let mut host = machine();
    host.set_container(NETNS, identified("old"));
    caller.add(&Tuning, &mut host).expect("ADD");
    host.set_container(NETNS, identified("new"));
    host.change_link(Ns::Container, "eth0", |link| link.mtu = 9000);
    caller.add(&Tuning, &mut host).expect("ADD");
    assert_eq!(backup(&host), Some("{\n \"mtu\": 9000\n}"));
}

#[test]
fn a_record_that_makes_no_sense_keeps_nobody() {
    let mut host = machine();
    let before = host.state();
    let caller = caller(PROPERTIES);
    caller.add(&Tuning, &mut host).expect("ADD");
    let key = <crate::changes::Changes as cni_plugin::json_record::JsonRecord>::key(&caller.attachment(&Tuning));
    host.records.write(&key, "{");
    caller.add(&Tuning, &mut host).expect("ADD");
    host.records.write(&key, "[]");
    caller.del(&Tuning, &mut host).expect("DEL");
    assert_eq!(host.state(), before);
}

#[test]
fn gc_removes_what_was_written_down_about_attachments_of_the_network_that_are_not_valid() {
    let mut host = machine();
    let gone = caller(r#""mtu":1400"#);
    let kept = Caller { container: "c2".to_owned(), ..gone.clone() };
    let elsewhere = gone.with_config(&gone.config.replace(r#""n1""#, r#""n2""#));
    let elsewhere = Caller { container: "c3".to_owned(), ..elsewhere };
    for caller in [&gone, &kept, &elsewhere] {
        caller.add(&Tuning, &mut host).expect("ADD");
    }
    let valid = r#""cni.dev/valid-attachments":[{"containerID":"c2","ifname":"eth0"}]"#;
    caller(valid).gc(&Tuning, &mut host).expect("GC");
    let left: Vec<String> = host.state_files.keys().map(|path| path.display().to_string()).collect();
    assert_eq!(left, ["/run/cni/tuning/c2_eth0.json", "/run/cni/tuning/c3_eth0.json"]);
    assert_eq!(host.records.len(), 2);
}

/// A process that is killed takes nothing back.
#[test]
fn del_sets_back_what_an_add_did_that_was_killed_before_any_step() {
    for step in 1.. {
        let mut host = machine();
        let before = host.state();
        host.fail_at(step);
        let added = Tuning.add(&everything().request(&Tuning, "ADD"), &mut Journal::new(&mut host));
        if added.is_ok() {
            assert_eq!(step, 15);
            break;
        }
        caller("").del(&Tuning, &mut host).expect("DEL");
        assert_eq!(host.state(), before, "killed before step {step}");
    }
}
