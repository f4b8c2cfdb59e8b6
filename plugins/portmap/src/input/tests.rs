use super::*;
use cni_core::json::Json;
use cni_core::version::Version;

fn result(text: &str) -> CniResult {
    CniResult::parse_prev(&Json::parse(text.as_bytes()).expect("JSON"), Version::V1_0_0).expect("result")
}

#[test]
fn ports_lead_to_the_first_address_of_each_family_on_the_containers_interface() {
    let result = result(
        r#"{"interfaces":[{"name":"br0"},{"name":"eth0","sandbox":"/n"},{"name":"eth1","sandbox":"/n"}],
            "ips":[{"address":"10.0.0.1/8","interface":0},{"address":"fd00::5/64","interface":1},
                {"address":"10.1.0.5/16","interface":2},{"address":"10.0.0.5/8","interface":9},
                {"address":"10.0.0.6/8","interface":1}]}"#,
    );
    let reported: Vec<String> =
        targets(&result, &IfName::parse("eth0").expect("name")).iter().map(Cidr::to_string).collect();
    assert_eq!(reported, ["10.0.0.5/8", "fd00::5/64"]);
}
