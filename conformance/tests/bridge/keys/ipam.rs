//! The delegate: its input, and its possible answers.

use std::fs;
use std::path::Path;
use std::time::Duration;

use cni_conformance::cases::for_each;
use cni_conformance::{Network, Sandbox, Verb, binaries, script};
use serde_json::{Value, json};

use crate::bridge::keys::masquerade::all_rules;
use crate::bridge::setup::{Port, answering, delegated, given_to_delegate, install, layer_two, with};

/// What a delegate answers that has an address, as a line of shell.
const ADDRESS: &str = r#"echo '{"cniVersion":"1.0.0","ips":[{"address":"10.1.2.7/24"}]}'"#;

/// An address, its gateway, and what the bridge has then.
type Narrow = (&'static str, &'static str, &'static str);

/// Addresses that share their network with nobody, or with one neighbour.
#[test]
fn addresses_of_single_hosts_and_of_point_to_point_links_work() {
    let cases: [(&str, Narrow); 5] = [
        ("/32", ("10.1.2.7/32", "10.1.2.8", "10.1.2.8/32")),
        ("/31", ("10.1.2.7/31", "10.1.2.6", "10.1.2.6/31")),
        ("/30", ("10.1.2.6/30", "10.1.2.5", "10.1.2.5/30")),
        ("/128", ("fd00:1::7/128", "fd00:1::8", "fd00:1::8/128")),
        ("/127", ("fd00:1::7/127", "fd00:1::6", "fd00:1::6/127")),
    ];
    for_each(cases, |(address, gateway, on_bridge)| {
        let sandbox = Sandbox::new();
        let ipam = json!({
            "cniVersion": "1.0.0", "ips": [{"address": address, "gateway": gateway}],
            "routes": [{"dst": format!("{gateway}/{}", if gateway.contains(':') { 128 } else { 32 }), "scope": 253}],
        });
        let port = Port::new(&sandbox, "id1", delegated(&ipam, json!({"isDefaultGateway": true, "ipMasq": true})));
        let result = port.add();
        assert_eq!(port.inside().addresses_of("eth0"), [address]);
        assert_eq!(Network::observe(sandbox.host()).addresses_of("br0"), [on_bridge]);
        let own = port.inside().addresses.into_iter().find(|own| !own.is_link_local()).expect("an address");
        let broadcast = own.broadcast.map(|ip| ip.to_string());
        assert_eq!(broadcast.as_deref(), (address == "10.1.2.6/30").then_some("10.1.2.7"));
        port.check(&result);
        port.del();
        assert_eq!(all_rules(&sandbox), [[""; 0], [""; 0]]);
    });
}

/// Go: a gateway that IPAM does not tell is the address behind the network's, and 255.255.255.255 has none.
#[test]
fn a_network_that_has_no_address_for_a_gateway_is_refused() {
    let sandbox = Sandbox::new();
    let ipam = json!({"cniVersion": "1.0.0", "ips": [{"address": "255.255.255.255/32"}]});
    Port::new(&sandbox, "id1", delegated(&ipam, json!({"isGateway": true})))
        .refused(7, &["255.255.255.255/32", "gateway"]);
}

#[test]
fn containers_with_host_addresses_reach_their_gateway() {
    let sandbox = Sandbox::new();
    let ipam = json!({
        "cniVersion": "1.0.0", "ips": [{"address": "10.1.2.7/32", "gateway": "10.1.2.1"}],
        "routes": [{"dst": "10.1.2.1/32", "scope": 253}, {"dst": "0.0.0.0/0"}],
    });
    let port = Port::new(&sandbox, "id1", delegated(&ipam, json!({"isGateway": true})));
    let result = port.add();
    assert_eq!(port.routes(), ["0.0.0.0/0 via 10.1.2.1 dev eth0", "10.1.2.1/32 dev eth0"]);
    sandbox.sh("ip route add 10.1.2.7/32 dev br0");
    assert!(port.reaches("10.1.2.1", Duration::from_secs(20)));
    port.check(&result);
}

/// Its whole environment but for the command, and the bytes as they came.
#[test]
fn the_delegate_gets_the_same_bytes_and_the_same_environment() {
    let sandbox = Sandbox::new();
    let config = delegated(&json!({"cniVersion": "1.0.0", "ips": [{"address": "10.1.2.7/24"}]}), json!({}));
    let port = Port::new(&sandbox, "id1", config.clone()).args("IgnoreUnknown=1;MAC=02:00:00:00:00:01;A=b=c");
    let bytes = format!("\n {config:#}\n\t");
    let result = port.call(Verb::Add).stdin(bytes.as_bytes()).env("EXTRA", "a b").run().result();
    assert_eq!(given_to_delegate("stdin"), bytes);
    let environment = given_to_delegate("environment");
    let path = format!("CNI_PATH=/run/conformance/delegates:{}", binaries::under_test().display());
    for line in [
        "CNI_ARGS=IgnoreUnknown=1;MAC=02:00:00:00:00:01;A=b=c",
        "CNI_COMMAND=ADD",
        "CNI_CONTAINERID=id1",
        "CNI_IFNAME=eth0",
        "CNI_NETNS=/run/netns/id1",
        "EXTRA=a b",
        &path,
    ] {
        assert!(environment.lines().any(|found| found == line), "{line} in {environment}");
    }
    let with_result = with(&config, &json!({"prevResult": result}));
    for verb in [Verb::Check, Verb::Del] {
        port.call(verb).config(&with_result).run().expect_success();
        assert_eq!(given_to_delegate("stdin"), with_result.to_string());
        let command = format!("CNI_COMMAND={verb}");
        assert!(given_to_delegate("environment").lines().any(|line| line == command));
    }
    port.call(Verb::Status).config(&with(&config, &json!({"cniVersion": "1.1.0"}))).run().expect_success();
    assert_eq!(given_to_delegate("calls"), "ADD\nCHECK\nDEL\nSTATUS\n");
}

/// The first in the order of CNI_PATH, also a symbolic link; what is not a file is ignored.
#[test]
fn the_delegate_is_the_first_file_of_its_name_in_cni_path() {
    let sandbox = Sandbox::new();
    let config = delegated(&json!({"cniVersion": "1.0.0", "ips": [{"address": "10.1.2.7/24"}]}), json!({}));
    let port = Port::new(&sandbox, "id1", config);
    for folder in ["/run/a", "/run/a/fake", "/run/b", "/run/c"] {
        fs::create_dir(folder).expect("create a folder");
    }
    std::os::unix::fs::symlink("/run/conformance/delegates/fake", "/run/b/fake").expect("link the delegate");
    fs::write("/run/c/fake", "#!/bin/sh\nexit 9\n").expect("write another delegate");
    port.call(Verb::Add).path("/run/never:/run/a::/run/b:/run/c").run().expect_success();
    port.call(Verb::Del).path("/run/b").run().expect_success();
    port.call(Verb::Add).path("/run/a:/run/never").run().expect_error(104, "\"fake\"");
    let error = port.call(Verb::Add).path("/run/c:/run/b").run().error();
    assert!(format!("{} {}", error.msg, error.details).contains("ermission denied"), "{error:?}");
}

#[test]
fn a_delegate_that_cannot_be_named_is_refused_before_any_work() {
    for_each(["../fake", "a/b", "/bin/true"].map(|name| (name, name)), |name| {
        let sandbox = Sandbox::new();
        let before = cni_conformance::State::of_host(&sandbox);
        let port = Port::new(&sandbox, "id1", layer_two(json!({"ipam": {"type": name}})));
        let error = port.call(Verb::Add).run().error();
        assert!(format!("{} {}", error.msg, error.details).contains(name), "{error:?}");
        port.shared().assert_nothing_else(&before, || cni_conformance::State::of_host(&sandbox));
    });
}

#[test]
fn a_delegate_that_is_nowhere_is_named_with_the_places() {
    let sandbox = Sandbox::new();
    let port = Port::new(&sandbox, "id1", layer_two(json!({"ipam": {"type": "nope"}})));
    port.refused(104, &["failed to find plugin \"nope\"", "/run/conformance/delegates"]);
    for verb in [Verb::Del, Verb::Status] {
        let config = with(&port.config, &json!({"cniVersion": "1.1.0"}));
        port.call(verb).config(&config).run().expect_error(104, "failed to find plugin \"nope\"");
    }
}

/// What IPAM plugins may say and still give an address: Go crashes over a `null` in a list.
#[test]
fn null_and_empty_members_of_an_answer_are_absent_ones() {
    let answers = [
        (
            "nulls",
            json!({
                "cniVersion": "1.0.0", "ips": [{"address": "10.1.2.7/24", "gateway": null, "interface": null}],
                "routes": null, "dns": null, "interfaces": null,
            }),
        ),
        (
            "empty",
            json!({
                "cniVersion": "1.0.0", "ips": [{"address": "10.1.2.7/24", "gateway": ""}],
                "routes": [], "dns": {}, "interfaces": [],
            }),
        ),
        ("another interface", json!({"cniVersion": "1.0.0", "ips": [{"address": "10.1.2.7/24", "interface": 77}]})),
    ];
    for_each(answers, |answer| {
        let sandbox = Sandbox::new();
        let port = Port::new(&sandbox, "id1", delegated(&answer, json!({})));
        let result = port.add();
        assert_eq!(result["ips"], json!([{"address": "10.1.2.7/24", "interface": 2}]));
        port.check(&result);
    });
}

/// Answers that give no address, or none that can be used: the address is given back, and nothing stays.
#[test]
fn an_answer_that_cannot_be_used_is_refused_and_released() {
    let with_ips = |ips: Value| json!({"cniVersion": "1.0.0", "ips": ips}).to_string();
    let address = |text: &str| with_ips(json!([{"address": text}]));
    let answers = [
        ("nothing", (String::new(), "fake")),
        ("blank", ("   ".to_owned(), "fake")),
        ("no JSON", ("nonsense".to_owned(), "fake")),
        ("cut off", (r#"{"cniVersion":"1.0.0","ips":[{"addr"#.to_owned(), "fake")),
        ("a number", ("7".to_owned(), "fake")),
        ("a list", ("[]".to_owned(), "fake")),
        ("null", ("null".to_owned(), "IPAM plugin returned missing IP config")),
        ("an empty object", ("{}".to_owned(), "IPAM plugin returned missing IP config")),
        ("no addresses", (with_ips(json!([])), "IPAM plugin returned missing IP config")),
        ("null addresses", (with_ips(Value::Null), "IPAM plugin returned missing IP config")),
        ("addresses of the wrong type", (with_ips(json!("10.1.2.7/24")), "ips")),
        ("a null address", (with_ips(json!([null])), "")),
        ("an address beside a null", (with_ips(json!([{"address": "10.1.2.7/24"}, null])), "")),
        ("an address without a text", (with_ips(json!([{}])), "address")),
        ("an address without a prefix", (address("10.1.2.7"), "10.1.2.7")),
        ("an address of no family", (address("zz/24"), "zz/24")),
        ("a prefix that is too long", (address("10.1.2.7/33"), "10.1.2.7/33")),
        ("an address that is a number", (with_ips(json!([{"address": 7}])), "7")),
        ("a gateway that is none", (with_ips(json!([{"address": "10.1.2.7/24", "gateway": "zz"}])), "zz")),
        (
            "a null route",
            (json!({"cniVersion": "1.0.0", "ips": [{"address": "10.1.2.7/24"}], "routes": [null]}).to_string(), ""),
        ),
        (
            "a route without a destination",
            (json!({"cniVersion": "1.0.0", "ips": [{"address": "10.1.2.7/24"}], "routes": [{}]}).to_string(), "dst"),
        ),
        (
            "a route to nowhere",
            (
                json!({"cniVersion": "1.0.0", "ips": [{"address": "10.1.2.7/24"}], "routes": [{"dst": "zz"}]})
                    .to_string(),
                "zz",
            ),
        ),
        ("two results", (format!("{}{}", address("10.1.2.7/24"), address("10.1.2.8/24")), "fake")),
        (
            "an address twice",
            (with_ips(json!([{"address": "10.1.2.7/24"}, {"address": "10.1.2.7/24"}])), "10.1.2.7/24"),
        ),
    ];
    for_each(answers, |(answer, says)| {
        let sandbox = Sandbox::new();
        let port = Port::new(
            &sandbox,
            "id1",
            answering(&format!("printf '%s' '{answer}'"), json!({"isGateway": true, "ipMasq": true})),
        );
        let before = port.state();
        let outcome = port.call(Verb::Add).run();
        let error = outcome.error();
        assert!(format!("{}: {}", error.msg, error.details).contains(says), "must say {says:?}: {outcome}");
        port.shared().assert_nothing_else(&before, || port.state());
        assert_eq!(given_to_delegate("calls"), "ADD\nDEL\n", "{outcome}");
    });
}

/// An error object comes out as it came, whatever the exit status behind it.
#[test]
fn the_delegates_error_is_passed_on() {
    let errors = [
        ("all", (r#"{"code":123,"msg":"no more","details":"all gone"}"#, 123, "no more", "all gone")),
        ("without details", (r#"{"code":11,"msg":"try again"}"#, 11, "try again", "")),
        ("with a version", (r#"{"cniVersion":"1.0.0","code":7,"msg":"no","details":"d"}"#, 7, "no", "d")),
        ("code 0", (r#"{"code":0,"msg":"odd"}"#, 0, "odd", "")),
        (
            "special characters",
            (r#"{"code":100,"msg":"a\u003cb \"c\" é","details":"x\ny"}"#, 100, "a<b \"c\" é", "x\ny"),
        ),
    ];
    for_each(errors, |(text, code, msg, details)| {
        for status in [1, 3, 255] {
            let sandbox = Sandbox::new();
            let port =
                Port::new(&sandbox, "id1", answering(&format!("printf '%s' '{text}'; exit {status}"), json!({})));
            let before = port.state();
            let error = port.call(Verb::Add).run().error();
            assert_eq!((error.code, error.msg.as_str(), error.details.as_str()), (code, msg, details));
            port.shared().assert_nothing_else(&before, || port.state());
        }
    });
}

/// Code 0, with all that the delegate said.
#[test]
fn a_delegate_that_fails_without_an_error_object_is_quoted() {
    let failures: [(&str, (&str, &[&str])); 6] = [
        ("a status", ("exit 3", &["netplugin failed with no error message", "3"])),
        ("a signal", ("kill -9 $$", &["netplugin failed with no error message", "signal", "9"])),
        ("words on stderr", ("echo no luck >&2; exit 1", &["netplugin failed: \"no luck\\n\""])),
        (
            "words on stdout",
            ("echo no luck; exit 1", &["netplugin failed but error parsing its diagnostic message \"no luck\\n\""]),
        ),
        ("a result", ("echo '[1]'; exit 1", &["netplugin failed but error parsing its diagnostic message \"[1]\\n\""])),
        ("both", ("echo out; echo err >&2; exit 1", &["\"out\\n\""])),
    ];
    for_each(failures, |(answer, says)| {
        let sandbox = Sandbox::new();
        Port::new(&sandbox, "id1", answering(answer, json!({}))).refused(0, says);
    });
}

#[test]
fn what_a_delegate_says_beside_its_result_is_passed_on_stderr() {
    let sandbox = Sandbox::new();
    let answer = format!("echo 'a warning' >&2; {ADDRESS}");
    let outcome = Port::new(&sandbox, "id1", answering(&answer, json!({}))).call(Verb::Add).run();
    outcome.result();
    assert!(outcome.stderr().contains("a warning"), "{outcome}");
}

/// The interface is gone when it fails, so the address is told to be released again by the next DEL.
#[test]
fn a_delegate_that_fails_check_or_del_makes_them_fail() {
    let sandbox = Sandbox::new();
    let refused = "echo '{\"code\":77,\"msg\":\"not now\"}'; exit 1";
    install(&format!("case $CNI_COMMAND in\nADD) {ADDRESS} ;;\n*) {refused} ;;\nesac\n"));
    let port = Port::new(&sandbox, "id1", layer_two(json!({"ipam": {"type": "fake"}, "ipMasq": true})));
    let result = port.add();
    port.call_check(&result).run().expect_error(77, "not now");
    for _ in ["first", "again"] {
        port.call(Verb::Del).run().expect_error(77, "not now");
        assert!(port.inside().link("eth0").is_none());
        assert_eq!(all_rules(&sandbox), [[""; 0], [""; 0]]);
    }
    let status = with(&port.config, &json!({"cniVersion": "1.1.0"}));
    port.call(Verb::Status).config(&status).run().expect_error(77, "not now");
    install("exit 0\n");
    port.del();
}

#[test]
fn a_delegate_that_reads_nothing_and_leaves_a_child_behind_does_not_hang_the_plugin() {
    let sandbox = Sandbox::new();
    let folder = "/run/conformance/delegates";
    fs::create_dir_all(folder).expect("create a folder");
    let leaves_a_child = "exec 0<&-\n(sleep 40 >/dev/null 2>&1 &)";
    let lines = format!("[ $CNI_COMMAND = ADD ] || exit 0\n{leaves_a_child}\n{ADDRESS}\n");
    script::install(&Path::new(folder).join("fake"), &lines);
    let long = "x".repeat(300_000);
    let config = layer_two(json!({"ipam": {"type": "fake"}, "padding": long}));
    let port = Port::new(&sandbox, "id1", config);
    port.call(Verb::Add).deadline(Duration::from_secs(30)).run().expect_success();
    port.del();
}

/// Go reads on, as long as there is memory.
#[test]
fn a_delegate_that_prints_without_end_is_ended() {
    for way in ["stdout", "stderr"] {
        let sandbox = Sandbox::new();
        let port = Port::new(&sandbox, "id1", answering(&format!("exec yes >/dev/{way}"), json!({})));
        port.refused(0, &["printed more than 16 MiB"]);
        assert_eq!(given_to_delegate("calls"), "ADD\nDEL\n", "what it may have done is taken back");
    }
}

/// Go starts processes until the machine has no more.
#[test]
fn plugins_that_delegate_to_each_other_come_to_an_end() {
    let sandbox = Sandbox::new();
    let port = Port::new(&sandbox, "id1", layer_two(json!({"ipam": {"type": "bridge"}})));
    for verb in [Verb::Add, Verb::Del] {
        port.call(verb).run().expect_error(7, "bridge cannot be its own IPAM plugin");
    }
    let bridge = binaries::under_test().join("bridge");
    let config = answering(&format!("exec {} < /run/conformance/delegates/stdin", bridge.display()), json!({}));
    let port = Port::new(&sandbox, "id2", config);
    port.refused(7, &["plugins delegate to each other without end"]);
    let adds = given_to_delegate("calls").lines().filter(|call| *call == "ADD").count();
    assert_eq!(adds, 8);
}
