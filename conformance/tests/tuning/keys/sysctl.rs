//! `sysctl`: which parameters a name means, in which order they are written, and what DEL makes of them.

use cni_conformance::Verb::{Add, Check, Del};
use cni_conformance::{Sandbox, Verb};
use serde_json::json;

use crate::tuning::setup::{BACKUP, FIRST_MAC, Tuned, file};

const SOMAXCONN: &str = "net/core/somaxconn";

#[test]
fn every_spelling_of_a_name_means_the_same_parameter() {
    for key in [
        "net.ipv4.conf.IFNAME.rp_filter",
        "net/ipv4/conf/IFNAME/rp_filter",
        "/net/ipv4/conf/IFNAME/rp_filter",
        "net.ipv4/conf.eth0.rp_filter",
    ] {
        let tuned = Tuned::new();
        let keys = json!({"sysctl": {key: "1"}});
        tuned.set_parameter("net/ipv4/conf/eth0/rp_filter", "2");
        tuned.succeeds(&[Add, Check], &keys);
        assert_eq!(tuned.parameter("net/ipv4/conf/eth0/rp_filter"), "1", "{key}");
        tuned.succeeds(&[Del], &keys);
        assert_eq!(tuned.parameter("net/ipv4/conf/eth0/rp_filter"), "2", "{key}");
    }
}

#[test]
fn an_interface_may_have_dots_in_its_name() {
    let tuned = Tuned::new();
    tuned.add_interface("eth0.100", "host1", Some(FIRST_MAC));
    tuned.set_parameter("net/ipv4/conf/eth0/rp_filter", "2");
    for key in ["net.ipv4.conf.IFNAME.rp_filter", "net/ipv4/conf/IFNAME/rp_filter"] {
        let keys = json!({"sysctl": {key: "1"}});
        for verb in [Add, Check] {
            tuned.call(verb, &keys).ifname("eth0.100").run().expect_success();
        }
        assert_eq!(tuned.parameter("net/ipv4/conf/eth0.100/rp_filter"), "1");
        tuned.set_parameter("net/ipv4/conf/eth0/rp_filter", "2");
        tuned.call(Del, &keys).ifname("eth0.100").run().expect_success();
    }
}

#[test]
fn parameters_of_args_come_to_those_of_the_configuration() {
    let tuned = Tuned::new();
    let own = json!({"net.core.somaxconn": "500", "net.ipv4.conf.IFNAME.rp_filter": "1"});
    let args = json!({"net/core/somaxconn": "600", "net.ipv4.conf.IFNAME.arp_filter": "1"});
    let both = json!({"sysctl": own, "args": {"cni": {"sysctl": args}}});
    tuned.succeeds(&[Add, Check], &both);
    let conf = |parameter: &str| tuned.parameter(&format!("net/ipv4/conf/eth0/{parameter}"));
    assert_eq!([tuned.parameter(SOMAXCONN), conf("rp_filter"), conf("arp_filter")], ["600", "1", "1"]);
    tuned.succeeds(&[Del], &both);
}

/// The reference crashes where the configuration itself has no `sysctl`.
#[test]
fn parameters_of_args_need_none_in_the_configuration() {
    let tuned = Tuned::new();
    tuned.succeeds(&[Add, Check], &json!({"args": {"cni": {"sysctl": {"net.core.somaxconn": "600"}}}}));
    assert_eq!(tuned.parameter(SOMAXCONN), "600");
}

