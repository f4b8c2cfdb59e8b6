//! Which values are taken, and the code and text of each refusal.

use super::*;
use crate::fake_request::request;
use cni_testkit::error_parts;

fn parse_as(version: &str, config: &str) -> Result<Config, (u32, String, String)> {
    let config = format!(r#"{{"cniVersion":"{version}",{config}}}"#);
    Config::load(&request("ADD", &[], &config)).map_err(error_parts)
}

fn parse(config: &str) -> Result<Config, (u32, String, String)> {
    parse_as("1.0.0", config)
}

fn sets(config: &str) -> String {
    let config = parse(config).expect("valid");
    config.sets.iter().map(RangeSet::to_string).collect::<Vec<_>>().join(" ")
}

#[test]
fn sets_come_from_the_runtime_then_the_flat_form_then_the_list() {
    let list = r#""ranges":[[{"subnet":"10.1.2.0/29"},{"Subnet":"10.1.2.8/29","rangeStart":"::ffff:10.1.2.12"}]]"#;
    let flat = r#""subnet":"10.1.3.0/29","rangeEnd":"10.1.3.4","gateway":"10.1.3.9""#;
    let runtime = r#""runtimeConfig":{"ipRanges":[[{"subnet":"2001:DB8::/126"}]]}"#;
    assert_eq!(
        sets(&format!(r#""ipam":{{{list},{flat}}},{runtime}"#)),
        "2001:db8::1-2001:db8::3 10.1.3.1-10.1.3.4 10.1.2.1-10.1.2.6,10.1.2.12-10.1.2.14"
    );
    assert_eq!(
        sets(&format!(r#""ipam":{{{list},"subnet":null,"gateway":"x"}}"#)),
        "10.1.2.1-10.1.2.6,10.1.2.12-10.1.2.14"
    );
}

#[test]
fn invalid_values_are_refused_with_code_7_and_the_texts_of_the_reference() {
    let counts = "range sets count from 0: runtimeConfig.ipRanges, ipam.subnet, ipam.ranges";
    let flat = |keys: &str| format!(r#""ipam":{{"subnet":"10.1.2.0/24",{keys}}}"#);
    for (config, text, details) in [
        (r#""x":1"#.to_owned(), "IPAM config missing 'ipam' key", ""),
        (r#""ipam":null"#.to_owned(), "IPAM config missing 'ipam' key", ""),
        (r#""ipam":{}"#.to_owned(), "no IP ranges specified", ""),
        (r#""ipam":{"ranges":[]}"#.to_owned(), "no IP ranges specified", ""),
        (r#""ipam":{"ranges":[[]]}"#.to_owned(), "invalid range set 0: empty range set", counts),
        (r#""ipam":{"ranges":[null]}"#.to_owned(), "invalid range set 0: empty range set", counts),
        (r#""ipam":{"ranges":[[null]]}"#.to_owned(), "invalid range set 0: subnet is missing", counts),
        (r#""ipam":{"subnet":""}"#.to_owned(), "invalid CIDR address: ", "ipam.subnet"),
        (
            r#""ipam":{"ranges":[[{"subnet":"10.1.2.0/24"},{"subnet":"10.1.2.3"}]]}"#.to_owned(),
            "invalid CIDR address: 10.1.2.3",
            "ipam.ranges[0][1].subnet",
        ),
        (
            r#""ipam":{"subnet":"::ffff:10.1.2.0/120"}"#.to_owned(),
            "invalid range set 0: subnet is an IPv4 network written as IPv6",
            counts,
        ),
        (
            flat(r#""ranges":[[{"subnet":"10.1.2.1/24"}]]"#),
            "invalid range set 1: Network has host bits set. For a subnet mask of length 24 the network address is 10.1.2.0",
            &format!("subnet 10.1.2.1/24; {counts}"),
        ),
        (flat(r#""rangeStart":"zz""#), "invalid IP address: zz", "ipam.rangeStart"),
        (flat(r#""rangeEnd":" 10.1.2.3""#), "invalid IP address:  10.1.2.3", "ipam.rangeEnd"),
        (flat(r#""gateway":"fe80::1%eth0""#), "invalid IP address: fe80::1%eth0", "ipam.gateway"),
        (flat(r#""routes":[{"dst":"x"}]"#), "invalid CIDR address: x", "ipam.routes[0].dst"),
        (flat(r#""routes":[null]"#), "invalid CIDR address: ", "ipam.routes[0].dst"),
        (flat(r#""routes":[{"dst":"0.0.0.0/0","gw":"y"}]"#), "invalid IP address: y", "ipam.routes[0].gw"),
        (
            r#""ipam":{"ranges":[[{"subnet":"10.1.2.0/24"}],[{"subnet":"10.2.0.0/24"}],[{"subnet":"10.1.0.0/16"}]]}"#
                .to_owned(),
            "range set 0 overlaps with 2",
            &format!("10.1.2.1-10.1.2.254 and 10.1.0.1-10.1.255.254; {counts}"),
        ),
    ] {
        assert_eq!(parse(&config), Err((7, text.to_owned(), details.to_owned())), "{config}");
    }
}

#[test]
fn a_value_of_the_wrong_type_is_refused_with_code_6_and_its_path() {
    for (config, path) in [
        (r#""ipam":{"ranges":{"subnet":"10.1.2.0/24"}}"#, "ipam.ranges: "),
        (r#""ipam":{"ranges":[{"subnet":"10.1.2.0/24"}]}"#, "ipam.ranges[0]: "),
        (r#""ipam":{"subnet":10}"#, "ipam.subnet: "),
        (r#""ipam":{"subnet":"10.1.2.0/24","dataDir":7}"#, "ipam.dataDir: "),
        (r#""ipam":[]"#, "ipam: "),
    ] {
        let (code, text, details) = parse(config).expect_err("refused");
        assert_eq!((code, text.as_str()), (6, "failed to load netconf"));
        assert!(details.starts_with(path), "{details}");
    }
}

#[test]
fn old_versions_have_one_address_of_each_family() {
    let config =
        r#""ipam":{"ranges":[[{"subnet":"10.1.2.0/24"}],[{"subnet":"10.1.3.0/24"}],[{"subnet":"2001:db8::/64"}]]}"#;
    let text = "CNI version 0.2.0 does not support more than 1 address per family";
    assert_eq!(parse_as("0.2.0", config), Err((7, text.to_owned(), String::new())));
    assert_eq!(parse_as("0.3.0", config).map(|config| config.sets.len()), Ok(3));
    let dual = config.replace(r#"[{"subnet":"10.1.3.0/24"}],"#, "");
    assert_eq!(parse_as("0.1.0", &dual).map(|config| config.sets.len()), Ok(2));
}

#[test]
fn routes_are_kept_as_given() {
    let route = r#"{"dst":"10.1.2.3/8","gw":"","mtu":1400,"advmss":1360,"priority":5,"table":0,"scope":253}"#;
    let config = parse(&format!(r#""ipam":{{"subnet":"10.1.2.0/24","routes":[{route}]}}"#)).expect("valid");
    let dst = "10.1.2.3/8".parse().expect("network");
    let want = Route { dst, gw: None, mtu: 1400, advmss: 1360, priority: 5, table: Some(0), scope: Some(253) };
    assert_eq!(config.routes, [want]);
}

#[test]
fn the_directory_is_cleaned_by_its_text() {
    for (ipam, want) in [
        (r"{}", "/var/lib/cni/networks/net"),
        (r#"{"dataDir":""}"#, "/var/lib/cni/networks/net"),
        (r#"{"dataDir":"/var/run/cni"}"#, "/var/run/cni/net"),
        (r#"{"datadir":"/a/./b//../c/"}"#, "/a/c/net"),
        (r#"{"dataDir":"/../../a"}"#, "/a/net"),
        (r#"{"dataDir":"rel/../../up"}"#, "../up/net"),
        (r#"{"dataDir":"."}"#, "net"),
        (r#"{"subnet":7,"ranges":"broken","dataDir":"/a"}"#, "/a/net"),
        ("null", "/var/lib/cni/networks/net"),
    ] {
        let request = request("DEL", &[], &format!(r#"{{"ipam":{ipam}}}"#));
        assert_eq!(directory(&request).expect("valid"), Path::new(want), "{ipam}");
    }
}
