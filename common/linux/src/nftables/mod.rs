//! Implements [`cni_netfilter::nftables::Nftables`] by netlink messages, without a program.
//!
//! A rule is compiled to the instructions that `nft` would write for it, and decoded from those that any program
//! wrote. `nft` itself is started only for conditions that a user has written in its language.

pub(crate) mod cache;
pub(crate) mod connection;
mod drafts;
mod line;
mod script;

use std::env;
use std::ffi::OsString;
use std::net::IpAddr;

use cni_netfilter::nftables::{
    ChainId, Generation, ListedRule, NftChange, Nftables, NftablesError, RuleSelection, SetElements, Transaction,
    TransactionError, WantedRules,
};
use netlink_packet_core::NLM_F_ECHO;

use crate::latecomer::LatecomerLock;
use cache::CachedRule;
use cni_kernel::netlink::{Cause, RefusedChange};
use cni_kernel::netns::NetnsScope;
use cni_kernel::nftables::request::ChangeMessage;
use cni_kernel::nftables::{listing, message, set};
use connection::NftConnection;
use drafts::ChainDrafts;
use line::WantedLines;

/// So many rules of a chain are asked for one by one. One listing answers for more of them in less time.
const FEW: usize = 64;

/// The nf_tables of a network namespace.
#[derive(Debug)]
pub struct NetlinkNftables {
    connection: NftConnection,
    path: OsString,
    scope: NetnsScope,
    /// From a transaction that came too late to the next one.
    late: Option<LatecomerLock>,
}

impl NetlinkNftables {
    /// Works in the namespace that the calling thread is in, and runs the `nft` that `PATH` leads to, where it has to.
    pub fn new() -> Self {
        let path = env::var_os("PATH").unwrap_or_default();
        Self { connection: NftConnection::new(NetnsScope::Current), path, scope: NetnsScope::Current, late: None }
    }

    /// Runs the `nft` that another list of directories leads to.
    #[must_use]
    pub fn with_path(self, path: OsString) -> Self {
        Self { path, ..self }
    }

    /// Works in another namespace than that of the calling thread.
    #[must_use]
    pub fn within(self, scope: NetnsScope) -> Self {
        Self { connection: NftConnection::new(scope.clone()), scope, ..self }
    }

    /// The selected rules of a chain, if the cache knows all of them. The kernel is asked for rules that are only
    /// partly cached.
    fn known(&mut self, chain: &ChainId, meant: &[RuleSelection]) -> Result<Option<Vec<ListedRule>>, Cause> {
        let Some(cached) = self.connection.cached(chain)? else { return Ok(None) };
        let (family, wanted) = (chain.table.family, WantedLines::new(meant));
        let (mut known, mut asked) = (Vec::new(), 0);
        for CachedRule { handle, text } in cached.rules.iter().filter(|rule| wanted.hold(&rule.text)) {
            if let Some(rule) = wanted.rule(text) {
                known.push(ListedRule::of(rule, *handle));
                continue;
            }
            asked += 1;
            if asked > FEW {
                return Ok(None);
            }
            let found = self.connection.rule(chain, *handle, |payload| listing::read_rule(family, payload))?;
            match found.filter(|rule| line::of_listed(family, rule) == **text) {
                Some(rule) => known.push(rule),
                None => return Ok(None),
            }
        }
        Ok(Some(known))
    }

    /// The numbers of the rules of a chain that are meant, if the cache knows all of them.
    fn known_handles(&mut self, chain: &ChainId, meant: &[RuleSelection]) -> Result<Option<Vec<u64>>, Cause> {
        let Some(cached) = self.connection.cached(chain)? else { return Ok(None) };
        let wanted = WantedLines::new(meant);
        Ok(Some(cached.rules.iter().filter(|rule| wanted.hold(&rule.text)).map(|rule| rule.handle).collect()))
    }

    /// The connection, which the tables of iptables can share.
    pub(crate) const fn connection(&mut self) -> &mut NftConnection {
        &mut self.connection
    }
}

impl Default for NetlinkNftables {
    fn default() -> Self {
        Self::new()
    }
}

