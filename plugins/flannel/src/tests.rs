//! Every command, on a host in memory whose delegates give the answers that a test sets.

use super::*;
use cni_core::error::Code;
use cni_core::names::IfName;
use cni_core::request::Command;
use cni_model::link::Link;
use cni_model::plan::Ns;
use cni_plugin::attachment_record::AttachmentRecord;
use cni_plugin::host::Host;
use cni_plugin::namespace::{RecordedLink, RecordedNamespace};
use cni_testkit::lifecycle::{assert_add_is_all_or_nothing, assert_del_removes_what_add_made};
use cni_testkit::{Caller, FakeContainer, FakeHost, error_parts};

const CONFIG: &str = r#"{"cniVersion":"1.1.0","name":"cbr0","type":"flannel","delegate":{"isDefaultGateway":true}}"#;
const LEASE: &str =
    "FLANNEL_NETWORK=10.42.0.0/16\nFLANNEL_SUBNET=10.42.1.1/24\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=true\n";
const ANSWER: &str = r#"{"cniVersion":"1.1.0","interfaces":[{"name":"eth0","sandbox":"/run/netns/c1"}],
    "ips":[{"interface":0,"address":"10.42.1.5/24","gateway":"10.42.1.1"}],"dns":{"domain":"delegate"}}"#;
const FILE: &str = "/var/lib/cni/flannel/c1";
const COMPOSED: &str = r#"{"cniVersion":"1.1.0","ipMasq":false,"ipam":{"ranges":[[{"subnet":"10.42.1.0/24"}]],"routes":[{"dst":"10.42.0.0/16"}],"type":"host-local"},"isDefaultGateway":true,"isGateway":true,"mtu":1450,"name":"cbr0","type":"bridge"}"#;

fn caller() -> Caller {
    Caller::new("c1", CONFIG)
}

fn machine() -> FakeHost {
    let mut host = FakeHost::new().with_container("/run/netns/c1", FakeContainer::Present(None)).with_ipam(ANSWER);
    set_lease(&mut host, Some(LEASE));
    host
}

fn set_lease(host: &mut FakeHost, lease: Option<&str>) {
    match lease {
        Some(lease) => drop(host.administrators_files.insert(SUBNET_FILE.into(), lease.to_owned())),
        None => drop(host.administrators_files.remove(SUBNET_FILE.as_ref() as &std::path::Path)),
    }
}

