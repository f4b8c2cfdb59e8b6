//! The plugin with a daemon that is played: it holds leases, and gives every container the same address.

use std::collections::BTreeMap;

use super::*;
use cni_core::version::Version;
use cni_testkit::lifecycle::{assert_add_is_all_or_nothing, assert_del_removes_what_add_made};
use cni_testkit::{Caller, FakeContainer, FakeHost, error_parts};
use grant::{Grant, GrantedRoute};
use proptest::prelude::*;
use protocol::{DaemonAnswer, DaemonRefusal, Operation, Reason};

const CONFIG: &str = r#"{"cniVersion":"1.1.0","name":"lan","type":"macvlan","ipam":{"type":"dhcp"}}"#;

fn with(keys: &str) -> Caller {
    Caller::new("c1", &CONFIG.replace(r#""type":"dhcp""#, &format!(r#""type":"dhcp",{keys}"#)))
}

fn caller() -> Caller {
    Caller::new("c1", CONFIG)
}

fn grant() -> Grant {
    Grant {
        address: [10, 1, 2, 5].into(),
        prefix: 24,
        server: [10, 1, 2, 1].into(),
        seconds: Some(20),
        renewal: 10,
        rebinding: 17,
        routers: vec![[10, 1, 2, 1].into(), [10, 1, 2, 2].into()],
        routes: vec![GrantedRoute { to: [10, 9, 0, 0].into(), prefix: 16, router: [10, 1, 2, 9].into() }],
        is_classless: false,
        nameservers: vec![[192, 0, 2, 53].into()],
        domain: Some("example.org".to_owned()),
        search: vec!["a.example.org".to_owned()],
        mtu: Some(1400),
    }
}

/// A daemon as the real one, as far as the plugin sees it.
fn answering(held: &mut BTreeMap<String, String>, question: &str) -> String {
    let verb = match protocol::question(question.as_bytes()) {
        Ok(verb) => verb,
        Err(refusal) => return protocol::text(&DaemonAnswer::Refused(refusal)),
    };
    let answer = match verb {
        Operation::Add(request) => {
            held.insert(request.key.to_string(), "10.1.2.5".to_owned());
            DaemonAnswer::Leased(grant())
        }
        Operation::Check { request, address } => match (held.get(&request.key.to_string()), address) {
            (Some(own), Some(address)) if *own == address.to_string() => DaemonAnswer::Done,
            _ => DaemonAnswer::Refused(DaemonRefusal { about: Reason::Lease, text: "no such lease".to_owned() }),
        },
        Operation::Del { key } => {
            held.remove(&key.to_string());
            DaemonAnswer::Done
        }
        Operation::Gc { network, valid } => {
            let kept = |key: &String| valid.iter().any(|(id, ifname)| *key == format!("{id}/{network}/{ifname}"));
            held.retain(|key, _| !key.contains(&format!("/{network}/")) || kept(key));
            DaemonAnswer::Done
        }
        Operation::Status => DaemonAnswer::Done,
    };
    protocol::text(&answer)
}

fn machine() -> FakeHost {
    let mut host = FakeHost::new().with_container("/run/netns/c1", FakeContainer::Present(None));
    host.daemon.answering = Some(answering);
    host
}

fn requested(caller: &Caller) -> Vec<u8> {
    let mut host = machine();
    caller.add(&Dhcp, &mut host).expect("ADD");
    let Ok(Operation::Add(request)) = protocol::question(host.daemon.asked[0].as_bytes()) else { panic!("no ADD") };
    request.requested
}

#[test]
fn add_asks_the_daemon_and_tells_what_the_server_says() {
    let mut host = machine();
    let result = caller().add(&Dhcp, &mut host).expect("ADD").render(Version::LATEST).expect("text");
    let want = serde_json::json!({
        "cniVersion": "1.1.0",
        "ips": [{"address": "10.1.2.5/24", "gateway": "10.1.2.1"}],
        "routes": [
            {"dst": "10.9.0.0/16", "gw": "10.1.2.9", "mtu": 1400},
            {"dst": "0.0.0.0/0", "gw": "10.1.2.1", "mtu": 1400},
        ],
        "dns": {"nameservers": ["192.0.2.53"], "domain": "example.org", "search": ["a.example.org"]},
    });
    assert_eq!(serde_json::from_str::<serde_json::Value>(&result).expect("JSON"), want);
    let Ok(Operation::Add(request)) = protocol::question(host.daemon.asked[0].as_bytes()) else { panic!("no ADD") };
    assert_eq!((request.key.to_string(), request.netns), ("c1/lan/eth0".to_owned(), "/run/netns/c1".to_owned()));
}

#[test]
fn classless_routes_stand_for_all_and_a_router_of_nowhere_is_none() {
    let route = GrantedRoute { to: [169, 254, 169, 254].into(), prefix: 32, router: [0, 0, 0, 0].into() };
    let reported = answer::result(&Grant { routes: vec![route], is_classless: true, mtu: None, ..grant() }, 7);
    let routes = reported.routes;
    assert_eq!((routes.len(), routes[0].scope, routes[0].priority), (1, Some(253), 7));
    assert_eq!(routes[0].gw, Some("0.0.0.0".parse().expect("an address")));
}

#[test]
fn what_is_asked_of_servers_is_what_the_configuration_says_and_what_the_result_tells() {
    for (keys, want) in [
        (r#""request":null"#, vec![3, 1, 6, 15, 26, 119]),
        (r#""request":[{"option":"121"}]"#, vec![121, 3, 1, 6, 15, 26, 119]),
        (r#""request":[{"option":"6"},{"option":"subnet-mask"}]"#, vec![6, 1, 3, 15, 26, 119]),
        (r#""request":[{"skipDefault":true}]"#, vec![1, 3, 15, 6]),
        (r#""request":[{"option":"42","skipDefault":true}]"#, vec![42]),
    ] {
        assert_eq!(requested(&with(keys)), want, "{keys}");
    }
}

#[test]
fn options_are_sent_with_values_of_the_configuration_or_of_the_arguments() {
    let keys = r#""provide":[{"option":"host-name","value":"web","fromArg":"NAME"},{"option":"60","fromArg":"GONE"},
        {"option":"user-class","value":"k"}]"#;
    let sent = |caller: &Caller| {
        let mut host = machine();
        caller.add(&Dhcp, &mut host).expect("ADD");
        let Ok(Operation::Add(request)) = protocol::question(host.daemon.asked[0].as_bytes()) else { panic!("no ADD") };
        request.provided
    };
    assert_eq!(sent(&with(keys)), [(12, b"web".to_vec()), (77, b"k".to_vec())]);
    let args = "junk;NAME=a=b;IgnoreUnknown=1";
    assert_eq!(sent(&with(keys).with_args(args)), [(12, b"a=b".to_vec()), (77, b"k".to_vec())]);
}

#[test]
fn what_cannot_be_used_is_refused_before_the_daemon_is_asked() {
    let long = "x".repeat(256);
    for (caller, text) in [
        (
            caller().with_config(r#"{"cniVersion":"1.1.0","name":"lan","type":"dhcp"}"#),
            "IPAM config missing 'ipam' key",
        ),
        (with(r#""daemonSocketPath":"x.sock""#), r#"invalid daemonSocketPath "x.sock" (must be an absolute path)"#),
        (with(r#""request":[{"option":"ntp-servers"}]"#), r#"Can not parse option "ntp-servers": "#),
        (with(r#""provide":[{"option":"255","value":"x"}]"#), r#"Can not parse option "255": "#),
        (with(r#""provide":[{"option":"+6","value":"x"}]"#), r#"Can not parse option "+6": "#),
        (with(r#""provide":[{"option":"0","value":"x"}]"#), r#"Can not parse option "0": "#),
        (with(&format!(r#""provide":[{{"option":"12","value":"{long}"}}]"#)), r#"value too long for option "12": "xx"#),
        (
            with(r#""provide":[{"option":"12","fromArg":"KEY"}]"#).with_args(&format!("KEY={long}")),
            r#"value too long for option "12" from CNI_ARGS "KEY": "xx"#,
        ),
    ] {
        let mut host = machine();
        let (code, said, _) = error_parts(caller.add(&Dhcp, &mut host).expect_err("refused"));
        assert!(code == 7 && said.starts_with(text), "{code} {said}");
        assert_eq!(host.daemon.asked, [""; 0]);
    }
}

#[test]
fn a_failure_at_any_step_leaves_nothing() {
    assert_eq!(assert_add_is_all_or_nothing(&Dhcp, machine, &caller()), 1);
}

#[test]
fn del_removes_what_add_made() {
    assert_del_removes_what_add_made(&Dhcp, &mut machine(), &caller());
}

#[test]
fn del_needs_neither_namespace_nor_a_configuration_that_can_be_used() {
    let broken = with(r#""provide":[{"option":"zz"}]"#);
    for caller in [broken, caller().with_args("no pair")] {
        let mut host = machine();
        self::caller().add(&Dhcp, &mut host).expect("ADD");
        host.set_container("/run/netns/c1", FakeContainer::Gone);
        caller.del(&Dhcp, &mut host).expect("DEL");
        assert_eq!(host.daemon.held.len(), 0);
    }
}

/// The reference fails, and the plugin that has asked it keeps the interface.
#[test]
fn without_a_daemon_del_and_gc_succeed_and_the_record_goes() {
    let mut host = machine();
    host.daemon.answering = None;
    caller().del(&Dhcp, &mut host).expect("DEL");
    let name =
        key::LeaseKey { container: "c1".to_owned(), network: "lan".to_owned(), ifname: "eth0".to_owned() }.file_name();
    host.state_files.insert(format!("/run/cni/dhcp/{name}").into(), "a lease".to_owned());
    caller().del(&Dhcp, &mut host).expect("DEL");
    assert_eq!(host.state_files.len(), 0);
    with(r#""cni.dev/valid-attachments":[]"#).gc(&Dhcp, &mut host).expect("GC");
}

#[test]
fn without_a_daemon_add_check_and_status_say_so() {
    let mut host = machine();
    let caller = caller().after_add(&Dhcp, &mut host);
    host.daemon.answering = None;
    let says = "error dialing DHCP daemon: no daemon answers at /run/cni/dhcp.sock";
    for (error, code) in [
        (caller.add(&Dhcp, &mut host).map(drop), 104),
        (caller.check(&Dhcp, &mut host), 104),
        (caller.status(&Dhcp, &mut host), 50),
    ] {
        let (number, text, details) = error_parts(error.expect_err("no daemon"));
        assert_eq!((number, text.as_str()), (code, says));
        assert!(details.contains("start it by \"dhcp daemon\""), "{details}");
    }
}

#[test]
fn check_asks_for_the_address_of_the_result() {
    let mut host = machine();
    let caller = caller().after_add(&Dhcp, &mut host);
    caller.check(&Dhcp, &mut host).expect("CHECK");
    host.daemon.held.insert("c1/lan/eth0".to_owned(), "10.1.2.6".to_owned());
    let (code, text, _) = error_parts(caller.check(&Dhcp, &mut host).expect_err("another address"));
    assert_eq!((code, text.as_str()), (100, "error calling DHCP daemon: no such lease"));
}

#[test]
fn gc_releases_what_the_list_does_not_have() {
    let mut host = machine();
    caller().add(&Dhcp, &mut host).expect("ADD");
    let list = |entries: &str| {
        caller()
            .with_config(&CONFIG.replace(r#""ipam""#, &format!(r#""cni.dev/valid-attachments":[{entries}],"ipam""#)))
    };
    list(r#"{"containerID":"c1","ifname":"eth0"}"#).gc(&Dhcp, &mut host).expect("GC");
    assert_eq!(host.daemon.held.len(), 1);
    list("").gc(&Dhcp, &mut host).expect("GC");
    assert_eq!(host.daemon.held.len(), 0);
}

proptest! {
    /// Whatever the keys say, ADD refuses one by its name and asks nobody, or leases an address that passes CHECK; DEL
    /// leaves what was there before.
    #[test]
    fn any_configuration_leases_an_address_that_del_releases_or_is_refused(
        option in prop_oneof!["[0-9]{1,3}", Just("host-name".to_owned()), "[a-z-]{1,9}"],
        value in "[a-z]{0,300}", skip: bool, priority: i64,
    ) {
        let keys = format!(
            r#""provide":[{{"option":"{option}","value":"{value}"}}],"request":[{{"skipDefault":{skip}}}],"priority":{priority}"#
        );
        let mut host = machine();
        let before = host.state();
        match with(&keys).add(&Dhcp, &mut host) {
            Ok(result) => prop_assert!(result.routes.iter().all(|route| route.priority == priority)),
            Err(error) => {
                prop_assert!(error.code().number() == 7 && error.to_string().contains("option"), "{}", error);
                prop_assert_eq!(host.daemon.asked.len(), 0);
            }
        }
        with(&keys).del(&Dhcp, &mut host).expect("DEL");
        prop_assert_eq!(host.state(), before);
    }
}
