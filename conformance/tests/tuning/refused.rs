//! Invalid values: one error that names the key and the value, and nothing is changed.

use cni_conformance::Verb::{Add, Check, Del};
use cni_conformance::cases::for_each;
use cni_conformance::state::assert_same;
use serde_json::{Value, json};

use crate::tuning::setup::Tuned;

const EVERYTHING: &str = "net.core.somaxconn";

/// Code, keys, and words of the error.
fn rows() -> Vec<(u64, Value, [&'static str; 2])> {
    let sysctl = |key: &str, value: &str| json!({"sysctl": {EVERYTHING: "500", key: value}, "mtu": 1400});
    vec![
        (7, json!({"mtu": -5}), ["mtu", "-5"]),
        (7, json!({"mtu": 4_294_967_296_i64}), ["mtu", "4294967296"]),
        (101, json!({"mtu": 70_000, "txQLen": 5}), ["MTU", "70000"]),
        (101, json!({"mtu": 10, "promisc": true}), ["MTU", "10"]),
        (7, json!({"txQLen": -1}), ["txQLen", "-1"]),
        (7, json!({"mac": "zz"}), ["mac", "zz"]),
        (7, json!({"runtimeConfig": {"mac": "zz"}}), ["runtimeConfig.mac", "zz"]),
        (7, json!({"args": {"cni": {"mac": "00:00:00:00:00:00"}}}), ["args.cni.mac", "00:00:00:00:00:00"]),
        (7, json!({"mac": "01:00:5e:00:00:01"}), ["mac", "01:00:5e:00:00:01"]),
        (7, json!({"mac": "02:00:00:00:00:00:00:0a"}), ["mac", "02:00:00:00:00:00:00:0a"]),
        (7, json!({"dataDir": "x", "mtu": 1400}), ["dataDir", "x"]),
        (7, sysctl("kernel.shmmax", "1"), ["invalid net sysctl key: \"kernel/shmmax\"", "net.core.somaxconn"]),
        (7, sysctl("net", "1"), ["invalid net sysctl key", "\"net\""]),
        (7, sysctl("", "1"), ["invalid net sysctl key", "\"\""]),
        (7, sysctl("net/core/somaxconn", "1"), ["duplicated sysctl keys are not allowed", "net/core/somaxconn"]),
        (101, sysctl("net.no.such", "1"), ["failed to write \"1\" to /proc/sys/net/no/such", "No such file"]),
        (
            101,
            sysctl("net.ipv4.conf.eth0.100.rp_filter", "1"),
            ["/proc/sys/net/ipv4/conf/eth0/100/rp_filter", "No such file"],
        ),
        (
            101,
            sysctl("net.ipv4.tcp_rmem", "many"),
            ["failed to write \"many\" to /proc/sys/net/ipv4/tcp_rmem", "Invalid argument"],
        ),
        (101, sysctl("net.ipv4", "1"), ["/proc/sys/net/ipv4", "directory"]),
        (6, json!({"sysctl": {EVERYTHING: 1}}), ["sysctl.net.core.somaxconn", "1"]),
        (6, json!({"sysctl": ["x"]}), ["sysctl", "an object of texts"]),
    ]
}

#[test]
fn each_value_is_named_with_its_key_and_nothing_is_changed() {
    for_each(rows().into_iter().map(|row| (row.1.to_string(), row)), |(code, keys, words)| {
        let tuned = Tuned::new();
        let (before, interface, parameter) = (tuned.state(), tuned.properties(), tuned.parameter("net/core/somaxconn"));
        let error = tuned.run(Add, &keys).error();
        let text = format!("{}: {}", error.msg, error.details);
        assert!(error.code == code && words.iter().all(|word| text.contains(word)), "{words:?} {code}: {error:?}");
        assert_same(&before, &tuned.state());
        assert_eq!((tuned.properties(), tuned.parameter("net/core/somaxconn")), (interface, parameter));
        tuned.succeeds(&[Del], &keys);
    });
}

/// The reference leaves what it did before the value that the kernel refuses, and its file.
#[test]
fn a_failed_add_takes_everything_back() {
    for keys in [
        json!({"mac": "02:00:00:00:00:0a", "promisc": true, "mtu": 10}),
        json!({"sysctl": {"net.ipv4.conf.IFNAME.rp_filter": "1"}, "mtu": 70_000}),
    ] {
        let tuned = Tuned::new();
        tuned.set_parameter("net/ipv4/conf/eth0/rp_filter", "2");
        let (before, interface) = (tuned.state(), tuned.properties());
        assert_eq!(tuned.run(Add, &keys).code(), Some(1), "{keys}");
        assert_eq!(tuned.properties(), interface, "{keys}");
        assert_same(&before, &tuned.state());
    }
}

/// The same text twice in the document, which no JSON library passes on.
#[test]
fn a_parameter_that_is_written_twice_is_refused() {
    let tuned = Tuned::new();
    let text = r#"{"net.core.somaxconn":"500","net.core.somaxconn":"600"}"#;
    for (place, end) in [("", ""), (r#""args":{"cni":{"#, "}}")] {
        let config = format!(
            r#"{{"cniVersion":"1.0.0","name":"n1","type":"tuning","prevResult":{{}},{place}"sysctl":{text}{end}}}"#
        );
        for verb in [Add, Check] {
            let outcome = tuned.call(verb, &json!({})).stdin(config.as_bytes()).run();
            outcome.expect_error(7, "duplicated sysctl keys are not allowed: \"net.core.somaxconn\"");
        }
    }
}

#[test]
fn an_interface_that_is_not_there_is_named() {
    let tuned = Tuned::new();
    let before = tuned.state();
    for keys in [json!({"mtu": 1400}), json!({"sysctl": {EVERYTHING: "500"}, "promisc": true})] {
        let outcome = tuned.call(Add, &keys).ifname("eth9").run();
        outcome.expect_error(101, "failed to get \"eth9\": Link not found");
        assert_same(&before, &tuned.state());
    }
}

#[test]
fn cni_args_that_cannot_be_read_fail_add_and_check_and_not_del() {
    let tuned = Tuned::new();
    let keys = json!({"mtu": 1400});
    tuned.succeeds(&[Add], &keys);
    for args in ["FOO", "K8S_POD_NAME=x", "MAC=zz", "IgnoreUnknown=maybe"] {
        for verb in [Add, Check] {
            let error = tuned.call(verb, &keys).args(args).run().error();
            assert!([4, 7].contains(&error.code), "{args}: {error:?}");
        }
    }
    tuned.call(Del, &keys).args("FOO").run().expect_success();
    assert_eq!(tuned.properties().mtu, 1500);
}

#[test]
fn without_the_result_of_the_plugins_before_add_and_check_are_refused() {
    let tuned = Tuned::new();
    let keys = json!({"mtu": 1400, "prevResult": null});
    for verb in [Add, Check] {
        tuned.run(verb, &keys).expect_error(7, "Required prevResult missing");
    }
    tuned.succeeds(&[Del], &keys);
}
