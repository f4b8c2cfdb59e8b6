//! Rules that must exist, or must not exist, in either back end.

use std::fmt;

use cni_core::family::Family;
use log::Level;

use crate::backend::{Backend, Netfilter, unless_absent_logged};
use crate::error::NetfilterError;
use crate::iptables::{self, IptablesRemoval, IptablesRule, IptablesRuleset, IptablesTable, IptablesUndo};
use crate::nftables::{self, NftRemoval, NftRule, NftRuleset, NftUndo, SetElements};
use crate::position::ReplacementUndo;

/// Rules that must exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ruleset {
    /// In one table of iptables.
    Iptables(IptablesRuleset),
    /// In tables of nf_tables' own.
    Nftables(NftRuleset),
}

/// Rules to be removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleRemoval {
    rules: UnwantedRules,
    /// Whether they were made in this back end, so that one that is absent hides them.
    is_known: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum UnwantedRules {
    Iptables(IptablesRemoval),
    Nftables(NftRemoval),
}

/// A rule or element that should exist and does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MissingRule {
    /// A rule of iptables.
    Iptables {
        /// Of which table.
        family: Family,
        table: IptablesTable,
        rule: IptablesRule,
    },
    /// A rule of nf_tables.
    Nftables(NftRule),
    /// Elements of a set of nf_tables.
    Elements(SetElements),
}

impl Ruleset {
    /// The back end that holds them.
    pub const fn backend(&self) -> Backend {
        match self {
            Self::Iptables(_) => Backend::Iptables,
            Self::Nftables(_) => Backend::Nftables,
        }
    }

    /// Ensures that the rules exist, each once. Returns the undo of exactly what was changed: `None` if nothing was; it
    /// never removes shared rules, nor a rule that existed before.
    ///
    /// # Errors
    /// Then nothing was changed.
    pub fn ensure(&self, netfilter: &mut dyn Netfilter) -> Result<Option<RuleUndo>, NetfilterError> {
        Ok(match self {
            Self::Iptables(want) => iptables::ensure(netfilter.iptables(), want)?.map(IptablesUndo::into_rules),
            Self::Nftables(want) => nftables::ensure(netfilter.nftables(), want)?.map(NftUndo::into_rules),
        })
    }

    /// Looks for the first rule, or else the first elements, that do not exist; `None` when all exist. It changes
    /// nothing.
    pub fn missing(&self, netfilter: &mut dyn Netfilter) -> Result<Option<MissingRule>, NetfilterError> {
        match self {
            Self::Iptables(want) => {
                let (family, table) = (want.family, want.table);
                let missing = iptables::missing(netfilter.iptables(), want)?.cloned();
                Ok(missing.map(|rule| MissingRule::Iptables { family, table, rule }))
            }
            Self::Nftables(want) => {
                if let Some(rule) = nftables::missing(netfilter.nftables(), want)? {
                    return Ok(Some(MissingRule::Nftables(rule.clone())));
                }
                Ok(nftables::missing_elements(netfilter.nftables(), want)?.map(MissingRule::Elements))
            }
        }
    }
}

impl<W: Into<Ruleset>, R: Into<RuleRemoval>> ReplacementUndo<W, R> {
    /// The same for either back end. What was added was made in this one.
    pub(crate) fn into_rules(self) -> RuleUndo {
        let added = self.added.map(|added| added.into().known());
        RuleUndo { replaced: self.replaced.map(Into::into), added }
    }
}

/// The undo of a change of rules.
pub type RuleUndo = ReplacementUndo<Ruleset, RuleRemoval>;

impl RuleUndo {
    /// Restores what was replaced, and removes what was added. Absence of that is success.
    ///
    /// # Errors
    /// The first failure; both are tried.
    pub fn carry_out(&self, netfilter: &mut dyn Netfilter) -> Result<(), NetfilterError> {
        let restored = self.replaced.as_ref().map_or(Ok(()), |replaced| replaced.ensure(netfilter).map(|_| ()));
        let removed = self.added.as_ref().map_or(Ok(()), |added| added.remove(netfilter));
        restored.and(removed)
    }
}

