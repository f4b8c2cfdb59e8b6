use crate::fixtures::entry;

use super::*;

fn port(proto: Proto, family: Family) -> PublishedPort {
    PublishedPort { port: 80, proto, address: family.unspecified() }
}

fn rival(name: &str, ports: Vec<PublishedPort>, is_later: bool) -> ContestingAttachment {
    ContestingAttachment { entry: entry(name, ""), ports, is_later, home: None }
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
