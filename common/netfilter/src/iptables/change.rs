//! What a plugin wants of one table of one family, as data.

use std::collections::HashSet;
use std::fmt;
use std::net::IpAddr;

use super::rule::{IptablesRule, IptablesTable};
use crate::position::{ReplacementUndo, RulePosition};
use cni_core::family::Family;
use cni_core::names::ChainName;

/// Where a missing shared rule is added. A rule that exists elsewhere in the chain is not moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RulePlacement {
    /// Before all others.
    First,
    /// After all others.
    Last,
    /// Before all others, and never behind this one: where it is, it is moved to the top.
    Above(IptablesRule),
    /// Before all others but this one, which is not made: where it exists, it is moved to the top again.
    Below(IptablesRule),
}

/// A rule that all containers share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedRule {
    pub rule: IptablesRule,
    /// Where the rule is added.
    pub place: RulePlacement,
}

impl SharedRule {
    /// The rule, and the one that it must precede, if any.
    pub(super) const fn order(&self) -> Option<(&IptablesRule, &IptablesRule)> {
        if let RulePlacement::Above(other) = &self.place { Some((&self.rule, other)) } else { None }
    }
}

/// What to do with the rules of an owned chain that exists already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExistingChain {
    /// They are removed unless they are what is wanted. So are the unwanted rules that jump to the chain from the chains that
    /// contain our rules; wanted ones keep their places.
    Replace,
    /// As `Replace`, and the order matters, including that of the rules that jump to the chain: if it differs, all are
    /// made again. The search for missing rules compares the order too.
    ReplaceInOrder,
    /// The rules stay; missing ones are added before the last of the wanted rules, which stays last.
    Merge,
}

/// A chain that belongs to one container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedChain {
    pub name: ChainName,
    /// Its rules in order.
    pub rules: Vec<IptablesRule>,
    /// What to do if the chain exists.
    pub existing: ExistingChain,
}

/// Rules that must exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IptablesRuleset {
    pub family: Family,
    pub table: IptablesTable,
    /// Chains that all containers share: made when missing, never emptied, never removed.
    pub shared_chains: Vec<ChainName>,
    /// Rules that all containers share, in the order in which missing ones are put in their places.
    pub shared: Vec<SharedRule>,
    /// The container's own chains. They may jump to each other.
    pub chains: Vec<OwnedChain>,
    /// The container's own rules in chains that it shares, in order.
    pub rules: Vec<IptablesRule>,
    /// The position of the rules among those of others. Existing rules are not moved.
    pub position: RulePosition,
}

impl IptablesRemoval {
    /// Takes in another removal from the same table. Returns whether that is possible: not where both remove the same chain.
    pub(crate) fn join(&mut self, other: &Self) -> bool {
        let Self { family, table, chains, rules } = self;
        let is_taken = |chain: &OwnedChainRef| chains.iter().any(|own| own.name == chain.name);
        if (*family, *table) != (other.family, other.table) || other.chains.iter().any(is_taken) {
            return false;
        }
        chains.extend_from_slice(&other.chains);
        extend(rules, &other.rules);
        true
    }
}

/// Appends the elements that are missing.
fn extend<T: Clone + PartialEq>(there: &mut Vec<T>, more: &[T]) {
    for one in more {
        if !there.contains(one) {
            there.push(one.clone());
        }
    }
}

/// The rules that jump to an owned chain and are removed with it, besides those that are listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JumpRemoval {
    All,
    /// All but those for packets from these addresses. The chain stays as long as one of these does.
    AllBut(Vec<IpAddr>),
    /// None. The chain stays as long as one is left.
    Listed,
}

/// A container's chain that is to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedChainRef {
    pub name: ChainName,
    /// The chains with rules that jump to it.
    pub parents: Vec<ChainName>,
    /// Which of those rules go.
    pub jumps: JumpRemoval,
}

/// The undo of a change of one table.
pub type IptablesUndo = ReplacementUndo<IptablesRuleset, IptablesRemoval>;