impl RuleRemoval {
    const fn possible(rules: UnwantedRules) -> Self {
        Self { rules, is_known: false }
    }

    /// The same for rules that are known to have been made in this backend.
    #[must_use]
    pub fn known(self) -> Self {
        Self { is_known: true, ..self }
    }

    /// The back end that holds the rules.
    pub const fn backend(&self) -> Backend {
        match self.rules {
            UnwantedRules::Iptables(_) => Backend::Iptables,
            UnwantedRules::Nftables(_) => Backend::Nftables,
        }
    }

    /// Takes in another removal, so that one change of a table of iptables does both. Returns whether that is possible: not
    /// where both remove the same chain.
    pub fn join(&mut self, other: &Self) -> bool {
        let is_joined = match (&mut self.rules, &other.rules) {
            (UnwantedRules::Iptables(rules), UnwantedRules::Iptables(other)) => rules.join(other),
            (UnwantedRules::Iptables(_) | UnwantedRules::Nftables(_), _) => false,
        };
        if is_joined {
            self.is_known = false;
        }
        is_joined
    }

    /// Ensures that the rules do not exist. Absence is success; rules of others stay. An absent back end is success
    /// too, unless the rules are known to have been made there; if some were expected there, a warning is logged.
    pub fn remove(&self, netfilter: &mut dyn Netfilter) -> Result<(), NetfilterError> {
        let (level, done) = match &self.rules {
            UnwantedRules::Iptables(unwanted) => {
                let level = if unwanted.rules.is_empty() { Level::Info } else { Level::Warn };
                (level, iptables::remove(netfilter.iptables(), unwanted))
            }
            UnwantedRules::Nftables(unwanted) => (Level::Info, nftables::remove(netfilter.nftables(), unwanted)),
        };
        if self.is_known { done } else { unless_absent_logged(level, done).map(|_| ()) }
    }
}

impl MissingRule {
    /// A command that shows that it is missing.
    pub fn proof(&self) -> String {
        match self {
            Self::Iptables { family, table, rule } => {
                format!("this fails: {} -t {table} -C {}", family.iptables(), rule.specification())
            }
            Self::Nftables(rule) => format!("this does not show it: nft list chain {}", rule.chain),
            Self::Elements(elements) => format!("this fails: nft get element {elements}"),
        }
    }
}

/// As an administrator would look for it.
impl fmt::Display for MissingRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Iptables { family, table, rule } => write!(f, "{} -t {table} {rule}", family.iptables()),
            Self::Nftables(rule) => write!(f, "nft {} {rule}", rule.chain),
            Self::Elements(elements) => write!(f, "nft element {elements}"),
        }
    }
}

impl From<IptablesRuleset> for Ruleset {
    fn from(want: IptablesRuleset) -> Self {
        Self::Iptables(want)
    }
}

impl From<NftRuleset> for Ruleset {
    fn from(want: NftRuleset) -> Self {
        Self::Nftables(want)
    }
}

impl From<IptablesRemoval> for RuleRemoval {
    fn from(unwanted: IptablesRemoval) -> Self {
        Self::possible(UnwantedRules::Iptables(unwanted))
    }
}

impl From<NftRemoval> for RuleRemoval {
    fn from(unwanted: NftRemoval) -> Self {
        Self::possible(UnwantedRules::Nftables(unwanted))
    }
}

impl fmt::Display for Ruleset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Iptables(want) => want.fmt(f),
            Self::Nftables(want) => want.fmt(f),
        }
    }
}

impl fmt::Display for RuleRemoval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.rules {
            UnwantedRules::Iptables(unwanted) => unwanted.fmt(f),
            UnwantedRules::Nftables(unwanted) => unwanted.fmt(f),
        }
    }
}
