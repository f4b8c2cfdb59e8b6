use cni_netfilter::Proto;
use cni_testkit::attachment;
use proptest::prelude::*;

use super::*;

fn port(family: Family) -> PublishedPort {
    PublishedPort { port: 80, proto: Proto::Tcp, address: family.unspecified() }
}

fn position(owner: &Attachment, rivals: &[(Presence, bool, Vec<Family>)]) -> [RulePosition; 2] {
    let judged: Vec<(Rival<'_>, Presence)> = rivals
        .iter()
        .map(|(presence, is_newer, families)| {
            let ports = families.iter().copied().map(port).collect();
            (Rival { owner, home: None, ports, is_newer: *is_newer }, *presence)
        })
        .collect();
    let crowded = after_repair(&judged);
    Family::ALL.map(|family| crowded.position(family))
}

#[test]
fn a_warning_names_the_ports_and_both_containers() {
    let (owner, at) = (attachment("n1", "old", "eth0"), attachment("n1", "new", "eth0"));
    let ports = Family::ALL.map(port).to_vec();
    let rival = Rival { owner: &owner, home: None, ports, is_newer: false };
    let want = "container old (network n1, interface eth0) has host port tcp 0.0.0.0:80, tcp [::]:80 as well: new \
                connections go to container new as long as that one lives; give one of them another port";
    assert_eq!(warning(&rival, &at), want);
}

proptest! {
    /// In each family by itself.
    #[test]
    fn a_repair_goes_in_front_of_others_unless_a_newer_one_lives(
        rivals in prop::collection::vec((any::<bool>(), any::<bool>(), any::<[bool; 2]>()), 0..5)
    ) {
        let owner = attachment("n1", "old", "eth0");
        let rivals: Vec<(Presence, bool, Vec<Family>)> = rivals
            .into_iter()
            .map(|(lives, is_newer, has)| {
                let families = Family::ALL.into_iter().zip(has).filter(|(_, has)| *has).map(|(family, _)| family);
                (if lives { Presence::Living } else { Presence::Dead }, is_newer, families.collect())
            })
            .collect();
        for (family, found) in Family::ALL.into_iter().zip(position(&owner, &rivals)) {
            let in_family = || rivals.iter().filter(|(_, _, families)| families.contains(&family));
            let outdone = in_family().any(|(presence, is_newer, _)| *is_newer && *presence == Presence::Living);
            let want = if in_family().count() > 0 && !outdone { RulePosition::Front } else { RulePosition::Back };
            prop_assert_eq!(found, want);
        }
    }
}
