use super::*;
use crate::fixtures::{TCP, at, config};

#[test]
fn a_rule_stands_once_in_the_containers_chain() {
    let twice = config("", &format!("{TCP},{TCP}"));
    let wanted = ensure(&twice, &at(), &at().dnat_chain(), "10.0.0.5/8".parse().expect("CIDR"), RulePosition::Back);
    let chain = wanted.chains.first().expect("a chain");
    assert_eq!(chain.rules.len(), 3);
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