/// Rules to be removed. Absence is success.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IptablesRemoval {
    pub family: Family,
    pub table: IptablesTable,
    /// Chains to be removed, with their rules and the rules that jump to them.
    pub chains: Vec<OwnedChainRef>,
    /// Rules to remove, every copy of them, from chains that stay.
    pub rules: Vec<IptablesRule>,
}

impl IptablesRuleset {
    /// Takes in what another ruleset wants of the same table, so that one change makes both. Returns whether that is
    /// possible: not where the two put rules to different places of shared chains, or want the same chain of their own.
    pub fn join(&mut self, other: &Self) -> bool {
        let is_taken = |chain: &OwnedChain| self.chains.iter().any(|own| own.name == chain.name);
        if (self.family, self.table, &self.position) != (other.family, other.table, &other.position)
            || other.chains.iter().any(is_taken)
        {
            return false;
        }
        extend(&mut self.shared_chains, &other.shared_chains);
        extend(&mut self.shared, &other.shared);
        self.chains.extend_from_slice(&other.chains);
        self.rules.extend_from_slice(&other.rules);
        true
    }

    /// The same with one copy of each rule. The number of rules may be large.
    #[must_use]
    pub fn without_copies(mut self) -> Self {
        let mut seen = HashSet::new();
        self.rules.retain(|rule| seen.insert(rule.clone()));
        self
    }

    /// The chains that are read when the shared rules have to be looked at.
    pub(super) fn chains(&self) -> impl Iterator<Item = &ChainName> {
        let shared = self.shared.iter().map(|shared| &shared.rule.chain);
        let owned = self.chains.iter().map(|chain| &chain.name);
        self.shared_chains.iter().chain(shared).chain(owned).chain(self.rules.iter().map(|rule| &rule.chain))
    }

    /// Every rule that is wanted, in the order in which a packet's way is laid out.
    pub(super) fn all_rules(&self) -> impl Iterator<Item = &IptablesRule> {
        let shared = self.shared.iter().map(|shared| &shared.rule);
        shared.chain(self.chains.iter().flat_map(|chain| &chain.rules)).chain(&self.rules)
    }
}

impl fmt::Display for ExistingChain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Replace => "replace",
            Self::ReplaceInOrder => "replace in order",
            Self::Merge => "merge",
        })
    }
}

impl fmt::Display for RulePlacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::First | Self::Above(_) | Self::Below(_) => "first",
            Self::Last => "last",
        })
    }
}

impl fmt::Display for JumpRemoval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all jumps"),
            Self::AllBut(sources) => {
                f.write_str("all jumps but from")?;
                sources.iter().try_for_each(|source| write!(f, " {source}"))
            }
            Self::Listed => f.write_str("listed jumps"),
        }
    }
}

impl fmt::Display for IptablesRuleset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { family, table, shared_chains, shared, chains, rules, position } = self;
        write!(f, "ensure {family} {table}")?;
        shared_chains.iter().try_for_each(|name| write!(f, "\n  shared chain {name}"))?;
        shared.iter().try_for_each(|SharedRule { rule, place }| write!(f, "\n  shared {place} {rule}"))?;
        for OwnedChain { name, rules, existing } in chains {
            write!(f, "\n  {existing} chain {name}")?;
            rules.iter().try_for_each(|rule| write!(f, "\n  {rule}"))?;
        }
        rules.iter().try_for_each(|rule| write!(f, "\n  {position}{rule}"))
    }
}

impl fmt::Display for IptablesRemoval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { family, table, chains, rules } = self;
        write!(f, "remove {family} {table}")?;
        for OwnedChainRef { name, parents, jumps } in chains {
            let parents: Vec<&str> = parents.iter().map(ChainName::as_str).collect();
            write!(f, "\n  chain {name}, {jumps} in {}", parents.join(" "))?;
        }
        rules.iter().try_for_each(|rule| write!(f, "\n  {rule}"))
    }
}
