//! `CNI_ARGS`: `key=value` pairs between semicolons, read by bridge and host-local.
//!
//! Bridge hands the variable on to its IPAM plugin, so each accepts the other's key; with Go, `MAC`
//! beside host-local or `IP` below bridge needs `IgnoreUnknown`. Nor does Go take a second `=` in a
//! value that it is told to ignore, which Nomad sends, and its DEL fails on what it cannot read.

use cni_conformance::{Invocation, Network, Sandbox, State, Verb, state};
use serde_json::{Value, json};

use crate::protocol::{LEASES, call, config, with};

const READERS: [&str; 2] = ["bridge", "host-local"];

const DEAF: [&str; 3] = ["loopback", "firewall", "portmap"];

/// What is refused, and the reference's text for it.
const BAD: [(&str, &str); 14] = [
    ("FOO", "ARGS: invalid pair \"FOO\""),
    ("IP=10.88.0.9;", "ARGS: invalid pair \"\""),
    (";", "ARGS: invalid pair \"\""),
    ("IP=10.88.0.9;;MAC=", "ARGS: invalid pair \"\""),
    ("A=b=c", "ARGS: invalid pair \"A=b=c\""),
    ("FOO;IgnoreUnknown=1", "ARGS: invalid pair \"FOO\""),
    ("FOO=bar", "ARGS: unknown args [\"FOO=bar\"]"),
    ("K8S_POD_NAME=x;IP=10.88.0.9;FOO=bar", "ARGS: unknown args [\"K8S_POD_NAME=x\" \"FOO=bar\"]"),
    ("IgnoreUnknown=0;FOO=bar", "ARGS: unknown args [\"FOO=bar\"]"),
    ("IgnoreUnknown=False;FOO=bar", "ARGS: unknown args [\"FOO=bar\"]"),
    ("ip=10.88.0.9", "ARGS: unknown args [\"ip=10.88.0.9\"]"),
    ("ignoreunknown=1", "ARGS: unknown args [\"ignoreunknown=1\"]"),
    ("IgnoreUnknown=yes", "ARGS: error parsing value of pair \"IgnoreUnknown=yes\": neither true nor false"),
    ("IgnoreUnknown=", "ARGS: error parsing value of pair \"IgnoreUnknown=\": neither true nor false"),
];

/// Values that host-local alone can judge.
const BAD_IP: [(&str, &str); 3] = [
    ("IP=zz", "ARGS: error parsing value of pair \"IP=zz\": invalid IP address zz"),
    ("IP=10.88.0.300", "ARGS: error parsing value of pair \"IP=10.88.0.300\": invalid IP address 10.88.0.300"),
    (
        "IP=10.88.0.9,10.88.0.10",
        "ARGS: error parsing value of pair \"IP=10.88.0.9,10.88.0.10\": invalid IP address 10.88.0.9,10.88.0.10",
    ),
];

fn prepare(sandbox: &Sandbox, plugin: &str, verb: Verb, args: &str) -> Invocation {
    call(sandbox, plugin, verb, sandbox.host()).netns("/run/netns/ctr1").config(&config(plugin, "1.0.0")).args(args)
}

/// Returns the address that ADD of a new container gives with these arguments.
#[track_caller]
fn address(plugin: &str, args: &str) -> Value {
    let sandbox = crate::protocol::sandbox();
    let _container = sandbox.container("ctr1");
    prepare(&sandbox, plugin, Verb::Add, args).run().result()["ips"][0]["address"].clone()
}

#[test]
fn what_breaks_the_grammar_is_refused_before_any_work() {
    let sandbox = crate::protocol::sandbox();
    let container = sandbox.container("ctr1");
    let before = State::capture(&sandbox, &[&container]);
    for plugin in READERS {
        for (args, text) in BAD {
            prepare(&sandbox, plugin, Verb::Add, args).run().expect_error(4, text);
        }
        state::assert_same(&before, &State::capture(&sandbox, &[&container]));
    }
}

/// The arguments of CHECK are those of ADD, so what is wrong with them is wrong now.
#[test]
fn check_refuses_what_add_refuses() {
    for plugin in READERS {
        let sandbox = crate::protocol::sandbox();
        let _container = sandbox.container("ctr1");
        let result = prepare(&sandbox, plugin, Verb::Add, "").run().result();
        let config = with(&config(plugin, "1.0.0"), &json!({"prevResult": result}));
        prepare(&sandbox, plugin, Verb::Check, "").config(&config).run().expect_success();
        for (args, text) in BAD {
            prepare(&sandbox, plugin, Verb::Check, args).config(&config).run().expect_error(4, text);
        }
    }
}

