use super::*;
use cni_core::names::{Attachment, ContainerId, IfName, NetworkName};

fn owner() -> Attachment {
    Attachment {
        network: NetworkName::parse("n1").expect("network"),
        container: ContainerId::parse("ctr1").expect("container"),
        ifname: IfName::parse("eth0").expect("interface"),
    }
}

fn trusted() -> Keeper {
    Keeper::Firewalld(Zone::fixed("trusted"))
}

#[test]
fn del_releases_an_address_once_its_rules_are_gone() {
    let held = ["10.88.0.5", "fd00:88::5"].map(|address| held(address, vec![Keeper::Iptables]));
    let plans: Vec<String> = plans(&held).iter().map(Plan::to_string).collect();
    assert_eq!(
        plans,
        [
            "owned  host: remove v4 filter
  -A CNI-FORWARD -d 10.88.0.5/32 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
  -A CNI-FORWARD -s 10.88.0.5/32 -j ACCEPT
owned  host: release 10.88.0.5 of n1 ctr1 eth0
",
            "owned  host: remove v6 filter
  -A CNI-FORWARD -d fd00:88::5/128 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
  -A CNI-FORWARD -s fd00:88::5/128 -j ACCEPT
owned  host: release fd00:88::5 of n1 ctr1 eth0
",
        ]
    );
}

fn held(address: &str, keepers: Vec<Keeper>) -> Held {
    Held { address: address.parse().expect("address"), owner: owner(), keepers }
}

#[test]
fn what_goes_is_looked_for_wherever_it_was_put() {
    let work = Keeper::Firewalld(Zone::fixed("work"));
    let plans = plans(&[
        held("10.88.0.5", vec![Keeper::Iptables, work]),
        held("10.88.0.6", vec![Keeper::Iptables]),
        held("10.88.0.7", vec![]),
        held("fd00:88::5", vec![trusted()]),
    ]);
    let texts: Vec<String> = plans.iter().map(Plan::to_string).collect();
    assert_eq!(
        texts,
        [
            "owned  host: remove v4 filter
  -A CNI-FORWARD -d 10.88.0.6/32 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
  -A CNI-FORWARD -s 10.88.0.6/32 -j ACCEPT
owned  host: release 10.88.0.6 of n1 ctr1 eth0
",
            "owned  host: firewalld remove source 10.88.0.5/32 from zone work
owned  host: remove v4 filter
  -A CNI-FORWARD -d 10.88.0.5/32 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
  -A CNI-FORWARD -s 10.88.0.5/32 -j ACCEPT
owned  host: release 10.88.0.5 of n1 ctr1 eth0
",
            "owned  host: release 10.88.0.7 of n1 ctr1 eth0
",
            "owned  host: firewalld remove source fd00:88::5/128 from zone trusted
owned  host: release fd00:88::5 of n1 ctr1 eth0
",
        ]
    );
}

#[test]
fn no_address_has_nothing() {
    assert_eq!(plans(&[]), []);
}
