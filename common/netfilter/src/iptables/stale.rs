//! Finds the rules of containers that are no more.

use super::change::{IptablesRemoval, Jumps, OwnedChainRef};
use super::rule::{IptablesRule, IptablesTable, Match, Target};
use cni_core::family::Family;
use cni_core::names::{ChainName, Comment, NetworkName};
use cni_core::valid::ValidAttachments;

/// How the name of every container's own chain begins.
const OWNED: &str = "CNI-";

/// What removes the containers' chains to which some of these rules lead, and these rules: those whose
/// comments say that they belong to the network, but to no valid attachment. `None` when there is none.
///
/// The rules are those of one chain. A container's chain stays as long as a rule of another's leads to it.
pub fn stale(
    family: Family,
    table: IptablesTable,
    rules: Vec<IptablesRule>,
    network: &NetworkName,
    valid: &ValidAttachments,
) -> Option<IptablesRemoval> {
    let kept: Vec<Comment> = valid.of_network(network).flat_map(|at| [at.comment(), at.dnat_comment()]).collect();
    let is_stale = |comment: &Comment| comment.is_of(network) && !kept.contains(comment);
    let mut chains: Vec<OwnedChainRef> = Vec::new();
    let mut stale = Vec::new();
    for rule in rules {
        let Some(name) = owned_chain(&rule).filter(|_| comment(&rule).is_some_and(is_stale)).cloned() else {
            continue;
        };
        if chains.iter().all(|chain| chain.name != name) {
            chains.push(OwnedChainRef { name, parents: vec![rule.chain.clone()], jumps: Jumps::Listed });
        }
        stale.push(rule);
    }
    (!stale.is_empty()).then_some(IptablesRemoval { family, table, chains, rules: stale })
}

fn owned_chain(rule: &IptablesRule) -> Option<&ChainName> {
    if let Target::Jump(chain) = &rule.target {
        Some(chain).filter(|chain| chain.as_str().starts_with(OWNED))
    } else {
        None
    }
}

fn comment(rule: &IptablesRule) -> Option<&Comment> {
    rule.matches.iter().find_map(|part| if let Match::Comment(comment) = part { Some(comment) } else { None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iptables::fake::FakeIptables;
    use crate::iptables::{Iptables, remove};
    use cni_core::json::Json;

    const POSTROUTING: &str = r#"
-N CNI-aaaa
-N CNI-bbbb
-N CNI-cccc
-N CNI-dddd
-N CNI-HOSTPORT-MASQ
-A POSTROUTING -m comment --comment "CNI portfwd requiring masquerade" -j CNI-HOSTPORT-MASQ
-A POSTROUTING -s 10.1.2.2/32 -m comment --comment "name: \"n1\" id: \"kept\"" -j CNI-aaaa
-A POSTROUTING -s 10.1.2.3/32 -m comment --comment "name: \"n1\" id: \"lost\"" -j CNI-bbbb
-A POSTROUTING -s 10.1.2.4/32 -m comment --comment "name: \"n1\" id: \"lost\"" -j CNI-bbbb
-A POSTROUTING -s 10.1.2.5/32 -m comment --comment "name: \"n1\" id: \"lost-too\"" -j CNI-dddd
-A POSTROUTING -s 10.2.2.2/32 -m comment --comment "name: \"n2\" id: \"lost\"" -j CNI-cccc
-A POSTROUTING -s 10.1.2.5/32 -m comment --comment "name: \"n1\" id: \"lost\"" -j ACCEPT
-A POSTROUTING -s 10.1.2.5/32 -m comment --comment "name: \"n1\"" -j CNI-aaaa
-A POSTROUTING -s 10.3.0.0/16 -j CNI-dddd
-A CNI-bbbb -m comment --comment "name: \"n1\" id: \"lost\"" -j MASQUERADE
"#;

    fn valid(ids: &[&str]) -> ValidAttachments {
        let entries: Vec<String> =
            ids.iter().map(|id| format!(r#"{{"containerID":"{id}","ifname":"eth0"}}"#)).collect();
        let config = format!(r#"{{"cni.dev/valid-attachments":[{}]}}"#, entries.join(","));
        ValidAttachments::parse(&Json::parse(config.as_bytes()).expect("JSON")).expect("valid").expect("a list")
    }

    fn found(fake: &mut FakeIptables, network: &str, ids: &[&str]) -> Option<IptablesRemoval> {
        let rules =
            fake.list(Family::V4, IptablesTable::Nat, &ChainName::fixed("POSTROUTING")).expect("read").expect("there");
        stale(Family::V4, IptablesTable::Nat, rules, &NetworkName::parse(network).expect("network"), &valid(ids))
    }

    #[test]
    fn only_what_is_of_the_network_and_not_valid_goes() {
        let mut fake = FakeIptables::new();
        fake.load(Family::V4, IptablesTable::Nat, POSTROUTING).expect("loads");
        assert_eq!(found(&mut fake, "n1", &["kept", "lost", "lost-too"]), None);
        assert_eq!(found(&mut fake, "n3", &[]), None);
        let one = found(&mut fake, "n1", &["kept", "lost-too"]).expect("stale rules");
        remove(&mut fake, &one).expect("removed");
        let left = fake.dump(Family::V4, IptablesTable::Nat);
        let gone: Vec<&str> = POSTROUTING.lines().filter(|line| !line.is_empty() && !left.contains(line)).collect();
        let want = [1, 7, 8, 14].map(|line| POSTROUTING.trim().lines().nth(line).expect("a line"));
        assert_eq!(gone, want);
        assert_eq!(fake.commits(), 1);
    }

    #[test]
    fn an_empty_list_leaves_nothing_but_a_chain_that_others_lead_to() {
        let mut fake = FakeIptables::new();
        fake.load(Family::V4, IptablesTable::Nat, POSTROUTING).expect("loads");
        let all = found(&mut fake, "n1", &[]).expect("stale rules");
        remove(&mut fake, &all).expect("removed");
        let left = fake.dump(Family::V4, IptablesTable::Nat);
        assert!(!left.contains("lost-too") && left.contains("-A POSTROUTING -s 10.3.0.0/16 -j CNI-dddd"), "{left}");
        assert!(!left.contains("CNI-bbbb") && left.contains("CNI-cccc") && left.contains("-N CNI-aaaa"), "{left}");
    }
}
