//! What a plugin wants of nf_tables, as data.

use std::collections::HashSet;
use std::fmt;

use super::listed::{ListedRule, RuleText};
use super::name::{NftComment, NftName};
use super::object::{ChainId, NftChain, NftTable, Set, SetElements, TableFamily};
use super::rule::NftRule;
use super::transport::NftChange;
use crate::position::{ReplacementUndo, RulePosition};

/// By what the rules of an attachment are known: a comment, or where they lead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleTag {
    /// The comment is this.
    Exactly(NftComment),
    /// The comment begins with this.
    Begins(String),
    /// The rule jumps to this chain, which belongs to the attachment alone.
    LeadsTo(NftName),
    /// The rule has this comment, and jumps to no chain.
    LeadsNowhere(NftComment),
}

/// The wanted rules of a chain, and its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChainContent {
    /// Shared. Attachments put their rules into it.
    Open,
    /// Shared. It holds exactly these rules: where it holds anything else it is emptied and
    /// filled in one transaction, so that no packet ever meets it half full.
    Fixed(Vec<NftRule>),
    /// Shared. It contains these rules among others; they are never undone.
    AtLeast(Vec<NftRule>),
    /// The attachment's own chain. It contains exactly these rules.
    Own(Vec<NftRule>),
}

/// A chain that must exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedChain {
    pub chain: NftChain,
    /// The wanted rules.
    pub content: ChainContent,
}

/// What to do with existing rules that have the attachment's tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExistingRules {
    /// They are what is left of an earlier attempt, and are removed unless they are wanted.
    Replace,
    /// They may belong to another interface of the container, and stay; only missing rules are added.
    Keep,
}

/// The rules of one attachment in a chain that it shares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedRules {
    /// The chain, which is shared.
    pub chain: ChainId,
    /// The tag of the attachment's rules; all of `rules` have it.
    pub tag: RuleTag,
    /// The rules in order, which all are in `chain`.
    pub rules: Vec<NftRule>,
    /// What to do with other rules that have the tag.
    pub existing: ExistingRules,
    /// The position of the rules among those of others.
    pub position: RulePosition,
}

/// Rules that must exist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NftRuleset {
    /// Tables: made when missing, never removed.
    pub tables: Vec<NftTable>,
    /// Sets that rules of these chains name: made when missing, never removed.
    pub sets: Vec<Set>,
    /// Chains, in the order in which missing ones are made. Shared ones are never removed.
    pub chains: Vec<WantedChain>,
    /// The attachment's rules in chains that it shares.
    pub owned: Vec<OwnedRules>,
    /// The attachment's elements in some of `sets`.
    pub elements: Vec<SetElements>,
}

/// Which rules of a chain go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleSelection {
    /// All with this tag.
    Tagged(RuleTag),
    /// Every copy of these.
    Listed(Vec<NftRule>),
}

/// Rules that are looked for. One that is found is looked up among them, and not compared with each.
#[derive(Debug)]
pub struct WantedRules<'a> {
    tags: Vec<&'a RuleTag>,
    texts: HashSet<RuleText>,
}

/// Rules to be removed from a chain that stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnwantedNftRules {
    pub chain: ChainId,
    /// Which of its rules go.
    pub which: RuleSelection,
}

/// The undo of a change of nf_tables.
pub type NftUndo = ReplacementUndo<NftRuleset, NftRemoval>;

/// Rules and chains to be removed. Absence is success, that of the chain and the table included.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NftRemoval {
    pub elements: Vec<SetElements>,
    pub rules: Vec<UnwantedNftRules>,
    /// Chains with all their rules, in this order: one that jumps to another comes before it.
    pub chains: Vec<ChainId>,
}

impl RuleSelection {
    /// The rules that are selected by all that they say; `None` for those that have a tag.
    pub fn listed(&self) -> Option<&[NftRule]> {
        match self {
            Self::Listed(rules) => Some(rules),
            Self::Tagged(_) => None,
        }
    }
}

impl RuleTag {
    /// Whether a rule has the tag.
    pub fn is_on(&self, rule: &ListedRule) -> bool {
        let comment = rule.comment.as_deref();
        match self {
            Self::Exactly(tag) => comment == Some(tag.as_str()),
            Self::Begins(start) => comment.is_some_and(|comment| comment.starts_with(start)),
            Self::LeadsTo(chain) => rule.leads_to().any(|name| name == chain),
            Self::LeadsNowhere(tag) => comment == Some(tag.as_str()) && rule.leads_to().next().is_none(),
        }
    }
}

