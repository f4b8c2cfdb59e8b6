//! Rules that must exist, or must be gone, in either engine.

use std::fmt;

use log::Level;

use crate::backend::{Backend, Netfilter, unless_absent, unless_absent_logged};
use crate::error::NetfilterError;
use crate::iptables::{self, IptablesRemoval, IptablesRule, IptablesRuleset, IptablesTable};
use crate::nftables::{self, NftRemoval, NftRule, NftRuleset, SetElements};
use cni_core::family::Family;

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
pub enum RuleRemoval {
    /// From one table of iptables.
    Iptables(IptablesRemoval),
    /// From tables of nf_tables' own.
    Nftables(NftRemoval),
}

/// Something that is to be there and is not.
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
    /// What keeps them.
    pub const fn backend(&self) -> Backend {
        match self {
            Self::Iptables(_) => Backend::Iptables,
            Self::Nftables(_) => Backend::Nftables,
        }
    }

    /// Makes sure that the rules exist, each once. Returns the removal of exactly what was added: `None` for nothing,
    /// never anything shared, nor a rule that existed before.
    ///
    /// # Errors
    /// Then nothing was changed.
    pub fn ensure(&self, netfilter: &mut dyn Netfilter) -> Result<Option<RuleRemoval>, NetfilterError> {
        Ok(match self {
            Self::Iptables(want) => iptables::ensure(netfilter.iptables(), want)?.map(RuleRemoval::Iptables),
            Self::Nftables(want) => nftables::ensure(netfilter.nftables(), want)?.map(RuleRemoval::Nftables),
        })
    }

    /// Looks for the first rule, or else the first elements, that do not exist; `None` when all exist. It changes
    /// nothing.
    ///
    /// # Errors
    /// When the packet filter cannot be read.
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

impl RuleRemoval {
    /// Makes the rules be gone. Absence is success, that of the backend included; what belongs to others stays.
    /// A warning says so where the backend is absent and was expected to hold certain rules.
    ///
    /// # Errors
    /// When the packet filter exists and cannot be read or changed.
    pub fn remove(&self, netfilter: &mut dyn Netfilter) -> Result<(), NetfilterError> {
        match self {
            Self::Iptables(unwanted) => {
                let level = if unwanted.rules.is_empty() { Level::Info } else { Level::Warn };
                unless_absent_logged(level, iptables::remove(netfilter.iptables(), unwanted))?;
            }
            Self::Nftables(unwanted) => {
                unless_absent(nftables::remove(netfilter.nftables(), unwanted))?;
            }
        }
        Ok(())
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
        Self::Iptables(unwanted)
    }
}

impl From<NftRemoval> for RuleRemoval {
    fn from(unwanted: NftRemoval) -> Self {
        Self::Nftables(unwanted)
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
        match self {
            Self::Iptables(unwanted) => unwanted.fmt(f),
            Self::Nftables(unwanted) => unwanted.fmt(f),
        }
    }
}
