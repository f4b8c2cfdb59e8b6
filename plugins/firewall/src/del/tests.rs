use super::*;
use cni_core::names::Attachment;

fn owner() -> Attachment {
    cni_testkit::attachment("n1", "ctr1", "eth0")
}

fn trusted() -> RuleBackend {
    RuleBackend::Firewalld(Zone::fixed("trusted"))
}

#[test]
fn the_rules_of_each_family_go_together() {
    let owned = ["10.88.0.5", "fd00:88::5"].map(|address| owned(address, vec![RuleBackend::Iptables]));
    assert_eq!(
        plans(owned.into()),
        [
            "owned  host: remove v4 filter
  -A CNI-FORWARD -d 10.88.0.5/32 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
  -A CNI-FORWARD -s 10.88.0.5/32 -j ACCEPT
",
            "owned  host: remove v6 filter
  -A CNI-FORWARD -d fd00:88::5/128 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
  -A CNI-FORWARD -s fd00:88::5/128 -j ACCEPT
",
        ]
    );
}

fn owned(address: &str, backends: Vec<RuleBackend>) -> OwnedAddress {
    OwnedAddress { address: address.parse().expect("address"), owner: owner(), backends }
}

/// The plan of each group, as text.
fn plans(owned: Vec<OwnedAddress>) -> Vec<String> {
    groups(owned).map(|group| plan(&group).to_string()).collect()
}

#[test]
fn what_goes_is_looked_for_wherever_it_was_put() {
    let work = RuleBackend::Firewalld(Zone::fixed("work"));
    let all = vec![
        owned("10.88.0.5", vec![RuleBackend::Iptables, work]),
        owned("10.88.0.6", vec![RuleBackend::Iptables]),
        owned("10.88.0.7", vec![]),
        owned("fd00:88::5", vec![trusted()]),
    ];
    assert_eq!(
        plans(all),
        [
            "owned  host: remove v4 filter
  -A CNI-FORWARD -d 10.88.0.6/32 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
  -A CNI-FORWARD -s 10.88.0.6/32 -j ACCEPT
",
            "owned  host: firewalld remove source 10.88.0.5/32 from zone work
owned  host: remove v4 filter
  -A CNI-FORWARD -d 10.88.0.5/32 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
  -A CNI-FORWARD -s 10.88.0.5/32 -j ACCEPT
",
            "",
            "owned  host: firewalld remove source fd00:88::5/128 from zone trusted
",
        ]
    );
}

#[test]
fn no_address_has_nothing() {
    assert_eq!(plans(Vec::new()), [""; 0]);
}
