use super::*;
use cni_core::request::{Call, Environment};
use cni_core::version::Version;

/// The request of an ADD of `eth0` of the container `id1` to a bridge, with these further keys.
pub fn request(keys: &str) -> Request {
    let config = format!(r#"{{"cniVersion":"1.0.0","name":"net1","type":"bridge","bridge":"br0"{keys}}}"#);
    let variables = [("CNI_CONTAINERID", "id1"), ("CNI_NETNS", "/n"), ("CNI_IFNAME", "eth0"), ("CNI_PATH", "/")];
    let call = Call::parse("ADD", Environment::new(variables)).expect("a call");
    call.with_config(config.into_bytes(), Version::ALL).expect("a request")
}

fn load(keys: &str) -> Result<Vlans, (u32, String, String)> {
    let loaded = Config::load(&request(&format!(",{keys}")));
    loaded.map(|config| config.vlans).map_err(|error| (error.code().number(), error.to_string(), error.details()))
}

/// And the bridge tells VLANs apart where one of the two keys is there.
#[test]
fn a_port_gets_the_vlans_of_the_configuration() {
    for (keys, filtering, want) in [
        (r#""vlan":0"#, false, None),
        (r#""vlan":null,"vlanTrunk":null"#, false, None),
        (r#""preserveDefaultVlan":true"#, false, None),
        (r#""vlan":4094"#, true, Some("4094 pvid untagged")),
        (r#""vlan":5,"preserveDefaultVlan":true"#, true, Some("also 5 pvid untagged")),
        (r#""vlan":5,"preserveDefaultVlan":false"#, true, Some("5 pvid untagged")),
        (r#""vlanTrunk":[]"#, true, None),
        (r#""vlanTrunk":[{"id":null}]"#, true, None),
        (r#""vlanTrunk":[{"ID":20,"minid":22,"MAXID":30},{"id":21},{"id":25}]"#, true, Some("1 pvid untagged, 20-30")),
        (r#""vlanTrunk":[{"minID":1,"maxID":4094}]"#, true, Some("1 pvid untagged, 2-4094")),
        (r#""vlan":7,"vlanTrunk":[{"id":20},{"id":7}]"#, true, Some("7 pvid untagged, 20")),
        (r#""vlan":7,"vlanTrunk":[{"minID":6,"maxID":8}]"#, true, Some("7 pvid untagged, 6, 8")),
    ] {
        let vlans = load(keys).expect("valid");
        let port = vlans.port.map(|vlans| vlans.to_string());
        assert_eq!((vlans.filtering, port.as_deref()), (filtering, want), "{keys}");
    }
    assert_eq!(load(r#""vlan":5,"isGateway":true"#).expect("valid").gateway, None, "there is no address without IPAM");
}

#[test]
fn vlans_that_cannot_be_had_are_named_with_their_key() {
    let both =
        |which: &str| format!("7 minID and maxID should be configured simultaneously, {which} is missing|vlanTrunk[0]");
    for (keys, want) in [
        (r#""vlan":65541"#, "7 invalid VLAN ID 65541 (must be between 0 and 4094)|".to_owned()),
        (r#""vlan":"5""#, "6 failed to load netconf|vlan: invalid type: string \"5\", expected i64".to_owned()),
        (
            r#""vlanTrunk":[5]"#,
            "6 failed to load netconf|vlanTrunk[0]: invalid type: integer `5`, expected struct TrunkKeys".to_owned(),
        ),
        (r#""vlanTrunk":[{"id":5},null]"#, "7 incorrect trunk parameter: null|vlanTrunk[1]".to_owned()),
        (
            r#""vlanTrunk":[{"minID":0,"maxID":5}]"#,
            "7 incorrect trunk minID parameter|vlanTrunk[0]: minID 0 must be between 1 and 4094".to_owned(),
        ),
        (
            r#""vlanTrunk":[{"id":5},{"minID":1,"maxID":4095}]"#,
            "7 incorrect trunk maxID parameter|vlanTrunk[1]: maxID 4095 must be between 1 and 4094".to_owned(),
        ),
        (r#""vlanTrunk":[{"maxID":10}]"#, both("minID")),
        (r#""vlanTrunk":[{"minID":10,"maxID":null}]"#, both("maxID")),
        (
            r#""vlanTrunk":[{"id":-5}]"#,
            "7 incorrect trunk id parameter|vlanTrunk[0]: id -5 must be between 1 and 4094".to_owned(),
        ),
    ] {
        let (code, message, details) = load(keys).expect_err(keys);
        assert_eq!(format!("{code} {message}|{details}"), want, "{keys}");
    }
}
