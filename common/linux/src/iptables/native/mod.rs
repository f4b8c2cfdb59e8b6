//! The tables of iptables over netlink, where the host's iptables keeps them in nf_tables.
//!
//! iptables-nft stores a rule as instructions of nf_tables and extensions of x_tables. The rules that the
//! plugins write are encoded here as it does, so a batch is one message and no program; any release of
//! it prints, finds and deletes them. What cannot be read or written here with certainty is left to
//! the programs: [`Judged::Unclear`] says so, and then nothing was changed.

mod decode;
mod encode;
mod extension;
mod part;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use cni_core::error::Failure;
use cni_core::family::Family;
use cni_core::names::ChainName;
use cni_netfilter::iptables::{Batch, BatchLine, IptablesRule, IptablesTable};
use cni_netfilter::nftables::{ChainId, NftName, Nftables, TableFamily, TableId};
use netlink_packet_core::{DefaultNla, NLM_F_APPEND, NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_netfilter::nftables::{
    ChainMessage, ExpressionAttribute, Expressions, ListAttribute, NfTablesMessage, RuleAttribute, RuleMessage,
};

use crate::netlink::{Cause, Refused};
use crate::nftables::NetlinkNftables;
use crate::nftables::instruction::{be32, nested};
use crate::nftables::listing::RawRule;
use crate::nftables::message;
use crate::nftables::request::{self, Request};
use part::Part;

/// What is known after a look at, or a change of, the tables.
#[derive(Debug)]
pub enum Judged<T> {
    /// This.
    Clear(T),
    /// Nothing, for this reason, and nothing was changed: the programs have to do it.
    Unclear(String),
}

/// What became of a batch.
#[derive(Debug)]
pub enum Done {
    /// All of it.
    Committed,
    /// None of it, since this line does not fit what is there.
    Refused(String),
    /// It was sent, and the kernel's answer was lost.
    Unsettled(Cause),
}

/// A rule and its number in the table.
type Numbered = (u64, IptablesRule);

/// How often a batch is tried, when others keep changing tables in between.
const ATTEMPTS: usize = 5;

/// `NFTA_RULE_COMPAT`, with `NFTA_RULE_COMPAT_PROTO` and `NFTA_RULE_COMPAT_FLAGS`.
const COMPAT: u16 = 5;

impl NetlinkNftables {
    /// The rules of a chain of iptables in order.
    pub fn list_compat(
        &mut self,
        family: Family,
        table: IptablesTable,
        chain: &ChainName,
    ) -> Judged<Option<Vec<IptablesRule>>> {
        let found = chain_id(family, table, chain).and_then(|id| self.numbered(family, &id, chain));
        match found {
            Ok(Some(rules)) => Judged::Clear(Some(rules.into_iter().map(|(_, rule)| rule).collect())),
            // A chain of the table itself is there as soon as iptables looks at it.
            Ok(None) if is_builtin(chain) => Judged::Unclear(format!("there is no {chain} yet")),
            Ok(None) => Judged::Clear(None),
            Err(reason) => Judged::Unclear(reason),
        }
    }

    /// Carries out a batch of iptables.
    pub fn commit_compat(&mut self, batch: &Batch) -> Judged<Done> {
        for _ in 0..ATTEMPTS {
            let since = match self.generation() {
                Ok(since) => since,
                Err(error) => return Judged::Unclear(format!("{error}: {}", error.details())),
            };
            let requests = match Draft::new(self, batch) {
                Ok(draft) => draft.requests,
                Err(Not::Fitting(line)) => return Judged::Clear(Done::Refused(line)),
                Err(Not::Clear(reason)) => return Judged::Unclear(reason),
            };
            if requests.is_empty() {
                return Judged::Clear(Done::Committed);
            }
            let socket = match self.socket() {
                Ok(socket) => socket,
                Err(cause) => return Judged::Unclear(format!("no socket: {cause}")),
            };
            match socket.batch(message::batch_ends(Some(since)), requests) {
                Ok(()) => return Judged::Clear(Done::Committed),
                Err(Refused { cause, .. }) if cause.errno() == Some(libc::ERESTART) => {}
                Err(Refused { change: None, cause }) if cause.errno() != Some(libc::EPERM) => {
                    return Judged::Clear(Done::Unsettled(cause));
                }
                Err(Refused { cause, .. }) => return Judged::Unclear(format!("the kernel refuses: {cause}")),
            }
        }
        Judged::Unclear(format!("others changed tables in between {ATTEMPTS} times"))
    }

    /// The rules of a chain, `None` when it does not exist.
    ///
    /// # Errors
    /// Why they cannot be read here.
    fn numbered(&mut self, family: Family, id: &ChainId, chain: &ChainName) -> Result<Option<Vec<Numbered>>, String> {
        let failed = |cause: Cause| format!("chain {id} cannot be read: {cause}");
        if !self.exists(message::get_chain(id)).map_err(failed)? {
            return Ok(None);
        }
        let read = |payload: &[u8]| Some(read_rule(family, chain, payload));
        let found = self.socket().and_then(|socket| socket.dump(&message::get_rules(id), read)).map_err(failed)?;
        let rules: Option<Vec<Numbered>> = found.into_iter().collect();
        rules.map(Some).ok_or_else(|| format!("chain {id} holds a rule of an unknown kind"))
    }
}

fn read_rule(family: Family, chain: &ChainName, payload: &[u8]) -> Option<Numbered> {
    let RawRule { handle, comment: _, expressions } = RawRule::read(payload)?;
    let parts: Option<Vec<Part>> = expressions.into_iter().map(|(name, data)| Part::decode(&name, data)).collect();
    Some((handle, decode::decode(family, chain, &parts?)?))
}

/// The messages of a batch being built, and what was read for them.
struct Draft<'a> {
    family: Family,
    table: IptablesTable,
    kernel: &'a mut NetlinkNftables,
    seen: BTreeMap<ChainName, Option<Vec<Numbered>>>,
    requests: Vec<Request>,
}

