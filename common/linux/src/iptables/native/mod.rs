//! Accesses the tables of iptables over netlink, if the host's iptables uses nf_tables.
//!
//! iptables-nft stores a rule as instructions of nf_tables and extensions of x_tables. The plugins' rules are encoded
//! here in the same way, so a batch is one message and starts no program; any release of iptables-nft prints, finds
//! and deletes them. What cannot be read or written with certainty is left to the programs: then [`Native::Fallback`]
//! is returned, and nothing was changed.

mod chain;
mod draft;
mod view;

use std::collections::HashSet;
use std::time::{Duration, Instant};

use cni_core::family::Family;
use cni_core::names::ChainName;
use cni_netfilter::iptables::{Batch, IptablesRule, IptablesTable, RulePlaces};
use cni_netfilter::nftables::{ChainId, Generation};

use crate::nftables::connection::NftConnection;
use crate::nftables::handles::text;
pub use chain::UnknownRules;
use chain::{chain_id, numbered, partly_numbered};
use cni_kernel::netlink::{Cause, RefusedChange};
use cni_kernel::nftables::xt::NumberedRule;
use draft::{BatchMessages, MessageDraft, NoMessages};

/// The outcome of reading or changing the tables.
#[derive(Debug)]
pub enum Native<T> {
    /// This.
    Done(T),
    /// Nothing, for this reason, and nothing was changed: the programs have to do it.
    Fallback(String),
}

/// The outcome of a batch.
#[derive(Debug)]
pub enum BatchOutcome {
    /// All of it was carried out.
    Committed,
    /// Nothing was changed, since this line does not fit what exists.
    Refused(String),
    /// It was sent, and the kernel's answer was lost.
    Unanswered(Cause),
}

/// How long a batch is tried if other programs keep changing tables in between.
const PATIENCE: Duration = Duration::from_secs(8);

/// The tables of iptables in the nf_tables of a network namespace.
pub struct NativeIptables<'a> {
    connection: &'a mut NftConnection,
}

impl<'a> NativeIptables<'a> {
    /// Uses a connection that others use as well.
    pub(crate) const fn new(connection: &'a mut NftConnection) -> Self {
        Self { connection }
    }

    /// The rules of a chain in order. One of the table's own may be missing.
    pub fn list(
        &mut self,
        family: Family,
        table: IptablesTable,
        chain: &ChainName,
        unknown: UnknownRules,
    ) -> Native<Option<Vec<IptablesRule>>> {
        let found = chain_id(family, table, chain)
            .and_then(|id| Ok((numbered(self.connection, family, &id, chain, unknown)?, id)));
        match found {
            Ok((Some(rules), id)) => {
                self.forget_copies(&id, &rules);
                Native::Done(Some(rules.into_iter().map(|(_, rule)| rule).collect()))
            }
            Ok((None, _)) => Native::Done(None),
            Err(reason) => Native::Fallback(reason),
        }
    }

    /// Forgets the handles of rules with copies: what is decided about them refers to the first copy.
    fn forget_copies(&mut self, id: &ChainId, rules: &[NumberedRule]) {
        let (mut seen, Some(handles)) = (HashSet::new(), self.connection.handles_without_index()) else { return };
        for (_, rule) in rules.iter().filter(|(_, rule)| !seen.insert(rule)) {
            handles.forget(id, &text(rule));
        }
    }

    /// The positions of all copies of some rules in their chain, counted from 0.
    pub fn places(
        &mut self,
        family: Family,
        table: IptablesTable,
        chain: &ChainName,
        rules: &[&IptablesRule],
    ) -> Native<RulePlaces> {
        let listing = chain_id(family, table, chain)
            .and_then(|id| Ok((partly_numbered(self.connection, family, &id, chain, rules)?, id)));
        match listing {
            Ok((listing, id)) => {
                listing.remember(self.connection, &id, rules);
                let found = listing.rules.into_iter().map(|(place, (_, rule))| (place, rule));
                Native::Done(RulePlaces::among(found, rules))
            }
            Err(reason) => Native::Fallback(reason),
        }
    }

    /// Carries out a batch.
    pub fn commit(&mut self, batch: &Batch) -> Native<BatchOutcome> {
        let (started, mut late) = (Instant::now(), None);
        while started.elapsed() < PATIENCE {
            let since = match self.connection.state() {
                Ok(since) => since,
                Err(cause) => return Native::Fallback(format!("the generation of nf_tables cannot be read: {cause}")),
            };
            let messages = match MessageDraft::new(self.connection, batch) {
                Ok(draft) => draft.into_messages(),
                Err(NoMessages::Unfit(line)) => {
                    // The next attempt must not rely on what was kept.
                    self.connection.expire();
                    return Native::Done(BatchOutcome::Refused(line));
                }
                Err(NoMessages::Fallback(reason)) => return Native::Fallback(reason),
            };
            if messages.changes.is_empty() {
                return Native::Done(BatchOutcome::Committed);
            }
            match self.send(since, messages) {
                Ok(()) => return Native::Done(BatchOutcome::Committed),
                Err((refused, _)) if refused.is_late() => late = late.or_else(|| Some(self.connection.come_late())),
                Err((refused, creations)) => return self.judge(refused, since, &creations),
            }
        }
        Native::Fallback(format!("others changed tables in between for {PATIENCE:?}"))
    }

    /// Sends a batch, and remembers the handles of what it has made.
    fn send(
        &mut self,
        since: Generation,
        mut messages: BatchMessages,
    ) -> Result<(), (RefusedChange, Vec<(usize, ChainName)>)> {
        let changes = std::mem::take(&mut messages.changes);
        match self.connection.batch(Some(since), changes) {
            Ok(made) => {
                messages.committed(self.connection, &made);
                Ok(())
            }
            Err(refused) => Err((refused, messages.creations)),
        }
    }

    /// Interprets the refusal of a batch that is bound to this generation.
    fn judge(
        &mut self,
        refused: RefusedChange,
        since: Generation,
        creations: &[(usize, ChainName)],
    ) -> Native<BatchOutcome> {
        let RefusedChange { change, cause } = refused;
        let number = cause.errno();
        let created = |at: usize| creations.iter().find(|(creation, _)| *creation == at).map(|(_, chain)| chain);
        match (change, change.and_then(created)) {
            (_, Some(chain)) if number == Some(libc::EEXIST) => {
                Native::Done(BatchOutcome::Refused(format!("-N {chain}")))
            }
            // Carried out, it would have made another state.
            (None, _) if number != Some(libc::EPERM) => match self.connection.generation() {
                Ok(now) if now == since => Native::Fallback(format!("the batch was not carried out: {cause}")),
                Ok(_) | Err(_) => Native::Done(BatchOutcome::Unanswered(cause)),
            },
            (None | Some(_), _) => Native::Fallback(format!("the kernel refuses: {cause}")),
        }
    }
}