impl Nftables for NetlinkNftables {
    fn list(&mut self, chain: &ChainId) -> Result<Option<Vec<ListedRule>>, NftablesError> {
        let failed = |cause| unreadable(format!("list chain {chain}"), cause);
        let before = self.connection.generation().ok();
        if !self.connection.exists(message::get_chain(chain)).map_err(failed)? {
            self.connection.cache().forget(chain);
            return Ok(None);
        }
        let family = chain.table.family;
        let rules = self.connection.rules(chain, |payload| listing::read_rule(family, payload)).map_err(failed)?;
        if let Some(before) = before {
            let cached =
                |rule: &ListedRule| CachedRule { handle: rule.handle, text: line::of_listed(family, rule).into() };
            self.connection.remember(chain, rules.iter().map(cached).collect(), before);
        }
        Ok(Some(rules))
    }

    fn find(&mut self, chain: &ChainId, meant: &[RuleSelection]) -> Result<Option<Vec<ListedRule>>, NftablesError> {
        let known = self.known(chain, meant).map_err(|cause| unreadable(format!("list chain {chain}"), cause))?;
        let rules = match known {
            Some(known) => Some(known),
            None => self.list(chain)?,
        };
        let meant = WantedRules::new(meant);
        let is_meant = |rule: &ListedRule| meant.hold(chain.table.family, rule);
        Ok(rules.map(|rules| rules.into_iter().filter(is_meant).collect()))
    }

    fn find_handles(&mut self, chain: &ChainId, meant: &[RuleSelection]) -> Result<Option<Vec<u64>>, NftablesError> {
        let known =
            self.known_handles(chain, meant).map_err(|cause| unreadable(format!("list chain {chain}"), cause))?;
        match known {
            Some(known) => Ok(Some(known)),
            None => Ok(self.find(chain, meant)?.map(|rules| rules.iter().map(|rule| rule.handle).collect())),
        }
    }

    /// Asks for one element after the other: the kernel answers one question about several with an error
    /// when one of them is absent.
    fn held(&mut self, wanted: &SetElements) -> Result<Option<Vec<IpAddr>>, NftablesError> {
        let failed = |cause| unreadable(format!("look into set {}", wanted.set), cause);
        if !self.connection.exists(set::get(&wanted.set)).map_err(failed)? {
            return Ok(None);
        }
        let mut held = Vec::new();
        for address in &wanted.addresses {
            if self.connection.exists(set::get_element(&wanted.set, *address)).map_err(failed)? {
                held.push(*address);
            }
        }
        Ok(Some(held))
    }

    fn generation(&mut self) -> Result<Generation, NftablesError> {
        let failed = |cause| unreadable("read the generation of nf_tables".to_owned(), cause);
        self.connection.generation().map_err(failed)
    }

    fn commit(&mut self, transaction: &Transaction) -> Result<(), TransactionError> {
        let requests: Option<Vec<_>> = transaction.ops.iter().map(message::change).collect();
        let Some(requests) = requests else { return script::run(transaction, &self.path, &self.scope) };
        let turn = self.connection.cache().turn();
        let since = match (transaction.since, &turn) {
            (None, Some(_)) => Some(self.generation().map_err(TransactionError::Failed)?),
            (since, _) => since,
        };
        let mut drafts = ChainDrafts::new(since.filter(|_| turn.is_some()));
        let (mut changes, mut origins): (Vec<ChangeMessage>, Vec<&NftChange>) = Default::default();
        for (op, mut requests) in transaction.ops.iter().zip(requests) {
            if drafts.take(self.connection.cache(), op, changes.len()) {
                requests.iter_mut().for_each(|(_, flags)| *flags |= NLM_F_ECHO);
            }
            origins.extend(requests.iter().map(|_| op));
            changes.extend(requests);
        }
        if changes.is_empty() {
            return Ok(());
        }
        let done = self.connection.batch(since, changes);
        self.late = match &done {
            // Who has a turn comes late only after somebody else's change.
            Err(refused) if refused.is_late() && turn.is_none() => {
                self.late.take().or_else(|| Some(self.connection.come_late()))
            }
            Ok(_) | Err(_) => None,
        };
        let made = match done {
            Ok(made) => made,
            Err(refused) => {
                if !refused.is_late() {
                    drafts.forget(self.connection.cache());
                }
                return Err(refusal(refused, &origins));
            }
        };
        self.connection.committed(turn.as_ref(), since, drafts.into_touched(&made));
        Ok(())
    }
}