/// The caller with a further key in its configuration.
fn with_key(key: &str) -> Caller {
    caller().with_config(&CONFIG.replace(r#""type":"flannel""#, &format!(r#""type":"flannel",{key}"#)))
}

fn with_result() -> Caller {
    with_key(&format!(r#""prevResult":{ANSWER}"#))
}

fn files(host: &FakeHost) -> Vec<String> {
    host.state_files.keys().map(|path| path.display().to_string()).collect()
}

fn last_input(host: &FakeHost) -> &str {
    host.inputs().last().expect("a call")
}

#[test]
fn add_saves_the_configuration_and_calls_the_delegate() {
    let mut host = machine();
    let result = caller().add(&Flannel, &mut host).expect("ADD");
    assert_eq!(host.applied(), [format!("host: write {FILE} {COMPOSED:?}"), "delegate ADD to bridge".to_owned()]);
    assert_eq!(host.state_files[FILE.as_ref() as &std::path::Path], COMPOSED);
    assert_eq!(last_input(&host), format!("bridge ADD {COMPOSED}"));
    assert_eq!((result.ips.len(), result.dns.domain.as_str()), (1, "delegate"));
}

#[test]
fn a_failure_at_any_step_leaves_nothing() {
    assert_eq!(assert_add_is_all_or_nothing(&Flannel, machine, &caller()), 2);
}

#[test]
fn del_removes_what_add_made() {
    assert_del_removes_what_add_made(&Flannel, &mut machine(), &caller());
}

#[test]
fn a_delegate_that_fails_is_called_with_del_before_the_file_is_removed() {
    let mut host = machine();
    host.fail_delegate_with(Command::Add, Code::TryAgain);
    let error = caller().add(&Flannel, &mut host).expect_err("fails");
    assert_eq!((error.code().number(), error.to_string()), (11, "bridge has failed".to_owned()));
    assert_eq!(host.delegated(), ["bridge ADD", "bridge DEL"]);
    assert_eq!(last_input(&host), format!("bridge DEL {COMPOSED}"));
    assert_eq!(files(&host), [""; 0]);
}

/// A plugin of others may fail ADD and DEL, and flanneld may have ended by the time of the next DEL.
#[test]
fn what_the_delegate_was_called_with_is_kept_until_a_del_succeeds() {
    for is_bridge in [true, false] {
        let caller = if is_bridge {
            caller()
        } else {
            caller().with_config(&CONFIG.replace("isDefaultGateway", "x").replace("true", r#"1,"type":"foreign""#))
        };
        let mut host = machine().with_ipam("no result");
        host.fail_delegate(Some(Command::Del));
        caller.add(&Flannel, &mut host).expect_err("ADD and the DEL after it fail");
        let given = last_input(&host).to_owned();
        assert_eq!(files(&host), [FILE], "{given}");
        set_lease(&mut host, None);
        host.fail_delegate(None);
        caller.del(&Flannel, &mut host).expect("DEL");
        assert_eq!((last_input(&host), files(&host)), (given.as_str(), Vec::new()));
        let calls = host.inputs().len();
        caller.del(&Flannel, &mut host).expect("DEL again");
        assert_eq!(host.inputs().len(), calls + usize::from(is_bridge), "others are not called with what is made up");
    }
}

#[test]
fn a_repeated_add_that_fails_leaves_the_container_alone() {
    let mut host = machine();
    caller().add(&Flannel, &mut host).expect("ADD");
    host.fail_delegate(Some(Command::Add));
    caller().add(&Flannel, &mut host).expect_err("the interface is there");
    assert_eq!(host.delegated(), ["bridge ADD", "bridge ADD"]);
    assert_eq!(files(&host), [FILE]);
}

#[test]
fn an_invalid_result_of_the_delegate_is_rolled_back() {
    for (answer, message) in [
        ("", "failed to unmarshal raw result of bridge"),
        (r#"{"cniVersion":"9.9.9"}"#, "bridge returned an invalid result"),
    ] {
        let mut host = machine().with_ipam(answer);
        let error = caller().add(&Flannel, &mut host).expect_err("no result");
        assert_eq!((error.code().number(), error.to_string().as_str()), (6, message));
        assert_eq!((host.delegated().len(), files(&host).len()), (2, 0));
    }
}

#[test]
fn without_a_lease_nothing_is_done_and_add_may_be_repeated() {
    let mut host = machine();
    set_lease(&mut host, None);
    let (code, message, details) = error_parts(caller().add(&Flannel, &mut host).expect_err("no lease"));
    assert_eq!(code, 11);
    assert_eq!(
        message,
        "failed to load flannel 'subnet.env' file: open /run/flannel/subnet.env: no such file or directory. \
         Check the flannel pod log for this node."
    );
    assert_eq!(details, "flanneld has not written the lease of this host yet");
    assert_eq!((host.applied(), host.delegated()), (&[][..], &[][..]));
    let status = caller().status(&Flannel, &mut host).expect_err("not ready");
    assert_eq!((status.code().number(), status.to_string()), (50, message));
    set_lease(&mut host, Some("FLANNEL_MTU=x"));
    assert_eq!(caller().status(&Flannel, &mut host).expect_err("not ready").code().number(), 50);
    set_lease(&mut host, Some(LEASE));
    caller().status(&Flannel, &mut host).expect("ready");
    assert_eq!(host.delegated(), ["bridge STATUS"]);
}

#[test]
fn del_needs_neither_lease_nor_keys_nor_the_same_delegate() {
    let mut host = machine();
    caller().add(&Flannel, &mut host).expect("ADD");
    set_lease(&mut host, None);
    let config = r#"{"cniVersion":"1.1.0","name":"cbr0","type":"flannel","delegate":1,"runtimeConfig":{"mac":"x"}}"#;
    caller().with_config(config).del(&Flannel, &mut host).expect("DEL");
    assert_eq!(last_input(&host), format!("bridge DEL {COMPOSED}"));
    assert_eq!(files(&host), [""; 0]);
}

#[test]
fn a_del_that_fails_keeps_the_file_for_the_next() {
    let mut host = machine();
    caller().add(&Flannel, &mut host).expect("ADD");
    host.fail_delegate(Some(Command::Del));
    caller().del(&Flannel, &mut host).expect_err("fails");
    assert_eq!(files(&host), [FILE]);
    host.fail_delegate(None);
    caller().del(&Flannel, &mut host).expect("DEL");
    assert_eq!(files(&host), [""; 0]);
}

#[test]
fn a_file_that_is_lost_or_torn_is_composed_again_for_del() {
    for torn in [None, Some(""), Some(&COMPOSED[..COMPOSED.len() / 2])] {
        let mut host = machine();
        host.state_files.extend(torn.map(|torn| (FILE.into(), torn.to_owned())));
        caller().del(&Flannel, &mut host).expect("DEL");
        assert_eq!(last_input(&host), format!("bridge DEL {COMPOSED}"), "{torn:?}");
        assert_eq!(files(&host), [""; 0]);
    }
}

#[test]
fn without_file_and_lease_the_addresses_of_add_are_enough() {
    let mut host = machine();
    set_lease(&mut host, None);
    with_result().del(&Flannel, &mut host).expect("DEL");
    assert!(last_input(&host).contains(r#""ranges":[[{"subnet":"10.42.1.0/24"}]]"#), "{}", last_input(&host));
    host.fail_delegate(Some(Command::Del));
    with_result().del(&Flannel, &mut host).expect_err("the delegate has failed");
    caller().del(&Flannel, &mut host).expect("nothing is known, so there may be nothing");
    assert_eq!(
        last_input(&host),
        r#"bridge DEL {"cniVersion":"1.1.0","ipam":{"type":"host-local"},"isDefaultGateway":true,"isGateway":true,"name":"cbr0","type":"bridge"}"#
    );
    let refused = caller().with_config(&CONFIG.replace(r#"{"isDefaultGateway":true}"#, r#"{"type":1}"#));
    let calls = host.inputs().len();
    refused.del(&Flannel, &mut host).expect("no ADD can have succeeded");
    assert_eq!(host.inputs().len(), calls);
}

/// Who asks after ADD, such as a repair, gets what the delegate was called with, or nothing: a guess could be wrong about the
/// masquerade.
#[test]
fn the_delegate_is_known_by_the_file_or_else_by_the_lease() {
    let other = LEASE.replace("10.42.1.1", "10.42.7.1").replace("IPMASQ=true", "IPMASQ=false");
    for (file, lease, known) in [
        (Some(COMPOSED), Some(other.as_str()), Some(COMPOSED)),
        (Some(COMPOSED), None, Some(COMPOSED)),
        (None, Some(LEASE), Some(COMPOSED)),
        (Some(&COMPOSED[1..]), Some(LEASE), Some(COMPOSED)),
        (None, None, None),
    ] {
        let mut host = machine();
        set_lease(&mut host, lease);
        host.state_files.extend(file.map(|text| (FILE.into(), text.to_owned())));
        let request = with_result().request(&Flannel, "DEL");
        let found = delegate_of(&request, &mut host).expect("can be told").map(|composed| composed.text());
        assert_eq!(found.as_deref(), known, "{file:?} {lease:?}");
        assert_eq!((host.applied().len(), host.delegated().len()), (0, 0));
    }
}

#[test]
fn a_file_that_cannot_be_read_fails_del() {
    let mut host = machine();
    caller().add(&Flannel, &mut host).expect("ADD");
    host.unreadable.insert(FILE.to_owned());
    let error = caller().del(&Flannel, &mut host).expect_err("fails");
    assert_eq!(error.to_string(), format!("failed to read {FILE}"));
}

/// Records an attachment, as the skeleton does around ADD, with an interface that is there.
fn record(caller: &Caller, host: &mut FakeHost) {
    let namespace = RecordedNamespace { identity: "boot:0".to_owned(), number: None, path: caller.netns.clone() };
    let link = RecordedLink { index: 2, kind: "veth".to_owned(), mac: "0a:58:0a:01:02:03".to_owned(), parent: None };
    let (at, maker) = (caller.attachment(&Flannel), "flannel".to_owned());
    let record = AttachmentRecord { at, maker, namespace, link: Some(link), is_again: false };
    host.apply(&record.write()).expect("recorded");
}

#[test]
fn each_interface_of_a_container_has_its_own_file() {
    let mut host = machine();
    let second = Caller { ifname: "eth1".to_owned(), ..caller() };
    for caller in [&caller(), &second] {
        caller.add(&Flannel, &mut host).expect("ADD");
        record(caller, &mut host);
    }
    assert_eq!(files(&host), [FILE.to_owned(), format!("{FILE}@eth1")]);
    second.add(&Flannel, &mut host).expect("repeated");
    caller().add(&Flannel, &mut host).expect("repeated");
    assert_eq!(files(&host), [FILE.to_owned(), format!("{FILE}@eth1")]);
    second.del(&Flannel, &mut host).expect("DEL");
    assert_eq!(files(&host), [FILE]);
    second.del(&Flannel, &mut host).expect("DEL again");
    assert_eq!(files(&host), [FILE], "it is that of eth0");
    host.apply(&AttachmentRecord::remove(&second.attachment(&Flannel))).expect("as the skeleton does after DEL");
    caller().del(&Flannel, &mut host).expect("DEL");
    assert_eq!(files(&host), [""; 0]);
}

/// After a reboot, and after an ADD of the reference. The reference records nothing, but its interface is there.
#[test]
fn the_state_of_the_same_attachment_is_replaced_and_that_of_another_interface_stays() {
    let old = COMPOSED.replace("10.42.1.0", "10.42.9.0");
    for (present, up, is_replaced) in [("eth0", true, true), ("tunl0", false, true), ("eth9", true, false)] {
        let mut host = machine();
        host.state_files.insert(FILE.into(), old.clone());
        host.enter("/run/netns/c1").expect("entered");
        host.add_link(Ns::Container, Link { name: present.to_owned(), up, ..Link::default() });
        caller().add(&Flannel, &mut host).expect("ADD");
        let both = [FILE.to_owned(), format!("{FILE}@eth0")];
        assert_eq!(files(&host), both[..if is_replaced { 1 } else { 2 }], "{present}");
        caller().del(&Flannel, &mut host).expect("DEL");
        assert_eq!(last_input(&host), format!("bridge DEL {COMPOSED}"), "{present}");
        let left = host.state_files.values().collect::<Vec<_>>();
        assert_eq!(left, if is_replaced { vec![] } else { vec![&old] }, "{present}");
    }
}

#[test]
fn another_network_with_the_same_directory_has_its_own_file() {
    let mut host = machine();
    let other = Caller { ifname: "eth1".to_owned(), ..caller().with_config(&CONFIG.replace("cbr0", "other")) };
    caller().add(&Flannel, &mut host).expect("ADD");
    other.add(&Flannel, &mut host).expect("ADD");
    assert_eq!(files(&host), [FILE.to_owned(), format!("{FILE}@eth1")]);
    caller().del(&Flannel, &mut host).expect("DEL");
    other.del(&Flannel, &mut host).expect("DEL");
    assert_eq!(files(&host), [""; 0]);
    assert!(last_input(&host).contains(r#""name":"other""#));
}

#[test]
fn a_file_of_another_network_is_neither_used_nor_removed() {
    let mut host = machine();
    host.state_files.insert(FILE.into(), COMPOSED.replace("cbr0", "other"));
    caller().del(&Flannel, &mut host).expect("DEL");
    assert_eq!(last_input(&host), format!("bridge DEL {COMPOSED}"));
    assert_eq!(files(&host), [FILE]);
}

#[test]
fn check_asks_the_delegate_with_the_result_and_finds_a_lease_that_has_changed() {
    let mut host = machine();
    caller().add(&Flannel, &mut host).expect("ADD");
    with_result().check(&Flannel, &mut host).expect("CHECK");
    let input = last_input(&host);
    assert!(input.starts_with("bridge CHECK {") && input.contains(r#""prevResult":{"cniVersion":"1.1.0""#), "{input}");
    set_lease(&mut host, None);
    with_result().check(&Flannel, &mut host).expect("the lease may be missing while the container runs");
    set_lease(&mut host, Some(&LEASE.replace("10.42.1.1", "10.42.7.1")));
    let (code, message, _) = error_parts(with_result().check(&Flannel, &mut host).expect_err("another lease"));
    let text = "10.42.1.5 is not in the lease of this host any more; /run/flannel/subnet.env has 10.42.7.0/24";
    assert_eq!((code, message.as_str()), (100, text));
    set_lease(&mut host, Some(LEASE));
    host.fail_delegate(Some(Command::Check));
    assert_eq!(with_result().check(&Flannel, &mut host).expect_err("fails").to_string(), "bridge has failed");
}

#[test]
fn check_without_file_needs_the_lease() {
    let mut host = machine();
    with_result().check(&Flannel, &mut host).expect("composed from the lease");
    set_lease(&mut host, None);
    let (code, message, _) = error_parts(with_result().check(&Flannel, &mut host).expect_err("nothing is known"));
    let text = "/var/lib/cni/flannel has no state of the container, and /run/flannel/subnet.env no lease";
    assert_eq!((code, message.as_str()), (100, text));
}

#[test]
fn gc_has_the_delegate_collect_and_removes_files_of_this_network() {
    let mut host = machine();
    for (name, text) in [
        ("c1", COMPOSED.to_owned()),
        ("c1@eth1", COMPOSED.to_owned()),
        ("c2", COMPOSED.to_owned()),
        ("c3", COMPOSED.replace("cbr0", "other")),
        ("c4", "torn".to_owned()),
    ] {
        host.state_files.insert(format!("/var/lib/cni/flannel/{name}").into(), text);
    }
    let list = r#""cni.dev/valid-attachments":[{"containerID":"c1","ifname":"eth0"}]"#;
    host.fail_delegate(Some(Command::Gc));
    with_key(list).gc(&Flannel, &mut host).expect_err("the delegate fails");
    assert_eq!(files(&host).len(), 5);
    host.fail_delegate(None);
    with_key(list).gc(&Flannel, &mut host).expect("GC");
    assert!(last_input(&host).contains(list), "{}", last_input(&host));
    assert_eq!(files(&host), ["c1", "c3", "c4"].map(|name| format!("/var/lib/cni/flannel/{name}")));
}

#[test]
fn a_name_that_no_file_can_have_is_hashed() {
    let mut host = machine().with_container("/run/netns/long", FakeContainer::Present(None));
    let long = Caller { container: "c".repeat(300), netns: "/run/netns/long".to_owned(), ..caller() };
    long.add(&Flannel, &mut host).expect("ADD");
    assert!(files(&host)[0].len() < 200, "{:?}", files(&host));
    long.del(&Flannel, &mut host).expect("DEL");
    assert_eq!(files(&host), [""; 0]);
    assert!(IfName::parse("eth0@x").is_ok(), "an @ in the name of an interface is behind that of the id");
}
