//! What the keys ask of servers and send to them, and what of a result CHECK asks for.

use cni_core::request::{Call, Environment};
use cni_core::version::Version;

use super::*;

fn request(args: &str, keys: &str) -> Request {
    let config = format!(r#"{{"cniVersion":"1.0.0","name":"lan","type":"macvlan",{keys}}}"#);
    let variables =
        [("CNI_CONTAINERID", "c1"), ("CNI_NETNS", "/n"), ("CNI_IFNAME", "eth0"), ("CNI_PATH", "/"), ("CNI_ARGS", args)];
    let call = Call::parse("ADD", Environment::new(variables)).expect("a call");
    call.with_config(config.into_bytes(), Version::ALL).expect("a request")
}

fn load(args: &str, keys: &str) -> Result<Config, Error> {
    Config::load(&request(args, &format!(r#""ipam":{{"type":"dhcp",{keys}}}"#)))
}

#[test]
fn options_of_the_configuration_and_of_the_result_are_requested() {
    for (entries, want) in [
        ("null", vec![3, 1, 6, 15, 26, 119]),
        (r#"[{"option":"121"}]"#, vec![121, 3, 1, 6, 15, 26, 119]),
        (r#"[{"option":"6"},{"option":"subnet-mask"}]"#, vec![6, 1, 3, 15, 26, 119]),
        (r#"[{"skipDefault":true}]"#, vec![1, 3, 15, 6]),
        (r#"[{"option":"42","skipDefault":true}]"#, vec![42]),
    ] {
        let config = load("", &format!(r#""request":{entries}"#)).expect(entries);
        assert_eq!((config.requested, config.socket.as_str()), (want, "/run/cni/dhcp.sock"), "{entries}");
    }
}

#[test]
fn options_are_sent_with_values_of_the_configuration_or_of_the_arguments() {
    let keys = r#""provide":[{"option":"host-name","value":"web","fromArg":"NAME"},{"option":"60","fromArg":"GONE"},
        {"option":"user-class","value":"k"}],"priority":7"#;
    for (args, name) in [("", "web"), ("=x;NAME=;junk", ""), ("junk;NAME=a=b;IgnoreUnknown=1", "a=b")] {
        let config = load(args, keys).expect(args);
        let named = Some((12, name.as_bytes().to_vec())).filter(|_| !name.is_empty());
        let want: Vec<_> = named.into_iter().chain([(77, b"k".to_vec())]).collect();
        assert_eq!((config.provided, config.priority), (want, 7), "{args}");
    }
}

#[test]
fn keys_that_cannot_be_used_are_refused_by_their_value() {
    let long = "x".repeat(256);
    let provide = |option: &str, rest: &str| format!(r#""provide":[{{"option":"{option}",{rest}}}]"#);
    for (args, keys, text) in [
        ("", r#""daemonSocketPath":"x""#.to_owned(), r#"invalid daemonSocketPath "x" (must be an absolute path)"#),
        ("", r#""request":[{"option":"ntp-servers"}]"#.to_owned(), r#"Can not parse option "ntp-servers": "#),
        ("", provide("255", r#""value":"x""#), r#"Can not parse option "255": "#),
        ("", provide("+6", r#""value":"x""#), r#"Can not parse option "+6": "#),
        ("", provide("0", r#""value":"x""#), r#"Can not parse option "0": "#),
        ("", provide("12", &format!(r#""value":"{long}""#)), r#"value too long for option "12": "xx"#),
        (
            &format!("KEY={long}"),
            provide("12", r#""fromArg":"KEY""#),
            r#"value too long for option "12" from CNI_ARGS "KEY": "xx"#,
        ),
    ] {
        let error = load(args, &keys).expect_err(&keys);
        assert!(error.code().number() == 7 && error.to_string().starts_with(text), "{error}");
    }
    load("", &provide("12", &format!(r#""value":"{}""#, &long[1..]))).expect("the longest value");
    let error = Config::load(&request("", r#""mtu":1"#)).expect_err("no ipam");
    assert_eq!((error.code().number(), error.to_string().as_str()), (7, "IPAM config missing 'ipam' key"));
    assert_eq!(socket_of(&request("", r#""ipam":{"provide":7}"#)).expect("DEL"), "/run/cni/dhcp.sock");
}

#[test]
fn check_asks_for_the_ipv4_address_of_the_interface_or_of_the_result() {
    let asked = |ips: &str| {
        let interfaces = r#"[{"name":"eth1","sandbox":"/n"},{"name":"eth0","sandbox":"/n"}]"#;
        let keys = format!(r#""prevResult":{{"cniVersion":"1.0.0","interfaces":{interfaces},"ips":[{ips}]}}"#);
        crate::address_of_result(&request("", &keys)).expect(ips).map(|address| address.to_string())
    };
    let other = r#"{"address":"10.1.2.6/24","interface":0}"#;
    let own = r#"{"address":"fd00::5/64","interface":1},{"address":"10.1.2.5/24","interface":1}"#;
    assert_eq!(asked(&format!("{other},{own}")).as_deref(), Some("10.1.2.5"));
    assert_eq!(asked(other).as_deref(), Some("10.1.2.6"));
    assert_eq!(asked(""), None);
}
