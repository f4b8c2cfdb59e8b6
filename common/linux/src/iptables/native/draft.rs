//! Translates the lines of a batch into netlink messages, if what exists allows it.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use cni_core::family::Family;
use cni_core::names::ChainName;
use cni_netfilter::iptables::{Batch, BatchLine, IptablesRule, IptablesTable};
use cni_netfilter::nftables::{ChainId, TableFamily};
use netlink_packet_core::{NLM_F_APPEND, NLM_F_CREATE, NLM_F_ECHO, NLM_F_EXCL};
use netlink_packet_netfilter::nftables::{ChainMessage, NfTablesMessage, RuleAttribute, RuleMessage};

use super::chain::{builtin, chain_id, exists, is_builtin};
use super::view::ChainView;
use crate::nftables::connection::NftConnection;
use cni_kernel::netlink::PackedMessage;
use cni_kernel::nftables::instruction::{be32, nested};
use cni_kernel::nftables::message;
use cni_kernel::nftables::request::{self, ChangeMessage};
use cni_kernel::nftables::xt::{encode, expression, protocol_number};

/// `NFTA_RULE_COMPAT`, with `NFTA_RULE_COMPAT_PROTO` and `NFTA_RULE_COMPAT_FLAGS`.
const COMPAT: u16 = 5;

/// A change, and the flags of its header.
type PackedChange = (PackedMessage, u16);

fn packed((message, flags): ChangeMessage) -> PackedChange {
    (message.into(), flags)
}

/// The messages of a batch in the making, and what was read for them.
pub(super) struct MessageDraft<'a> {
    family: Family,
    table: IptablesTable,
    connection: &'a mut NftConnection,
    /// The chains that the batch makes or empties.
    filled: HashSet<&'a ChainName>,
    /// The rules that the batch requires or deletes, by their chains.
    wanted: HashMap<&'a ChainName, Vec<&'a IptablesRule>>,
    seen: BTreeMap<ChainName, ChainView>,
    /// Base chains of the table that exist.
    builtin: BTreeSet<ChainName>,
    /// The changes that create the table, and its missing built-in chains. They come before all others.
    foundation: Vec<PackedChange>,
    changes: Vec<PackedChange>,
    /// Which of the changes create a chain that must not exist.
    creations: Vec<(usize, ChainName)>,
}

/// The messages of a batch.
pub(super) struct BatchMessages {
    pub(super) changes: Vec<PackedChange>,
    /// Which of the changes create a chain that must not exist.
    pub(super) creations: Vec<(usize, ChainName)>,
    /// How many changes come before those of the batch itself.
    foundation: usize,
    views: Vec<ChainView>,
}

impl BatchMessages {
    /// Takes note of the batch, which was carried out; `made` has the changes that add rules, with their handles.
    pub(super) fn committed(&self, connection: &mut NftConnection, made: &HashMap<usize, u64>) {
        let handle = |change: usize| made.get(&(self.foundation + change)).copied();
        self.views.iter().for_each(|view| view.committed(connection, handle));
    }
}

/// The reasons why a batch has no messages.
pub(super) enum NoMessages {
    /// A line does not fit what exists.
    Unfit(String),
    /// The iptables programs must do it, for this reason.
    Fallback(String),
}

impl<'a> MessageDraft<'a> {
    /// Drafts a batch.
    pub(super) fn new(connection: &'a mut NftConnection, batch: &'a Batch) -> Result<Self, NoMessages> {
        let Batch { family, table, ops } = batch;
        let (seen, builtin) = (BTreeMap::new(), BTreeSet::new());
        let mut wanted: HashMap<&ChainName, Vec<&IptablesRule>> = HashMap::new();
        for rule in ops.iter().filter_map(BatchLine::existing_rule) {
            wanted.entry(&rule.chain).or_default().push(rule);
        }
        let mut draft = Self {
            family: *family,
            table: *table,
            connection,
            filled: ops.iter().filter_map(BatchLine::filled_chain).collect(),
            wanted,
            seen,
            builtin,
            foundation: Vec::new(),
            changes: Vec::new(),
            creations: Vec::new(),
        };
        ops.iter().try_for_each(|op| draft.take(op))?;
        Ok(draft)
    }

    /// The messages.
    pub(super) fn into_messages(self) -> BatchMessages {
        let Self { foundation: mut changes, changes: inner, creations, seen, .. } = self;
        let foundation = changes.len();
        let creations = creations.into_iter().map(|(at, chain)| (foundation + at, chain)).collect();
        changes.extend(inner);
        BatchMessages { changes, creations, foundation, views: seen.into_values().collect() }
    }

