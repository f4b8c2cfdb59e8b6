//! What the plugin answers, by configuration and environment.

use super::*;
use crate::config::{Config, FixedAddress};
use cni_testkit::{FakeHost, error_parts};
use proptest::prelude::*;

type Refused = (u32, String, String);

fn request(command: &str, args: &str, config: &str) -> Request {
    let config = format!(r#"{{"name":"net","cniVersion":"1.0.0",{}"#, config.strip_prefix('{').expect("an object"));
    cni_testkit::request(command, &[("CNI_ARGS", args)], &config)
}

fn addresses(args: &str, config: &str) -> Result<String, Refused> {
    let config = Config::load(&request("ADD", args, config)).map_err(error_parts)?;
    let text = |FixedAddress { cidr, gateway }: &FixedAddress| match gateway {
        Some(gateway) => format!("{cidr} via {gateway}"),
        None => cidr.to_string(),
    };
    Ok(config.addresses.iter().map(text).collect::<Vec<_>>().join(", "))
}

fn ok(text: &str) -> Result<String, Refused> {
    Ok(text.to_owned())
}

const ONE: &str = r#""ipam":{"addresses":[{"address":"10.0.0.2/24","gateway":"10.0.0.1"}]}"#;

fn with_one(more: &str) -> String {
    format!("{{{ONE}{more}}}")
}

#[test]
fn the_addresses_of_the_configuration_come_before_those_of_cni_args() {
    let both = r#"{"ipam":{"addresses":[{"address":"10.0.0.2/24","gateway":"10.0.0.1"},{"Address":"fd00::2/64"}]}}"#;
    assert_eq!(addresses("", both), ok("10.0.0.2/24 via 10.0.0.1, fd00::2/64"));
    assert_eq!(
        addresses("IP=10.1.0.5/16, fd01::5/64", both),
        ok("10.0.0.2/24 via 10.0.0.1, fd00::2/64, 10.1.0.5/16, fd01::5/64")
    );
    assert_eq!(addresses("IP=;GATEWAY=", both), ok("10.0.0.2/24 via 10.0.0.1, fd00::2/64"));
    assert_eq!(addresses("", r#"{"ipam":{}}"#), ok(""));
}

/// Another spelling counts as in Go, the last one first; exactly `Address` is another field there.
#[test]
fn of_address_and_its_spellings_the_last_one_counts_but_address_goes_before_its_capitalized_name() {
    let own = |keys: &str| addresses("", &format!(r#"{{"ipam":{{"addresses":[{{{keys}}}]}}}}"#));
    for (keys, want) in [
        (r#""address":"10.0.0.2/24","Address":"10.9.0.9/24""#, "10.0.0.2/24"),
        (r#""Address":"10.9.0.9/24","address":"10.0.0.2/24""#, "10.0.0.2/24"),
        (r#""address":"10.0.0.2/24","Address":{}"#, "10.0.0.2/24"),
        (r#""Address":"10.9.0.9/24""#, "10.9.0.9/24"),
        (r#""address":"10.0.0.2/24","ADDRESS":"10.9.0.9/24""#, "10.9.0.9/24"),
        (r#""ADDRESS":"10.9.0.9/24","address":"10.0.0.2/24""#, "10.0.0.2/24"),
    ] {
        assert_eq!(own(keys), ok(want), "{keys}");
    }
    let (code, text, details) = own(r#""Address":{"IP":"10.9.9.9","Mask":"////AA=="}"#).expect_err("no text");
    let want = "the 'address' field is expected to be in CIDR notation, got: ''";
    assert_eq!((code, text.as_str(), details.as_str()), (7, want, "ipam.addresses[0].address"));
}

#[test]
fn runtime_config_goes_before_args_and_both_before_the_rest() {
    let args = r#","args":{"cni":{"ips":["10.2.0.2/24"]}}"#;
    let runtime = r#","runtimeConfig":{"ips":["10.3.0.2/24","fd03::2/64"]}"#;
    assert_eq!(addresses("IP=10.9.0.2/24", &with_one(args)), ok("10.2.0.2/24"));
    assert_eq!(addresses("", &with_one(&format!("{args}{runtime}"))), ok("10.3.0.2/24, fd03::2/64"));
    assert_eq!(
        addresses("", &with_one(r#","args":{"cni":{"ips":[]}},"runtimeConfig":null"#)),
        ok("10.0.0.2/24 via 10.0.0.1")
    );
    let bad_but_replaced = format!(r#"{{"ipam":{{"addresses":[{{"address":"x"}}]}}{runtime}}}"#);
    assert_eq!(addresses("", &bad_but_replaced), ok("10.3.0.2/24, fd03::2/64"));
}

#[test]
fn an_address_in_a_configured_network_has_its_gateway_and_may_do_without_a_prefix() {
    for more in [r#","args":{"cni":{"ips":["10.0.0.7"]}}"#, r#","runtimeConfig":{"ips":["10.0.0.7/24"]}"#] {
        assert_eq!(addresses("", &with_one(more)), ok("10.0.0.7/24 via 10.0.0.1"), "{more}");
    }
    assert_eq!(addresses("IP=10.0.0.7", &with_one("")), ok("10.0.0.2/24 via 10.0.0.1, 10.0.0.7/24 via 10.0.0.1"));
}

#[test]
fn gateways_of_cni_args_are_those_of_every_address_in_whose_network_they_lie() {
    let two = r#"{"ipam":{"addresses":[{"address":"10.0.0.2/24"},{"address":"fd00::2/64","gateway":"fd00::1"}]}}"#;
    let want = "10.0.0.2/24 via 10.0.0.9, fd00::2/64 via fd00::9, 10.0.0.3/24 via 10.0.0.9";
    assert_eq!(addresses("IP=10.0.0.3/24;GATEWAY=10.0.0.1, fd00::9,10.0.0.9,192.0.2.1", two), ok(want));
}

#[test]
fn a_value_that_cannot_be_used_is_named_with_its_key() {
    let no = |code, text: &str, details: &str| Err((code, text.to_owned(), details.to_owned()));
    let configured = |keys: &str| addresses("", &format!(r#"{{"ipam":{{"addresses":[{keys}]}}}}"#));
    let cidr = |text: &str| format!("the 'address' field is expected to be in CIDR notation, got: '{text}'");
    assert_eq!(
        addresses("", r#"{"ipam":null}"#).map_err(|(code, text, _)| (code, text)),
        Err((7, "IPAM config missing 'ipam' key".to_owned()))
    );
    for (keys, text) in [
        (r#"{"address":"10.0.0.2"}"#, "10.0.0.2"),
        (r#"{"address":"010.0.0.2/24"}"#, "010.0.0.2/24"),
        (r#"{"address":"::ffff:10.0.0.2/64"}"#, "::ffff:10.0.0.2/64"),
        ("{}", ""),
        ("null", ""),
    ] {
        assert_eq!(configured(keys), no(7, &cidr(text), "ipam.addresses[0].address"), "{keys}");
    }
    let gateway = r#"{"address":"10.0.0.2/24","gateway":"x"}"#;
    assert_eq!(configured(gateway), no(7, "invalid IP address: x", "ipam.addresses[0].gateway"));
    let replaced = format!(r#"{{"ipam":{{"addresses":[{gateway}]}},"runtimeConfig":{{"ips":["10.0.0.6/24"]}}}}"#);
    assert_eq!(addresses("", &replaced), no(7, "invalid IP address: x", "ipam.addresses[0].gateway"));
    let (ip, gw) = ("IP in CNI_ARGS", "GATEWAY in CNI_ARGS");
    let ip_text = "the 'ip' field is expected to be in CIDR notation, got: '";
    assert_eq!(addresses("IP=10.9.0.1", &with_one("")), no(4, &format!("{ip_text}10.9.0.1'"), ip));
    assert_eq!(addresses("IP=10.9.0.1/24,", &with_one("")), no(4, &format!("{ip_text}'"), ip));
    assert_eq!(addresses("GATEWAY= x", &with_one("")), no(4, "invalid gateway address:  x", gw));
    let entry = "an entry in the 'ips' field is NOT in CIDR notation, got: '10.9.0.1'";
    let listed = r#","runtimeConfig":{"ips":["10.0.0.9/24","10.9.0.1"]}"#;
    assert_eq!(addresses("", &with_one(listed)), no(7, entry, "runtimeConfig.ips[1]"));
    let route = r#"{"ipam":{"routes":[{"dst":"0.0.0.0/0"},{"dst":"x"}]}}"#;
    assert_eq!(addresses("", route), no(7, "invalid CIDR address: x", "ipam.routes[1].dst"));
    assert_eq!(addresses("", r#"{"ipam":{"addresses":"x"}}"#).map_err(|refused| refused.0), Err(6));
}

#[test]
fn old_versions_have_one_address_of_each_family() {
    let load = |version: &str| {
        let two = r#""ipam":{"addresses":[{"address":"10.0.0.2/24"},{"address":"10.1.0.2/24"}]}"#;
        let request = request("ADD", "", &format!(r#"{{"cniVersion":"{version}",{two}}}"#));
        Config::load(&request).map(|config| config.addresses.len()).map_err(error_parts)
    };
    let text = "CNI version 0.2.0 does not support more than 1 address per family";
    assert_eq!(load("0.2.0"), Err((7, text.to_owned(), String::new())));
    assert_eq!(load("0.3.0"), Ok(2));
}

fn check(config: &str, ips: &str) -> Result<(), Refused> {
    let config = format!(r#"{{{config},"prevResult":{{"cniVersion":"1.0.0","ips":[{ips}]}}}}"#);
    let request = request("CHECK", "", &config);
    check::check(&request, &mut FakeHost::new()).map_err(error_parts)
}

#[test]
fn check_wants_every_address_with_its_prefix_and_its_gateway() {
    let failed = |text: &str, details: &str| Err((100, text.to_owned(), details.to_owned()));
    let absent = failed(
        "static: Failed to find addr 10.0.0.2/24 on interface eth0",
        "10.0.0.2/24 is configured, and not in prevResult",
    );
    let gateway = failed(
        "static: Failed to match addr 10.0.0.1 on interface eth0",
        "the gateway of 10.0.0.2/24 in prevResult is another one",
    );
    for (ips, want) in [
        (r#"{"address":"10.0.0.9/24"},{"address":"10.0.0.2/24","gateway":"10.0.0.1"}"#, Ok(())),
        ("", absent.clone()),
        (r#"{"address":"10.0.0.2/16","gateway":"10.0.0.1"}"#, absent),
        (r#"{"address":"10.0.0.2/24"}"#, gateway.clone()),
        (r#"{"address":"10.0.0.2/24","gateway":"10.0.0.254"}"#, gateway),
    ] {
        assert_eq!(check(ONE, ips), want, "{ips}");
    }
    let without = request("CHECK", "", &with_one(""));
    let error = check::check(&without, &mut FakeHost::new()).expect_err("refused");
    assert_eq!(error_parts(error), (7, "Required prevResult missing".to_owned(), String::new()));
}

proptest! {
    #[test]
    fn no_text_panics_and_what_is_taken_is_kept(text in "[0-9a-f:./, ]{0,24}") {
        for config in [
            format!(r#"{{"ipam":{{"addresses":[{{"address":"{text}","gateway":"{text}"}}]}}}}"#),
            with_one(&format!(r#","runtimeConfig":{{"ips":["{text}"]}}"#)),
        ] {
            if let Ok(found) = addresses("", &config) {
                prop_assert!(found.contains('/'), "{}", found);
            }
        }
        let _judged = addresses(&format!("IP={text};GATEWAY={text}"), &with_one(""));
    }
}
