//! Translates the lines of a batch into netlink messages, if what exists allows it.

use std::collections::{BTreeSet, HashMap, HashSet};

use cni_core::family::Family;
use cni_core::names::ChainName;
use cni_netfilter::iptables::{Batch, BatchLine, IptablesRule, IptablesTable};
use cni_netfilter::nftables::{
    BaseChain, BaseChainType, ChainId, Generation, Hook, NftChain, NftChange, NftName, Policy, TableId,
};
use netlink_packet_core::{NLM_F_APPEND, NLM_F_CREATE, NLM_F_ECHO, NLM_F_EXCL};
use netlink_packet_netfilter::nftables::{NfTablesMessage, RuleAttribute, RuleMessage};

use crate::nftables::connection::NftConnection;
use crate::nftables::handles::{FEW, RuleHandles, text};
use cni_kernel::netlink::{Cause, PackedMessage, RefusedChange};
use cni_kernel::nftables::instruction::{be32, nested};
use cni_kernel::nftables::message::{self, ChangeMessage, to_family};
use cni_kernel::nftables::xt::{NumberedRule, WantedBytes, encode, expression, protocol_number, read_rule};

/// `NFTA_RULE_COMPAT`, with `NFTA_RULE_COMPAT_PROTO` and `NFTA_RULE_COMPAT_FLAGS`.
const COMPAT: u16 = 5;

/// A change, and the flags of its header.
type PackedChange = (PackedMessage, u16);

fn packed((message, flags): ChangeMessage) -> PackedChange {
    (message.into(), flags)
}