    fn take(&mut self, line: &BatchLine) -> Result<(), NoMessages> {
        match line {
            // A condition on what the batch itself changes is for the programs.
            BatchLine::Require(_) if !self.changes.is_empty() => {
                Err(NoMessages::Fallback("a condition follows a change".to_owned()))
            }
            BatchLine::Require(rule) => match self.first_copy(rule)? {
                Some(_) => Ok(()),
                // The chain shows a user's own words as iptables spells them, and one rule of them may be several.
                None if rule.has_words() => {
                    Err(NoMessages::Fallback(format!("rule {rule} may be there in other words")))
                }
                None => Err(NoMessages::Unfit(format!("-C {}", rule.specification()))),
            },
            BatchLine::CreateChain(chain) => {
                self.creations.push((self.changes.len(), chain.clone()));
                self.chain_message(chain, NLM_F_CREATE | NLM_F_EXCL)
            }
            BatchLine::EmptyChain(chain) => {
                self.chain_message(chain, NLM_F_CREATE)?;
                self.delete(chain, None)
            }
            BatchLine::DeleteChain(chain) => {
                let inner = NfTablesMessage::DeleteChain(ChainMessage { attributes: message::names(&self.id(chain)?) });
                self.push(inner, 0);
                Ok(())
            }
            BatchLine::Insert(rule) => self.add(rule, NLM_F_CREATE),
            BatchLine::Append(rule) => self.add(rule, NLM_F_CREATE | NLM_F_APPEND),
            BatchLine::Delete(rule) => match self.first_copy(rule)? {
                Some(handle) => {
                    self.view(&rule.chain)?.delete(rule, handle);
                    self.delete(&rule.chain, Some(handle))
                }
                None => Err(NoMessages::Unfit(format!("-D {}", rule.specification()))),
            },
        }
    }

    fn id(&self, chain: &ChainName) -> Result<ChainId, NoMessages> {
        chain_id(self.family, self.table, chain).map_err(NoMessages::Fallback)
    }

    /// The known rules of a chain.
    fn view(&mut self, chain: &ChainName) -> Result<&mut ChainView, NoMessages> {
        let id = self.id(chain)?;
        let Self { family, wanted, filled, seen, .. } = self;
        let new = || {
            let wanted = wanted.get(chain).into_iter().flatten().map(|rule| (*rule).clone());
            ChainView::new(*family, chain.clone(), id, wanted.collect(), filled.contains(chain))
        };
        Ok(seen.entry(chain.clone()).or_insert_with(new))
    }

    /// The number of the first copy of a rule.
    fn first_copy(&mut self, rule: &IptablesRule) -> Result<Option<u64>, NoMessages> {
        self.view(&rule.chain)?;
        let Self { connection, seen, builtin, .. } = self;
        let Some(view) = seen.get_mut(&rule.chain) else { return Ok(None) };
        let found = view.first_copy(connection, rule).map_err(NoMessages::Fallback)?;
        if found.is_some() && is_builtin(&rule.chain) {
            builtin.insert(rule.chain.clone());
        }
        Ok(found)
    }

    /// Creates a missing built-in chain, as the programs do when they first use it.
    fn ensure_builtin(&mut self, chain: &ChainName) -> Result<(), NoMessages> {
        if !is_builtin(chain) || self.builtin.contains(chain) {
            return Ok(());
        }
        let id = self.id(chain)?;
        if !exists(self.connection, &id).map_err(NoMessages::Fallback)? {
            let unknown = || NoMessages::Fallback(format!("chain {id} is not in this table"));
            let chain = builtin(self.table, &id).ok_or_else(unknown)?;
            if self.foundation.is_empty() {
                self.foundation.push(packed(message::ensure_table(&id.table)));
            }
            self.foundation.push(packed(message::add_chain(&chain)));
        }
        self.builtin.insert(chain.clone());
        Ok(())
    }

    fn push(&mut self, inner: NfTablesMessage, flags: u16) {
        self.changes.push(packed((request::message(TableFamily::from(self.family), inner), flags)));
    }

    fn chain_message(&mut self, chain: &ChainName, flags: u16) -> Result<(), NoMessages> {
        let attributes = message::names(&self.id(chain)?);
        self.push(NfTablesMessage::NewChain(ChainMessage { attributes }), flags);
        Ok(())
    }

    /// Deletes a rule, or all rules of a chain.
    fn delete(&mut self, chain: &ChainName, handle: Option<u64>) -> Result<(), NoMessages> {
        let mut attributes = message::stands_in(&self.id(chain)?);
        attributes.extend(handle.map(RuleAttribute::Handle));
        self.push(NfTablesMessage::DeleteRule(RuleMessage { attributes }), 0);
        Ok(())
    }

    fn add(&mut self, rule: &IptablesRule, flags: u16) -> Result<(), NoMessages> {
        self.ensure_builtin(&rule.chain)?;
        self.view(&rule.chain)?;
        let Self { connection, seen, changes, .. } = self;
        let is_remembered = seen.get_mut(&rule.chain).is_some_and(|view| view.add(connection, rule, changes.len()));
        let flags = if is_remembered { flags | NLM_F_ECHO } else { flags };
        let message = addition(self.family, self.table, rule).map_err(NoMessages::Fallback)?;
        self.changes.push((message, flags));
        Ok(())
    }
}

/// The message that adds a rule, with its parts in the order in which the kernel returns them, so that both compare equal.
fn addition(family: Family, table: IptablesTable, rule: &IptablesRule) -> Result<PackedMessage, String> {
    let rule = rule.canonical();
    let parts = encode(family, &rule).ok_or_else(|| format!("rule {rule} is of an unknown kind"))?;
    let mut attributes = message::stands_in(&chain_id(family, table, &rule.chain)?);
    attributes.push(RuleAttribute::Expressions(parts.iter().map(expression).collect()));
    let compat = [be32(1, protocol_number(&rule)), be32(2, 0)];
    attributes.push(RuleAttribute::Other(nested(COMPAT, &compat)));
    let inner = NfTablesMessage::NewRule(RuleMessage { attributes });
    Ok(request::message(TableFamily::from(family), inner).into())
}