/// Why a batch has no messages.
enum Not {
    /// A line does not fit what is there.
    Fitting(String),
    /// It is for the programs to say, for this reason.
    Clear(String),
}

impl<'a> Draft<'a> {
    fn new(kernel: &'a mut NetlinkNftables, batch: &Batch) -> Result<Self, Not> {
        let Batch { family, table, ops } = batch;
        let mut draft = Self { family: *family, table: *table, kernel, seen: BTreeMap::new(), requests: Vec::new() };
        ops.iter().try_for_each(|op| draft.take(op))?;
        Ok(draft)
    }

    fn take(&mut self, op: &BatchLine) -> Result<(), Not> {
        match op {
            // A condition on what the batch itself changes is for the programs.
            BatchLine::Require(_) if !self.requests.is_empty() => {
                Err(Not::Clear("a condition follows a change".to_owned()))
            }
            BatchLine::Require(rule) => {
                let wanted = rule.canonical();
                let holds = self.rules(&rule.chain)?.iter().flatten().any(|(_, have)| *have == wanted);
                if holds { Ok(()) } else { Err(Not::Fitting(format!("-C {}", rule.specification()))) }
            }
            BatchLine::CreateChain(chain) => self.chain_message(chain, NLM_F_CREATE | NLM_F_EXCL),
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
            BatchLine::Delete(rule) => {
                let wanted = rule.canonical();
                let found = self.rules(&rule.chain)?.as_mut().and_then(|rules| {
                    let at = rules.iter().position(|(_, have)| *have == wanted)?;
                    Some(rules.remove(at).0)
                });
                let absent = || Not::Fitting(format!("-D {}", rule.specification()));
                self.delete(&rule.chain, Some(found.ok_or_else(absent)?))
            }
        }
    }

    fn id(&self, chain: &ChainName) -> Result<ChainId, Not> {
        chain_id(self.family, self.table, chain).map_err(Not::Clear)
    }

    /// The rules that a chain had before the batch, less those that it deletes.
    fn rules(&mut self, chain: &ChainName) -> Result<&mut Option<Vec<Numbered>>, Not> {
        let id = self.id(chain)?;
        match self.seen.entry(chain.clone()) {
            Entry::Occupied(seen) => Ok(seen.into_mut()),
            Entry::Vacant(unseen) => {
                let found = self.kernel.numbered(self.family, &id, chain).map_err(Not::Clear)?;
                Ok(unseen.insert(found))
            }
        }
    }

    fn push(&mut self, inner: NfTablesMessage, flags: u16) {
        self.requests.push((request::message(TableFamily::from(self.family), inner), flags));
    }

    fn chain_message(&mut self, chain: &ChainName, flags: u16) -> Result<(), Not> {
        let attributes = message::names(&self.id(chain)?);
        self.push(NfTablesMessage::NewChain(ChainMessage { attributes }), flags);
        Ok(())
    }

    /// Deletes a rule, or all rules of a chain.
    fn delete(&mut self, chain: &ChainName, handle: Option<u64>) -> Result<(), Not> {
        let mut attributes = message::stands_in(&self.id(chain)?);
        attributes.extend(handle.map(RuleAttribute::Handle));
        self.push(NfTablesMessage::DeleteRule(RuleMessage { attributes }), 0);
        Ok(())
    }

    fn add(&mut self, rule: &IptablesRule, flags: u16) -> Result<(), Not> {
        // In the order in which it comes back, so that it is the rule that it was asked for to be.
        let rule = rule.canonical();
        let unknown = || Not::Clear(format!("rule {rule} is of an unknown kind"));
        let parts = encode::encode(self.family, &rule).ok_or_else(unknown)?;
        let mut attributes = message::stands_in(&self.id(&rule.chain)?);
        attributes.push(RuleAttribute::Expressions(parts.iter().map(expression).collect()));
        let compat = [be32(1, encode::protocol_number(&rule)), be32(2, 0)];
        attributes.push(RuleAttribute::Other(nested(COMPAT, &compat)));
        self.push(NfTablesMessage::NewRule(RuleMessage { attributes }), flags);
        Ok(())
    }
}

fn expression(part: &Part) -> ListAttribute<ExpressionAttribute> {
    let (name, attributes): (_, Vec<DefaultNla>) = part.encode();
    Expressions::Other { expression_type: name.to_owned(), attributes }.into()
}

/// The chain as nf_tables know it.
///
/// # Errors
/// For a name that nothing here could hold.
fn chain_id(family: Family, table: IptablesTable, chain: &ChainName) -> Result<ChainId, String> {
    let name = |text| NftName::parse(text).map_err(|error| error.to_string());
    Ok(TableId { family: family.into(), name: name(table.as_str())? }.chain_named(name(chain.as_str())?))
}

/// Whether a chain is one of the table's own, which iptables makes when it is first used.
fn is_builtin(chain: &ChainName) -> bool {
    ["PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"].contains(&chain.as_str())
}

#[cfg(test)]
mod tests;
