use super::*;
use crate::config::Config;

fn load(keys: &str) -> Result<Vlans, (u32, String, String)> {
    let config = format!(r#"{{"cniVersion":"1.0.0","name":"net1","type":"bridge","bridge":"br0",{keys}}}"#);
    let loaded = Config::load(&cni_testkit::request("ADD", &[], &config));
    loaded.map(|config| config.vlans).map_err(cni_testkit::error_parts)
}

fn port(keys: &str) -> Option<String> {
    load(keys).expect("valid").port.map(|vlans| vlans.to_string())
}

#[test]
fn a_port_gets_the_vlans_of_the_configuration() {
    for (keys, want) in [
        (r#""vlan":0"#, None),
        (r#""vlan":null,"vlanTrunk":null"#, None),
        (r#""vlan":5"#, Some("5 pvid untagged")),
        (r#""vlan":4094"#, Some("4094 pvid untagged")),
        (r#""vlan":5,"preserveDefaultVlan":true"#, Some("also 5 pvid untagged")),
        (r#""vlan":5,"preserveDefaultVlan":false"#, Some("5 pvid untagged")),
        (r#""preserveDefaultVlan":true"#, None),
        (r#""vlanTrunk":[]"#, None),
        (r#""vlanTrunk":[{}]"#, None),
        (r#""vlanTrunk":[{"id":null}]"#, None),
        (r#""vlanTrunk":[{"id":20}]"#, Some("1 pvid untagged, 20")),
        (r#""vlanTrunk":[{"ID":20,"minid":22,"MAXID":30},{"id":21},{"id":25}]"#, Some("1 pvid untagged, 20-30")),
        (r#""vlanTrunk":[{"minID":1,"maxID":4094}]"#, Some("1 pvid untagged, 2-4094")),
        (r#""vlan":7,"vlanTrunk":[{"id":20},{"id":7}]"#, Some("7 pvid untagged, 20")),
        (r#""vlan":7,"vlanTrunk":[{"minID":6,"maxID":8}]"#, Some("7 pvid untagged, 6, 8")),
    ] {
        assert_eq!(port(keys).as_deref(), want, "{keys}");
    }
}

#[test]
fn a_bridge_tells_vlans_apart_when_one_of_the_two_keys_is_there() {
    for (keys, want) in [
        (r#""vlan":0"#, false),
        (r#""preserveDefaultVlan":true"#, false),
        (r#""vlanTrunk":null"#, false),
        (r#""vlan":5"#, true),
        (r#""vlanTrunk":[]"#, true),
        (r#""vlanTrunk":[{}]"#, true),
    ] {
        assert_eq!(load(keys).expect("valid").filtering, want, "{keys}");
    }
}

#[test]
fn the_gateway_of_a_vlan_is_a_link_to_it() {
    let with_ipam = r#""ipam":{"type":"host-local"}"#;
    let gateway = |keys: &str| {
        let vlans = load(&format!("{keys},{with_ipam}")).expect("valid");
        vlans.gateway.map(|link| (link.name.to_string(), link.vlans.to_string()))
    };
    let link = Some(("br0.5".to_owned(), "5 pvid untagged".to_owned()));
    assert_eq!(gateway(r#""vlan":5,"isGateway":true"#), link);
    assert_eq!(gateway(r#""vlan":5,"isDefaultGateway":true,"vlanTrunk":[{"id":20}]"#), link);
    assert_eq!(gateway(r#""vlan":5"#), None);
    assert_eq!(gateway(r#""vlanTrunk":[{"id":20}],"isGateway":true"#), None);
    assert_eq!(load(r#""vlan":5,"isGateway":true"#).expect("valid").gateway, None, "there is no address without IPAM");
}

#[test]
fn vlans_that_cannot_be_had_are_named_with_their_key() {
    for (keys, code, message, details) in [
        (r#""vlan":4095"#, 7, "invalid VLAN ID 4095 (must be between 0 and 4094)", ""),
        (r#""vlan":-1"#, 7, "invalid VLAN ID -1 (must be between 0 and 4094)", ""),
        (r#""vlan":65541"#, 7, "invalid VLAN ID 65541 (must be between 0 and 4094)", ""),
        (r#""vlan":"5""#, 6, "failed to load netconf", r#"vlan: invalid type: string "5", expected i64"#),
        (r#""vlanTrunk":{}"#, 6, "failed to load netconf", "vlanTrunk: invalid type: map, expected a sequence"),
        (
            r#""vlanTrunk":[5]"#,
            6,
            "failed to load netconf",
            "vlanTrunk[0]: invalid type: integer `5`, expected struct TrunkKeys",
        ),
        (r#""vlanTrunk":[null]"#, 7, "incorrect trunk parameter: null", "vlanTrunk[0]"),
        (r#""vlanTrunk":[{"id":5},null]"#, 7, "incorrect trunk parameter: null", "vlanTrunk[1]"),
        (
            r#""vlanTrunk":[{"minID":0,"maxID":5}]"#,
            7,
            "incorrect trunk minID parameter",
            "vlanTrunk[0]: minID 0 must be between 1 and 4094",
        ),
        (
            r#""vlanTrunk":[{"id":5},{"minID":1,"maxID":4095}]"#,
            7,
            "incorrect trunk maxID parameter",
            "vlanTrunk[1]: maxID 4095 must be between 1 and 4094",
        ),
        (
            r#""vlanTrunk":[{"minID":20,"maxID":10}]"#,
            7,
            "minID is greater than maxID in trunk parameter",
            "vlanTrunk[0]: 20 is greater than 10",
        ),
        (
            r#""vlanTrunk":[{"maxID":10}]"#,
            7,
            "minID and maxID should be configured simultaneously, minID is missing",
            "vlanTrunk[0]",
        ),
        (
            r#""vlanTrunk":[{"minID":10,"maxID":null}]"#,
            7,
            "minID and maxID should be configured simultaneously, maxID is missing",
            "vlanTrunk[0]",
        ),
        (
            r#""vlanTrunk":[{"id":-5}]"#,
            7,
            "incorrect trunk id parameter",
            "vlanTrunk[0]: id -5 must be between 1 and 4094",
        ),
        (
            r#""bridge":"abcdefghijk","vlan":4094,"isGateway":true,"ipam":{"type":"x"}"#,
            7,
            r#"failed to create vlan interface: failed to create vlan gateway "abcdefghijk.4094""#,
            "interface name is too long: abcdefghijk.4094 has 16 bytes, and 15 fit",
        ),
    ] {
        assert_eq!(load(keys), Err((code, message.to_owned(), details.to_owned())), "{keys}");
    }
}