/// The messages of a batch in the making, and what was read for them.
pub(super) struct MessageDraft<'a> {
    batch: &'a Batch,
    connection: &'a mut NftConnection,
    /// The chains that the batch makes or empties, each of which belongs to one container.
    filled: HashSet<&'a ChainName>,
    /// The handles of the copies of the rules that the batch requires or deletes, in the chains that were listed.
    listed: HashMap<&'a ChainName, HashMap<IptablesRule, Vec<u64>>>,
    /// How many rules were asked for by their remembered handles.
    asked: usize,
    /// Base chains of the table that exist.
    builtin: BTreeSet<&'a ChainName>,
    /// The changes that create the table, and its missing built-in chains. They come before all others.
    foundation: Vec<PackedChange>,
    changes: Vec<PackedChange>,
    /// Which of the changes create a chain that must not exist.
    creations: HashMap<usize, &'a ChainName>,
    /// Which of the changes add a rule whose handle is remembered.
    added: Vec<(usize, ChainId, &'a IptablesRule)>,
    /// The rules that the batch deletes, by their handles.
    deleted: HashMap<u64, (ChainId, &'a IptablesRule)>,
}

/// The reasons why a batch has no messages.
pub(super) enum NoMessages {
    /// A line does not fit what exists.
    Unfit(String),
    /// The iptables programs must do it, for this reason.
    Fallback(String),
}

impl From<String> for NoMessages {
    fn from(reason: String) -> Self {
        Self::Fallback(reason)
    }
}

impl<'a> MessageDraft<'a> {
    /// Drafts a batch.
    pub(super) fn new(connection: &'a mut NftConnection, batch: &'a Batch) -> Result<Self, NoMessages> {
        let mut draft = Self {
            batch,
            connection,
            filled: batch.ops.iter().filter_map(BatchLine::filled_chain).collect(),
            listed: HashMap::new(),
            asked: 0,
            builtin: BTreeSet::new(),
            foundation: Vec::new(),
            changes: Vec::new(),
            creations: HashMap::new(),
            added: Vec::new(),
            deleted: HashMap::new(),
        };
        batch.ops.iter().try_for_each(|line| draft.take(line))?;
        Ok(draft)
    }

    /// Makes the changes, if nothing has changed since a state, and remembers the handles of what they have made. If a
    /// change is refused that creates a chain, the error names the chain.
    pub(super) fn send(self, since: Generation) -> Result<(), (RefusedChange, Option<ChainName>)> {
        let Self { connection, foundation: mut changes, changes: inner, creations, added, deleted, .. } = self;
        if inner.is_empty() {
            return Ok(());
        }
        let first = changes.len();
        changes.extend(inner);
        let made = connection.batch(Some(since), changes).map_err(|refused| {
            let creation = refused.change.and_then(|change| creations.get(&change.checked_sub(first)?));
            (refused, creation.copied().cloned())
        })?;
        deleted.values().for_each(|(id, rule)| connection.handles.forget(id, &text(rule)));
        let Some(handles) = connection.handles_without_index() else { return Ok(()) };
        for (change, id, rule) in &added {
            made.get(&(first + change)).into_iter().for_each(|handle| handles.keep(id, &text(rule), *handle));
        }
        Ok(())
    }

    fn take(&mut self, line: &'a BatchLine) -> Result<(), NoMessages> {
        match line {
            // A condition on what the batch itself changes is for the programs.
            BatchLine::Require(_) if !self.changes.is_empty() => {
                return Err(NoMessages::Fallback("a condition follows a change".to_owned()));
            }
            BatchLine::Require(rule) => match self.first_copy(rule)? {
                Some(_) => {}
                // The chain shows a user's own words as iptables spells them, and one rule of them may be several.
                None if rule.has_words() => {
                    return Err(NoMessages::Fallback(format!("rule {rule} may be there in other words")));
                }
                None => return Err(NoMessages::Unfit(format!("-C {}", rule.specification()))),
            },
            BatchLine::CreateChain(chain) => {
                self.creations.insert(self.changes.len(), chain);
                self.push(&NftChange::AddChain(NftChain::regular(self.id(chain)?)), NLM_F_EXCL);
            }
            BatchLine::EmptyChain(chain) => {
                self.push(&NftChange::AddChain(NftChain::regular(self.id(chain)?)), 0);
                self.push(&NftChange::FlushChain(self.id(chain)?), 0);
            }
            BatchLine::DeleteChain(chain) => self.push(&NftChange::DeleteChain(self.id(chain)?), 0),
            BatchLine::Insert(rule) => self.add(rule, NLM_F_CREATE)?,
            BatchLine::Append(rule) => self.add(rule, NLM_F_CREATE | NLM_F_APPEND)?,
            BatchLine::Delete(rule) => {
                let unfit = || NoMessages::Unfit(format!("-D {}", rule.specification()));
                let (handle, id) = (self.first_copy(rule)?.ok_or_else(unfit)?, self.id(&rule.chain)?);
                self.push(&NftChange::DeleteRule(id.clone(), handle), 0);
                self.deleted.insert(handle, (id, rule));
            }
        }
        Ok(())
    }

    fn id(&self, chain: &ChainName) -> Result<ChainId, String> {
        chain_id(self.batch.family, self.batch.table, chain)
    }

    fn push(&mut self, change: &NftChange, more: u16) {
        let messages = message::change(change).into_iter().flatten();
        self.changes.extend(messages.map(|(message, flags)| packed((message, flags | more))));
    }

    /// The handle of the first copy of a rule that existed before the batch, and is not deleted by it.
    fn first_copy(&mut self, rule: &'a IptablesRule) -> Result<Option<u64>, String> {
        let (id, mut found) = (self.id(&rule.chain)?, None);
        if !self.listed.contains_key(&rule.chain) {
            found = self.remembered(&id, rule)?;
            if found.is_none() {
                let copies = self.list(&id, &rule.chain)?;
                self.listed.insert(&rule.chain, copies);
            }
        }
        if found.is_none() {
            let copies = self.listed.get(&rule.chain).and_then(|listed| listed.get(&rule.canonical()));
            found = copies.into_iter().flatten().find(|copy| !self.deleted.contains_key(copy)).copied();
        }
        if found.is_some() && is_builtin(&rule.chain) {
            self.builtin.insert(&rule.chain);
        }
        Ok(found)
    }

    /// The remembered handle of a rule, if the kernel still shows the rule.
    fn remembered(&mut self, id: &ChainId, rule: &IptablesRule) -> Result<Option<u64>, String> {
        self.asked += 1;
        let handle = self.connection.handles_without_index().and_then(|handles| handles.find(id, &text(rule)));
        let Some(handle) = handle.filter(|handle| self.asked <= FEW && !self.deleted.contains_key(handle)) else {
            return Ok(None);
        };
        let read = |payload: &[u8]| read_rule(self.batch.family, &rule.chain, payload);
        let found = self.connection.rule(id, handle, read).map_err(|cause| unreadable(id, &cause))?;
        Ok(found.filter(|(_, found)| *found == rule.canonical()).map(|(handle, _)| handle))
    }

    fn list(&mut self, id: &ChainId, chain: &ChainName) -> Result<HashMap<IptablesRule, Vec<u64>>, String> {
        let wanted = self.batch.ops.iter().filter_map(BatchLine::existing_rule).filter(|rule| rule.chain == *chain);
        let wanted: Vec<&IptablesRule> = wanted.collect();
        let mut found: HashMap<IptablesRule, Vec<u64>> = HashMap::new();
        for (_, (handle, rule)) in copies(self.connection, self.batch.family, id, chain, &wanted)? {
            found.entry(rule).or_default().push(handle);
        }
        Ok(found)
    }

    /// Creates a missing built-in chain, as the programs do when they first use it.
    fn ensure_builtin(&mut self, chain: &'a ChainName, id: &ChainId) -> Result<(), String> {
        if !is_builtin(chain) || !self.builtin.insert(chain) || exists(self.connection, id)? {
            return Ok(());
        }
        let missing = builtin(self.batch.table, id).ok_or_else(|| format!("chain {id} is not in this table"))?;
        if self.foundation.is_empty() {
            self.foundation.push(packed(message::ensure_table(&id.table)));
        }
        self.foundation.push(packed(message::add_chain(&missing)));
        Ok(())
    }

    fn add(&mut self, rule: &'a IptablesRule, flags: u16) -> Result<(), String> {
        let id = self.id(&rule.chain)?;
        self.ensure_builtin(&rule.chain, &id)?;
        let message = addition(self.batch.family, &id, rule)?;
        let are_kept = self.connection.handles_without_index().is_some_and(RuleHandles::are_kept);
        let flags = if are_kept && !self.filled.contains(&rule.chain) {
            self.added.push((self.changes.len(), id, rule));
            flags | NLM_F_ECHO
        } else {
            flags
        };
        self.changes.push((message, flags));
        Ok(())
    }
}

/// The message that adds a rule, with its parts in the order in which the kernel returns them, so that both compare equal.
fn addition(family: Family, id: &ChainId, rule: &IptablesRule) -> Result<PackedMessage, String> {
    let rule = rule.canonical();
    let parts = encode(family, &rule).ok_or_else(|| format!("rule {rule} is of an unknown kind"))?;
    let mut attributes = message::stands_in(id);
    attributes.push(RuleAttribute::Expressions(parts.iter().map(expression).collect()));
    let compat = [be32(1, protocol_number(&rule)), be32(2, 0)];
    attributes.push(RuleAttribute::Other(nested(COMPAT, &compat)));
    Ok(to_family(id.table.family, NfTablesMessage::NewRule(RuleMessage { attributes })).into())
}

/// The chain as nf_tables know it.
///
/// # Errors
/// For a name that nothing here could hold.
pub(super) fn chain_id(family: Family, table: IptablesTable, chain: &ChainName) -> Result<ChainId, String> {
    let name = |text| NftName::parse(text).map_err(|error| error.to_string());
    Ok(TableId { family: family.into(), name: name(table.as_str())? }.chain_named(name(chain.as_str())?))
}

/// Whether a chain is built-in; iptables creates those when they are first used.
fn is_builtin(chain: &ChainName) -> bool {
    ["PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"].contains(&chain.as_str())
}

/// One of the table's own chains as iptables makes it; `None` for a chain that the table does not have. The places are
/// those of `xtables_ipv4` in `iptables/nft.c`.
fn builtin(table: IptablesTable, id: &ChainId) -> Option<NftChain> {
    let (kind, hook, priority) = match (table, id.name.as_str()) {
        (IptablesTable::Nat, "PREROUTING") => (BaseChainType::Nat, Hook::Prerouting, -100),
        (IptablesTable::Nat, "INPUT") => (BaseChainType::Nat, Hook::Input, 100),
        (IptablesTable::Nat, "OUTPUT") => (BaseChainType::Nat, Hook::Output, -100),
        (IptablesTable::Nat, "POSTROUTING") => (BaseChainType::Nat, Hook::Postrouting, 100),
        (IptablesTable::Filter, "INPUT") => (BaseChainType::Filter, Hook::Input, 0),
        (IptablesTable::Filter, "FORWARD") => (BaseChainType::Filter, Hook::Forward, 0),
        (IptablesTable::Filter, "OUTPUT") => (BaseChainType::Filter, Hook::Output, 0),
        _ => return None,
    };
    let base = BaseChain { kind, hook, priority, policy: Some(Policy::Accept) };
    Some(NftChain { id: id.clone(), base: Some(base), comment: None })
}

/// Whether one of the table's own chains exists.
///
/// # Errors
/// For a chain of this name that packets do not enter, or not for the purpose of the table, whose name is that of the type.
fn exists(connection: &mut NftConnection, id: &ChainId) -> Result<bool, String> {
    match connection.chain_type(id).map_err(|cause| unreadable(id, &cause))? {
        None => Ok(false),
        Some(kind) if kind == id.table.name.as_str() => Ok(true),
        Some(_) => Err(format!("chain {id} is of another type")),
    }
}

/// Lists the rules of a chain that may be copies of some rules, each with its position, and remembers their handles.
/// A chain that does not exist has none.
pub(super) fn copies(
    connection: &mut NftConnection,
    family: Family,
    id: &ChainId,
    chain: &ChainName,
    rules: &[&IptablesRule],
) -> Result<Vec<(usize, NumberedRule)>, String> {
    let unknown = || format!("chain {id} holds a rule of an unknown kind");
    if let Some(kept) = connection.kept_chain(id).map_err(|cause| unreadable(id, &cause))? {
        return kept.copies(family, chain, rules).ok_or_else(unknown);
    }
    let wanted = WantedBytes::of(rules);
    let read = |payload: &[u8]| {
        let rule = read_rule(family, chain, payload);
        Some((rule.is_some() || wanted.may_be_in(payload)).then_some(rule))
    };
    let listed = connection.rules(id, read).map_err(|cause| unreadable(id, &cause))?.unwrap_or_default();
    let others = listed.len().saturating_sub(rules.len());
    let decoded = listed.into_iter().enumerate().filter_map(|(place, rule)| Some((place, rule?)));
    let found: Option<Vec<_>> = decoded.map(|(place, rule)| Some((place, rule?))).collect();
    let found = found.ok_or_else(unknown)?;
    if let Some(handles) = connection.handles_without_index() {
        let of = |rule: &&IptablesRule| {
            let canonical = rule.canonical();
            let copies = found.iter().filter(|(_, (_, found))| *found == canonical);
            (text(&canonical), copies.map(|(_, (handle, _))| *handle).collect())
        };
        let known: Vec<(String, Vec<u64>)> = rules.iter().take(FEW).map(of).collect();
        handles.learn(id, others, &known);
    }
    Ok(found)
}

pub(super) fn unreadable(id: &ChainId, cause: &Cause) -> String {
    format!("chain {id} cannot be read: {cause}")
}
