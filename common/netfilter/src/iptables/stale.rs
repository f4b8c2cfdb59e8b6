//! Finds the rules of containers that no longer exist.

use super::change::{IptablesRemoval, JumpRemoval, OwnedChainRef};
use super::rule::{IptablesRule, IptablesTable, Match, Target};
use cni_core::family::Family;
use cni_core::names::{ChainName, Comment, NetworkName};
use cni_core::valid::ValidAttachments;

/// The beginning of the name of every container's own chain.
const OWNED: &str = "CNI-";

/// The removal of the containers' chains to which some of these rules jump, and of these rules: those whose comments
/// name an attachment of the network that is not valid. Returns `None` if no rule does.
///
/// The rules are those of one chain. A container's chain stays as long as a rule of another container jumps to it.
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
            chains.push(OwnedChainRef { name, parents: vec![rule.chain.clone()], jumps: JumpRemoval::Listed });
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
