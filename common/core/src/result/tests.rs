use super::*;

const MODERN: &str = r#"{"cniVersion":"1.1.0",
"dns":{"domain":"example","nameservers":["10.1.2.1"]},
"interfaces":[{"mac":"aa:aa:aa:aa:aa:aa","name":"br0"},{"mac":"a\u003cb\u0026","mtu":1400,"name":"eth0","pciID":"1","sandbox":"/run/netns/ctr","socketPath":"/s"}],
"ips":[{"address":"10.88.0.5/24","gateway":"10.88.0.1","interface":1},{"address":"fd00::5/64"}],
"routes":[{"dst":"0.0.0.0/0"},{"advmss":1300,"dst":"fd01::/64","gw":"fd00::1","mtu":1400,"priority":5,"scope":0,"table":100}]}"#;

const LEGACY: &str = r#"{"cniVersion":"0.4.0",
"interfaces":[{"name":"br0","mac":"aa:aa:aa:aa:aa:aa"},{"name":"eth0","mac":"a\u003cb\u0026","sandbox":"/run/netns/ctr"}],
"ips":[{"version":"4","interface":1,"address":"10.88.0.5/24","gateway":"10.88.0.1"},{"version":"6","address":"fd00::5/64"}],
"routes":[{"dst":"0.0.0.0/0"},{"dst":"fd01::/64","gw":"fd00::1","mtu":1400,"advmss":1300,"priority":5,"table":100,"scope":0}],
"dns":{"nameservers":["10.1.2.1"],"domain":"example"}}"#;

const ANCIENT: &str = r#"{"cniVersion":"0.2.0",
"ip4":{"ip":"10.88.0.5/24","gateway":"10.88.0.1",
"routes":[{"dst":"0.0.0.0/0"}]},
"ip6":{"ip":"fd00::5/64",
"routes":[{"dst":"fd01::/64","gw":"fd00::1"}]},
"dns":{"nameservers":["10.1.2.1"],"domain":"example"}}"#;

fn json(text: &str) -> Json {
    Json::parse(text.as_bytes()).expect("JSON")
}

/// JSON without white space. No value in it contains any.
fn without_space(text: &str) -> String {
    text.split_whitespace().collect()
}

fn modern() -> CniResult {
    CniResult::parse_prev(&json(MODERN), Version::V1_1_0).expect("valid")
}

#[test]
fn every_version_prints_its_shape() {
    for (version, want) in [
        (Version::V1_1_0, MODERN.to_owned()),
        (Version::V1_0_0, MODERN.replace("1.1.0", "1.0.0")),
        (Version::V0_4_0, LEGACY.to_owned()),
        (Version::V0_3_1, LEGACY.replace("0.4.0", "0.3.1")),
        (Version::V0_3_0, LEGACY.replace("0.4.0", "0.3.0")),
        (Version::V0_2_0, ANCIENT.to_owned()),
        (Version::V0_1_0, ANCIENT.replace("0.2.0", "0.1.0")),
    ] {
        let want = want.replace('\n', "");
        assert_eq!(modern().render(version).map(|text| without_space(&text)), Ok(want), "{version}");
    }
}

#[test]
fn an_empty_result_says_so_in_each_shape() {
    let empty = CniResult::default();
    assert_eq!(empty.render(Version::V1_0_0), Ok("{\n    \"cniVersion\": \"1.0.0\"\n}".to_owned()));
    assert_eq!(empty.render(Version::V0_4_0), Ok("{\n    \"cniVersion\": \"0.4.0\",\n    \"dns\": {}\n}".to_owned()));
    let nested = CniResult { routes: modern().routes[..1].to_vec(), ..CniResult::default() };
    let want = "{\n    \"cniVersion\": \"1.0.0\",\n    \"routes\": [\n        {\n            \"dst\": \"0.0.0.0/0\"\n        }\n    ]\n}";
    assert_eq!(nested.render(Version::V1_0_0), Ok(want.to_owned()));
    let refused = empty.render(Version::V0_1_0).expect_err("no address").in_full();
    assert_eq!(refused, "cannot convert: no valid IP addresses: a result of cniVersion 0.1.0 needs an address");
}

#[test]
fn a_prev_result_must_go_with_the_configuration() {
    for (config, found, want) in [
        (Version::V1_0_0, "0.4.0", "[1.0.0 1.1.0]"),
        (Version::V0_4_0, "1.0.0", "[0.3.0 0.3.1 0.4.0]"),
        (Version::V0_3_1, "", "[0.3.0 0.3.1 0.4.0]"),
        (Version::V0_2_0, "0.3.0", "[ 0.1.0 0.2.0]"),
    ] {
        let prev = json(&format!(r#"{{"cniVersion":"{found}"}}"#));
        let error = CniResult::parse_prev(&prev, config).expect_err("another shape");
        let text = format!("result type supports {want} but unmarshalled CNIVersion is {found:?}");
        assert_eq!(error.to_string(), format!("could not parse prevResult: {text}"));
    }
}

#[test]
fn unknown_versions_and_wrong_types_are_named() {
    let unknown = CniResult::parse_any(&json(r#"{"cniVersion":"9.9.9"}"#), Version::LATEST).expect_err("unknown");
    assert_eq!(unknown.to_string(), r#"unsupported CNI result version "9.9.9""#);
    for (text, want) in [
        (r#"{"ips":[{"address":"10.0.0.1"}]}"#, "ips[0].address: invalid CIDR address: 10.0.0.1"),
        (r#"{"ips":[{}]}"#, "ips[0]: missing field `address`"),
        (r#"{"ips":[null]}"#, "ips[0]: missing field `address`"),
        (r#"{"ips":[{"address":"10.0.0.1/8","gateway":"x"}]}"#, "ips[0].gateway: invalid IP address: x"),
        (r#"{"routes":[{"dst":"0.0.0.0/0","mtu":"x"}]}"#, r#"routes[0].mtu: invalid type: string "x", expected i64"#),
        ("[]", "invalid type: sequence, expected struct ResultFrom030"),
        (r#"{"cniVersion":1}"#, "cniVersion: invalid type: integer `1`, expected a string"),
    ] {
        let error = CniResult::parse_prev(&json(text), Version::V1_0_0).expect_err("refused");
        assert_eq!((error.to_string().as_str(), error.details().as_str()), ("could not parse prevResult", want));
        let error = CniResult::parse_any(&json(text), Version::V1_0_0).expect_err("refused");
        let said = (error.to_string(), error.details());
        assert_eq!(said, ("could not parse the result of a plugin".to_owned(), want.to_owned()));
    }
}

#[test]
fn addresses_are_attributed_by_interface_name_and_sandbox() {
    let mut result = modern();
    let own = |result: &CniResult| result.ips_of("eth0").map(|ip| ip.address.to_string()).collect::<Vec<_>>();
    assert_eq!(own(&result), ["10.88.0.5/24", "fd00::5/64"]);
    result.ips[1].interface = Some(0);
    assert_eq!(own(&result), ["10.88.0.5/24"]);
    result.ips[1].interface = Some(-1);
    assert_eq!(own(&result), ["10.88.0.5/24", "fd00::5/64"]);
}