/// The reference writes them in another order each time.
#[test]
fn parameters_are_written_in_the_order_of_the_document() {
    for _ in 0..12 {
        let tuned = Tuned::new();
        let text = r#"{"net.ipv4.conf.all.forwarding":"1","net.ipv4.conf.IFNAME.forwarding":"0"}"#;
        let config =
            format!(r#"{{"cniVersion":"1.0.0","name":"n1","type":"tuning","prevResult":{{}},"sysctl":{text}}}"#);
        tuned.call(Add, &json!({})).stdin(config.as_bytes()).run().expect_success();
        assert_eq!(tuned.parameter("net/ipv4/conf/eth0/forwarding"), "0");
        assert_eq!(tuned.parameter("net/ipv4/conf/lo/forwarding"), "1");
    }
}

/// The reference leaves them: the next network of a container that goes on finds them so.
#[test]
fn del_sets_parameters_back_unless_somebody_has_changed_them_since() {
    let tuned = Tuned::new();
    let keys = json!({"sysctl": {"net.core.somaxconn": "500", "net.ipv4.tcp_rmem": "4096 100000 200000"}});
    let paths = [SOMAXCONN, "net/ipv4/tcp_rmem"];
    let before = paths.map(|path| tuned.parameter(path));
    tuned.succeeds(&[Add], &keys);
    assert_eq!(paths.map(|path| tuned.parameter(path)), ["500", "4096\t100000\t200000"]);
    tuned.succeeds(&[Del, Del], &keys);
    assert_eq!(paths.map(|path| tuned.parameter(path)), before);
    tuned.succeeds(&[Add], &keys);
    tuned.set_parameter(SOMAXCONN, "777");
    tuned.succeeds(&[Del], &keys);
    assert_eq!(paths.map(|path| tuned.parameter(path)), ["777".to_owned(), before[1].clone()]);
}

#[test]
fn a_parameter_that_two_interfaces_set_stays_until_both_are_gone() {
    let tuned = Tuned::new();
    tuned.add_interface("net1", "host1", Some(FIRST_MAC));
    let keys = json!({"sysctl": {"net.core.somaxconn": "500"}});
    for name in ["eth0", "net1"] {
        tuned.call(Add, &keys).ifname(name).run().expect_success();
    }
    tuned.call(Del, &keys).run().expect_success();
    tuned.call(Check, &keys).ifname("net1").run().expect_success();
    tuned.call(Del, &keys).ifname("net1").run().expect_success();
}

/// The second one finds what the first has set, and both go in either order.
#[test]
fn the_last_of_two_interfaces_sets_a_parameter_back() {
    let tuned = Tuned::new();
    tuned.add_interface("net1", "host1", Some(FIRST_MAC));
    let before = tuned.parameter(SOMAXCONN);
    for (values, order) in [
        (["500", "600"], ["eth0", "net1"]),
        (["500", "600"], ["net1", "eth0"]),
        (["500", "500"], ["eth0", "net1"]),
        (["500", "500"], ["net1", "eth0"]),
    ] {
        let call = |verb: Verb, name: &str| {
            let value = values[usize::from(name == "net1")];
            tuned.call(verb, &json!({"sysctl": {"net.core.somaxconn": value}})).ifname(name).run().expect_success();
        };
        let [goes, stays] = order;
        call(Add, "eth0");
        call(Add, "net1");
        call(Del, goes);
        call(Check, stays);
        call(Del, stays);
        assert_eq!(tuned.parameter(SOMAXCONN), before, "{values:?} {order:?}");
    }
}

/// No file of the reference's, since its format has no place for parameters.
#[test]
fn parameters_alone_leave_no_file_of_the_references() {
    let tuned = Tuned::new();
    let before = tuned.state();
    let keys = json!({"sysctl": {"net.core.somaxconn": "500"}});
    tuned.succeeds(&[Add], &keys);
    assert_eq!(file(BACKUP), None);
    tuned.succeeds(&[Del], &keys);
    cni_conformance::state::assert_same(&before, &tuned.state());
}

/// `route/flush` cannot be read, and has no value to restore or compare.
#[test]
fn a_parameter_that_can_only_be_written_is_written() {
    let tuned = Tuned::new();
    let verbs: [Verb; 3] = [Add, Check, Del];
    tuned.succeeds(&verbs, &json!({"sysctl": {"net.ipv4.route.flush": "1"}}));
}

/// As with the reference; a `null` is as good as absent.
#[test]
fn an_empty_value_changes_nothing() {
    let tuned = Tuned::new();
    let before = tuned.parameter(SOMAXCONN);
    tuned.succeeds(&[Add, Check], &json!({"sysctl": {"net.core.somaxconn": "", "net.ipv4.ip_forward": null}}));
    assert_eq!(tuned.parameter(SOMAXCONN), before);
}

/// Two networks of one sandbox never meet: parameters are those of the container, and not of the host.
#[test]
fn the_host_keeps_its_own_parameters() {
    let tuned = Tuned::new();
    let sandbox: &Sandbox = &tuned.sandbox;
    let before = sandbox.sysctl("net/ipv4/ip_forward");
    tuned.succeeds(&[Add], &json!({"sysctl": {"net.ipv4.ip_forward": "1"}}));
    assert_eq!(
        (sandbox.sysctl("net/ipv4/ip_forward"), tuned.parameter("net/ipv4/ip_forward")),
        (before, "1".to_owned())
    );
}