/// The operation in errors that no single change has caused.
const COMMIT: &str = "commit to nf_tables";

/// Names the change that was refused. What someone else's change may have caused is worth another look.
fn refusal(RefusedChange { change, cause }: RefusedChange, origins: &[&NftChange]) -> TransactionError {
    let op = change.and_then(|index| origins.get(index));
    let operation = op.map_or_else(|| COMMIT.to_owned(), |op| op.command());
    match cause.errno() {
        Some(
            libc::ENOENT | libc::EEXIST | libc::EBUSY | libc::EAGAIN | libc::EINTR | libc::ENOBUFS | libc::ERESTART,
        ) => TransactionError::Refused(NftablesError::Kernel { operation, source: Box::new(cause) }),
        Some(_) | None => TransactionError::Failed(unusable(operation, cause)),
    }
}

/// The error of a question. A kernel without nf_tables answers `EINVAL`.
fn unreadable(operation: String, cause: Cause) -> NftablesError {
    match cause.errno() {
        Some(libc::EINVAL) => NftablesError::Unsupported { operation, source: Box::new(cause) },
        Some(_) | None => unusable(operation, cause),
    }
}

fn unusable(operation: String, cause: Cause) -> NftablesError {
    let (number, is_changing) = (cause.errno(), cause == Cause::Interrupted);
    let source = Box::new(cause);
    match number {
        None if is_changing => NftablesError::Changing { operation, source },
        Some(libc::EOPNOTSUPP | libc::EPROTONOSUPPORT | libc::EAFNOSUPPORT) => {
            NftablesError::Unsupported { operation, source }
        }
        Some(libc::EPERM | libc::EACCES) => NftablesError::NotPermitted { operation, source },
        Some(_) | None => NftablesError::Kernel { operation, source },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cni_core::error::Failure;
    use cni_kernel::netlink::Errno;
    use cni_netfilter::nftables::{NftChain, TableFamily, TableId};

    fn refused(number: i32) -> TransactionError {
        let op = NftChange::AddChain(NftChain::regular(TableId::fixed(TableFamily::Bridge, "nat").chain("x")));
        refusal(RefusedChange { change: Some(0), cause: Errno::new(number).into() }, &[&op])
    }

    #[test]
    fn a_kernel_that_cannot_is_distinguished_from_one_that_may_not_and_one_that_may_later() {
        let failed = |number| match refused(number) {
            TransactionError::Failed(error) => (error.to_string(), error.details(), error.is_absence()),
            TransactionError::Refused(error) => panic!("to be tried again: {error}"),
        };
        let told = |message: &str, details: &str, unavailable| (message.to_owned(), details.to_owned(), unavailable);
        let add = "failed to add chain bridge nat x";
        for number in [libc::EOPNOTSUPP, libc::EPROTONOSUPPORT, libc::EAFNOSUPPORT] {
            let (message, details, unavailable) = failed(number);
            assert_eq!((message, unavailable), (format!("{add}: nf_tables is not supported by this kernel"), true));
            assert_eq!(details, Errno::new(number).to_string());
        }
        assert_eq!(failed(libc::EPERM), told(&format!("{add}: not permitted"), "operation not permitted", true));
        assert_eq!(failed(libc::ERANGE), told(add, "numerical result out of range", false));
        let TransactionError::Refused(error) = refused(libc::ENOENT) else { panic!("not to be tried again") };
        assert_eq!((error.to_string(), error.details()), (add.to_owned(), "no such thing".to_owned()));
    }

    #[test]
    fn a_kernel_without_the_subsystem_is_known_by_its_answer_to_a_question() {
        let error = unreadable("list chain ip x y".to_owned(), Errno::new(libc::EINVAL).into());
        assert_eq!(error.to_string(), "failed to list chain ip x y: nf_tables is not supported by this kernel");
    }

    #[test]
    fn what_others_keep_changing_may_be_tried_again() {
        let error = unreadable("list chain ip x y".to_owned(), Cause::Interrupted);
        assert_eq!((error.code().number(), error.to_string()), (11, "failed to list chain ip x y".to_owned()));
        assert_eq!(error.details(), "it was changed again and again while it was listed");
    }
}
