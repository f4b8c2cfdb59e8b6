use super::*;
use crate::fixtures::{TCP, at, config};

#[test]
fn del_names_both_chains_and_what_leads_to_them() {
    let expected = entries(&config("", TCP), &at(), &at().dnat_chain(), Family::V4);
    assert_eq!(
        removal(Family::V4, &at(), &at().dnat_chain(), expected).to_string(),
        r#"remove v4 nat
  chain CNI-DN-c189d8b6a7b4d184c9f70, all jumps in CNI-HOSTPORT-DNAT
  chain CNI-SN-c189d8b6a7b4d184c9f70, all jumps in CNI-HOSTPORT-SNAT
  -A CNI-HOSTPORT-DNAT -p tcp -m comment --comment "dnat name: \"n1\" id: \"ctr1\"" -m multiport --dports 8080 -j CNI-DN-c189d8b6a7b4d184c9f70"#
    );
}

#[test]
fn a_rule_stands_once_in_the_containers_chain() {
    let twice = config("", &format!("{TCP},{TCP}"));
    let wanted = ensure(&twice, &at(), &at().dnat_chain(), "10.0.0.5/8".parse().expect("CIDR"), RulePosition::Back);
    let chain = wanted.chains.first().expect("a chain");
    assert_eq!(chain.rules.len(), 3);
}

#[test]
fn nothing_leads_to_a_container_without_a_mapping_of_the_family() {
    let v4_only = config("", r#"{"hostPort":1,"containerPort":1,"protocol":"tcp","hostIP":"0.0.0.0"}"#);
    assert_eq!(entries(&v4_only, &at(), &at().dnat_chain(), Family::V6), []);
}

#[test]
fn many_ports_take_as_many_rules_in_no_time_to_speak_of() {
    let mapping = |port: u16| format!(r#"{{"hostPort":{port},"containerPort":80,"protocol":"udp"}}"#);
    let mappings: Vec<String> = (1..=20_000).chain(1..=20_000).map(mapping).collect();
    let wanted = ensure(
        &config("", &mappings.join(",")),
        &at(),
        &at().dnat_chain(),
        "10.0.0.5/8".parse().expect("CIDR"),
        RulePosition::Back,
    );
    assert_eq!(wanted.chains.first().map(|chain| chain.rules.len()), Some(60_000));
}