impl<'a> WantedRules<'a> {
    /// The rules that at least one of some questions means.
    pub fn new(meant: impl IntoIterator<Item = &'a RuleSelection>) -> Self {
        let (mut tags, mut texts) = (Vec::new(), HashSet::new());
        for which in meant {
            match which {
                RuleSelection::Tagged(tag) => tags.push(tag),
                RuleSelection::Listed(rules) => texts.extend(rules.iter().map(RuleText::of)),
            }
        }
        Self { tags, texts }
    }

    /// Whether a listed rule in a table of a family is among them.
    pub fn hold(&self, family: TableFamily, found: &ListedRule) -> bool {
        self.tags.iter().any(|tag| tag.is_on(found))
            || !self.texts.is_empty() && found.text(family).is_some_and(|text| self.texts.contains(&text))
    }
}

impl ChainContent {
    /// The rules that the chain is to hold.
    pub(super) fn rules(&self) -> Option<&[NftRule]> {
        match self {
            Self::Open => None,
            Self::Fixed(rules) | Self::AtLeast(rules) | Self::Own(rules) => Some(rules),
        }
    }
}

impl NftRuleset {
    /// Whether rules may have to be added to a chain whose other rules stay.
    pub(super) fn adds_to_others(&self) -> bool {
        let at_least =
            |wanted: &WantedChain| matches!(&wanted.content, ChainContent::AtLeast(rules) if !rules.is_empty());
        let kept = |owned: &OwnedRules| owned.existing == ExistingRules::Keep && !owned.rules.is_empty();
        self.chains.iter().any(at_least) || self.owned.iter().any(kept)
    }

    /// Every rule that is wanted.
    pub(super) fn all_rules(&self) -> impl Iterator<Item = &NftRule> {
        let whole = self.chains.iter().filter_map(|wanted| wanted.content.rules()).flatten();
        whole.chain(self.owned.iter().flat_map(|owned| &owned.rules))
    }
}

impl fmt::Display for RuleTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exactly(comment) => write!(f, "comment \"{comment}\""),
            Self::Begins(start) => write!(f, "comment \"{start}…\""),
            Self::LeadsTo(chain) => write!(f, "jump {chain}"),
            Self::LeadsNowhere(comment) => write!(f, "no jump comment \"{comment}\""),
        }
    }
}

impl fmt::Display for NftRuleset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tables, sets, chains, owned, elements } = self;
        f.write_str("ensure nftables")?;
        let command = |f: &mut fmt::Formatter<'_>, op: NftChange| write!(f, "\n  {}", op.command());
        tables.iter().try_for_each(|table| command(f, NftChange::AddTable(table.clone())))?;
        sets.iter().try_for_each(|set| command(f, NftChange::AddSet(set.clone())))?;
        for WantedChain { chain, content } in chains {
            command(f, NftChange::AddChain(chain.clone()))?;
            let rules = content.rules().unwrap_or_default();
            rules.iter().try_for_each(|rule| command(f, NftChange::AddRule(rule.clone())))?;
        }
        for OwnedRules { chain, tag, rules, existing, position } in owned {
            match existing {
                ExistingRules::Replace => write!(f, "\n  replace in {chain}: {tag}")?,
                ExistingRules::Keep => write!(f, "\n  keep in {chain}: {tag}")?,
            }
            if let RulePosition::Before(_) = position {
                write!(f, "\n  {position}")?;
            }
            rules.iter().try_for_each(|rule| command(f, NftChange::AddRule(rule.clone())))?;
        }
        elements.iter().try_for_each(|elements| command(f, NftChange::AddElements(elements.clone())))
    }
}

impl fmt::Display for NftRemoval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { elements, rules, chains } = self;
        f.write_str("remove nftables")?;
        elements.iter().try_for_each(|elements| write!(f, "\n  delete element {elements}"))?;
        for UnwantedNftRules { chain, which } in rules {
            match which {
                RuleSelection::Tagged(tag) => write!(f, "\n  from {chain}: {tag}")?,
                RuleSelection::Listed(rules) => {
                    rules.iter().try_for_each(|rule| write!(f, "\n  from {chain}: {rule}"))?
                }
            }
        }
        chains.iter().try_for_each(|chain| write!(f, "\n  delete chain {chain}"))
    }
}
