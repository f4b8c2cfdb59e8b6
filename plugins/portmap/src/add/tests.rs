use super::*;
use crate::chains::ChainRegister;
use crate::fixtures::{TCP, at, config};
use cni_core::family::Family;

fn input(config: Config, targets: &[&str]) -> Input {
    let targets = targets.iter().map(|text| text.parse().expect("CIDR")).collect();
    let chains = ChainRegister::observe(&at(), &mut cni_testkit::FakeRecords::default());
    Input { config, at: at(), targets, chains, prev_result: CniResult::default() }
}

#[test]
fn add_lays_out_the_way_of_a_packet() {
    let br0 = IfName::parse("br0").expect("name");
    let plan =
        plan(&input(config("", TCP), &["10.88.0.5/24", "fd00:88::5/64"]), Some(&br0), &ContestedPorts::default());
    assert_eq!(
        plan.to_string(),
        r#"owned  host: ensure v4 nat
  shared chain CNI-HOSTPORT-SETMARK
  shared chain CNI-HOSTPORT-MASQ
  shared chain CNI-HOSTPORT-DNAT
  shared last -A CNI-HOSTPORT-SETMARK -m comment --comment "CNI portfwd masquerade mark" -j MARK --set-xmark 0x2000/0x2000
  shared last -A CNI-HOSTPORT-MASQ -m mark --mark 0x2000/0x2000 -j MASQUERADE
  shared first -A POSTROUTING -m comment --comment "CNI portfwd requiring masquerade" -j CNI-HOSTPORT-MASQ
  shared last -A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
  shared last -A OUTPUT -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
  replace chain CNI-DN-c189d8b6a7b4d184c9f70
  -A CNI-DN-c189d8b6a7b4d184c9f70 -s 10.88.0.0/24 -p tcp -m tcp --dport 8080 -j CNI-HOSTPORT-SETMARK
  -A CNI-DN-c189d8b6a7b4d184c9f70 -s 127.0.0.1/32 -p tcp -m tcp --dport 8080 -j CNI-HOSTPORT-SETMARK
  -A CNI-DN-c189d8b6a7b4d184c9f70 -p tcp -m tcp --dport 8080 -j DNAT --to-destination 10.88.0.5:80
  -A CNI-HOSTPORT-DNAT -p tcp -m comment --comment "dnat name: \"n1\" id: \"ctr1\"" -m multiport --dports 8080 -j CNI-DN-c189d8b6a7b4d184c9f70
shared host: sysctl net/ipv4/conf/br0/route_localnet=1
owned  host: ensure v6 nat
  shared chain CNI-HOSTPORT-SETMARK
  shared chain CNI-HOSTPORT-MASQ
  shared chain CNI-HOSTPORT-DNAT
  shared last -A CNI-HOSTPORT-SETMARK -m comment --comment "CNI portfwd masquerade mark" -j MARK --set-xmark 0x2000/0x2000
  shared last -A CNI-HOSTPORT-MASQ -m mark --mark 0x2000/0x2000 -j MASQUERADE
  shared first -A POSTROUTING -m comment --comment "CNI portfwd requiring masquerade" -j CNI-HOSTPORT-MASQ
  shared last -A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
  shared last -A OUTPUT -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
  replace chain CNI-DN-c189d8b6a7b4d184c9f70
  -A CNI-DN-c189d8b6a7b4d184c9f70 -s fd00:88::/64 -p tcp -m tcp --dport 8080 -j CNI-HOSTPORT-SETMARK
  -A CNI-DN-c189d8b6a7b4d184c9f70 -p tcp -m tcp --dport 8080 -j DNAT --to-destination [fd00:88::5]:80
  -A CNI-HOSTPORT-DNAT -p tcp -m comment --comment "dnat name: \"n1\" id: \"ctr1\"" -m multiport --dports 8080 -j CNI-DN-c189d8b6a7b4d184c9f70
"#
    );
}

#[test]
fn a_family_without_a_mapping_is_unchanged() {
    let v4_only = config("", r#"{"hostPort":1,"containerPort":1,"protocol":"tcp","hostIP":"0.0.0.0"}"#);
    let both = &["10.0.0.5/8", "fd00::5/64"];
    let families: Vec<Family> = input(v4_only, both).mapped().map(|target| target.family()).collect();
    assert_eq!(families, [Family::V4]);
    assert_eq!(plan(&input(config("", ""), both), None, &ContestedPorts::default()), Plan::default());
}

#[test]
fn loopback_is_routed_for_a_mapped_ipv4_address_that_is_masqueraded() {
    let v6_only = r#"{"hostPort":1,"containerPort":1,"protocol":"tcp","hostIP":"::"}"#;
    let v4 = "10.0.0.5".parse().expect("address");
    for (keys, mappings, addresses, want) in [
        ("", TCP, &["10.0.0.5/8", "fd00::5/64"][..], Some(v4)),
        (r#""masqAll":true"#, TCP, &["10.0.0.5/8"], Some(v4)),
        (r#""externalSetMarkChain":"X""#, TCP, &["10.0.0.5/8"], Some(v4)),
        (r#""snat":false"#, TCP, &["10.0.0.5/8"], None),
        ("", TCP, &["fd00::5/64"], None),
        ("", v6_only, &["10.0.0.5/8"], None),
        ("", "", &["10.0.0.5/8"], None),
    ] {
        assert_eq!(localnet_target(&input(config(keys, mappings), addresses)), want, "{keys} {mappings}");
    }
}