#[test]
fn an_invalid_requested_address_is_refused() {
    for plugin in READERS {
        let sandbox = crate::protocol::sandbox();
        let container = sandbox.container("ctr1");
        let before = State::capture(&sandbox, &[&container]);
        for (args, text) in BAD_IP {
            let error = prepare(&sandbox, plugin, Verb::Add, args).run().error();
            assert!([4, 7].contains(&error.code), "{plugin} {args}: {error:?}");
            assert!(error.msg.contains(text) || error.details.contains(text), "{plugin} {args}: {error:?}");
        }
        state::assert_same(&before, &State::capture(&sandbox, &[&container]));
    }
}

#[test]
fn ip_and_mac_are_known_to_both() {
    for plugin in READERS {
        let both = "IP=10.88.0.9;MAC=02:00:00:00:00:0A";
        assert_eq!(address(plugin, both), json!("10.88.0.9/24"), "{plugin}");
        assert_eq!(address(plugin, "MAC=02:00:00:00:00:0a"), json!("10.88.0.2/24"), "{plugin}");
    }
    let sandbox = crate::protocol::sandbox();
    let container = sandbox.container("ctr1");
    prepare(&sandbox, "bridge", Verb::Add, "IP=10.88.0.9;MAC=02:00:00:00:00:0A").run().expect_success();
    assert_eq!(Network::observe(&container).link("eth0").expect("eth0").mac, "02:00:00:00:00:0a");
}

#[test]
fn unknown_pairs_are_ignored_when_asked_for() {
    for plugin in READERS {
        for ignore in ["1", "true", "TRUE", "True", "tRuE"] {
            for args in [
                format!("IgnoreUnknown={ignore};K8S_POD_NAME=x;IP=10.88.0.9"),
                format!("IP=10.88.0.9;FOO=;ip=zz;IgnoreUnknown={ignore}"),
                format!("IgnoreUnknown=0;IP=10.88.0.9;FOO=x;IgnoreUnknown={ignore}"),
                format!("A=b=c;IP=10.88.0.9;JOB=x==;IgnoreUnknown={ignore}"),
            ] {
                assert_eq!(address(plugin, &args), json!("10.88.0.9/24"), "{plugin} {args}");
            }
        }
    }
}

#[test]
fn the_last_of_several_values_counts_and_an_empty_one_is_none() {
    for plugin in READERS {
        for (args, want) in [
            ("", "10.88.0.2/24"),
            ("IP=", "10.88.0.2/24"),
            ("IP=;MAC=", "10.88.0.2/24"),
            ("IP=10.88.0.7;IP=10.88.0.9", "10.88.0.9/24"),
            ("IP=10.88.0.9/24", "10.88.0.9/24"),
            ("IgnoreUnknown=1;IgnoreUnknown=0;IP=10.88.0.9", "10.88.0.9/24"),
        ] {
            assert_eq!(address(plugin, args), json!(want), "{plugin} {args}");
        }
    }
}

#[test]
fn del_frees_the_address_whatever_the_arguments_are() {
    for plugin in READERS {
        for (args, _) in BAD.into_iter().chain(BAD_IP).chain([("MAC=zz", "")]) {
            let sandbox = crate::protocol::sandbox();
            let container = sandbox.container("ctr1");
            prepare(&sandbox, plugin, Verb::Add, "").run().expect_success();
            let del = prepare(&sandbox, plugin, Verb::Del, args).run();
            assert_eq!((del.code(), del.stdout()), (Some(0), ""), "{args}: {del}");
            let leases: Vec<String> = State::of_host(&sandbox).section("files").to_vec();
            let lease = format!("{LEASES}/n1/10.88.0.2 ");
            assert!(!leases.iter().any(|line| line.starts_with(&lease)), "{plugin} {args}: {leases:#?}");
            assert!(Network::observe(&container).link("eth0").is_none(), "{plugin} {args} left eth0");
        }
    }
}

#[test]
fn the_other_plugins_never_look() {
    let sandbox = crate::protocol::sandbox();
    let _container = sandbox.container("ctr1");
    for plugin in DEAF {
        for (args, _) in BAD.into_iter().chain(BAD_IP) {
            for verb in [Verb::Add, Verb::Check, Verb::Del] {
                prepare(&sandbox, plugin, verb, args).run().expect_success();
            }
        }
    }
}

#[test]
fn an_invalid_mac_is_refused_by_the_plugin_that_sets_it() {
    let sandbox = crate::protocol::sandbox();
    let container = sandbox.container("ctr1");
    let before = State::capture(&sandbox, &[&container]);
    for mac in ["zz", "02:00:00:00:00", "01:00:5e:00:00:01", "00:00:00:00:00:00", "02:00:00:00:00:00:00:01"] {
        let error = prepare(&sandbox, "bridge", Verb::Add, &format!("MAC={mac}")).run().error();
        assert!([4, 7].contains(&error.code), "{mac}: {error:?}");
        let said = format!("{} {}", error.msg, error.details);
        assert!(said.contains("MAC") && said.contains(mac), "{mac}: {error:?}");
        state::assert_same(&before, &State::capture(&sandbox, &[&container]));
    }
}
