use cni_testkit::attachment;

use super::*;

fn port(proto: Proto, family: Family) -> PublishedPort {
    PublishedPort { port: 80, proto, address: family.unspecified() }
}

fn rival(name: &str, ports: Vec<PublishedPort>, is_later: bool) -> ContestingAttachment {
    ContestingAttachment { owner: attachment("n1", name, "eth0"), home: None, ports, is_later }
}

#[test]
fn a_warning_names_the_ports_and_both_containers() {
    let ports = Family::ALL.map(|family| port(Proto::Tcp, family)).to_vec();
    let want = "container old (network n1, interface eth0) keeps host port tcp 0.0.0.0:80, tcp [::]:80: container new \
                gets it when that one is deleted; to use both at once, give one of them another port";
    assert_eq!(warning(&rival("old", ports, false), &attachment("n1", "new", "eth0")), want);
}

#[test]
fn earlier_ones_keep_their_connections_and_later_ones_come_behind_in_each_family() {
    let contested = ContestedPorts(vec![
        rival("a", vec![port(Proto::Udp, Family::V4), port(Proto::Tcp, Family::V6)], false),
        rival("c", vec![port(Proto::Udp, Family::V6)], true),
        rival("d", vec![port(Proto::Tcp, Family::V4), port(Proto::Tcp, Family::V6)], true),
    ]);
    let later = |family| contested.later(family).map(|at| at.container.as_str()).collect::<Vec<_>>();
    assert_eq!((later(Family::V4), later(Family::V6)), (vec!["d"], vec!["c", "d"]));
    let kept: Vec<String> = contested.kept_from_it().iter().map(ToString::to_string).collect();
    assert_eq!(kept, ["0.0.0.0:80"]);
}
