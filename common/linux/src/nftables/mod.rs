//! Implements [`cni_netfilter::nftables::Nftables`] by netlink messages, without a program.
//!
//! A rule is compiled to the instructions that `nft` would write for it, and decoded from those that any program
//! wrote. `nft` itself is started only for conditions that a user has written in its language.

pub(crate) mod connection;
pub(crate) mod handles;
mod kept;

use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::net::IpAddr;
use std::time::Duration;

use cni_core::error::Code;
use cni_files::find_program;
use cni_kernel::netlink::{Cause, RefusedChange};
use cni_kernel::netns::NetnsScope;
use cni_kernel::nftables::listing;
use cni_kernel::nftables::message::{self, ChangeMessage};
use cni_netfilter::nftables::{
    ChainId, Generation, ListedRule, NftChange, NftRule, Nftables, RuleSelection, SetElements, Transaction, WantedRules,
};
use cni_netfilter::{NetfilterError, NetfilterErrorKind};
use connection::NftConnection;
use handles::FEW;
use netlink_packet_core::NLM_F_ECHO;

use crate::locks::RetryLock;
use crate::process;

/// The nf_tables of a network namespace.
#[derive(Debug)]
pub struct NetlinkNftables {
    /// The connection, which the tables of iptables can share.
    pub(crate) connection: NftConnection,
    path: OsString,
    scope: NetnsScope,
    /// From a refused transaction to the next one.
    retry: Option<RetryLock>,
}

impl NetlinkNftables {
    /// Works in the namespace that the calling thread is in, and runs the `nft` that `PATH` leads to, where it has to.
    pub fn new() -> Self {
        let path = env::var_os("PATH").unwrap_or_default();
        Self { connection: NftConnection::new(NetnsScope::Current), path, scope: NetnsScope::Current, retry: None }
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

    /// The selected rules, if they are selected by all that they say, and the kernel shows each at its remembered handle.
    fn remembered(&mut self, chain: &ChainId, meant: &[RuleSelection]) -> Result<Option<Vec<ListedRule>>, Cause> {
        let rules: Option<Vec<&[NftRule]>> = meant.iter().map(RuleSelection::listed).collect();
        let rules = rules.map(|rules| rules.concat()).filter(|rules| (1..=FEW).contains(&rules.len()));
        let mut found = Vec::new();
        for rule in rules.iter().flatten() {
            let handle = self.connection.handles.find(chain, &rule.to_string());
            let read = |payload: &[u8]| listing::read_rule(chain.table.family, payload);
            let shown = handle.map_or(Ok(None), |handle| self.connection.rule(chain, handle, read))?;
            let Some(shown) = shown.filter(|shown| shown.is(rule)) else { return Ok(None) };
            found.push(shown);
        }
        Ok(rules.map(|_| found))
    }

    /// The selected rules from a listing of the chain; `None` if it does not exist.
    fn select(&mut self, chain: &ChainId, meant: &[RuleSelection]) -> Result<Option<Vec<ListedRule>>, Cause> {
        if meant.is_empty() {
            return Ok(self.connection.has_chain(chain)?.then(Vec::new));
        }
        let (family, wanted) = (chain.table.family, WantedRules::new(meant));
        let read = |payload: &[u8]| Some(listing::read_rule(family, payload).filter(|rule| wanted.hold(family, rule)));
        let Some(listed) = self.connection.rules(chain, read)? else { return Ok(None) };
        let length = listed.len();
        let found: Vec<ListedRule> = listed.into_iter().flatten().collect();
        let copies = |rule: &NftRule| {
            let copies = found.iter().filter(|found| found.is(rule));
            (rule.to_string(), copies.map(|found| found.handle).collect())
        };
        let rules: Vec<_> = meant.iter().filter_map(RuleSelection::listed).flatten().take(FEW).map(copies).collect();
        self.connection.handles.learn(chain, length - found.len(), &rules);
        Ok(Some(found))
    }

    /// Whether the handle of a rule that a transaction adds is remembered: not in a chain that the transaction fills.
    fn is_remembered(&mut self, transaction: &Transaction, op: &NftChange) -> bool {
        let fills = |chain: &ChainId| {
            transaction.ops.iter().any(|op| matches!(op, NftChange::FlushChain(filled) if filled == chain))
        };
        op.added_rule().is_some_and(|rule| self.connection.handles.are_kept() && !fills(&rule.chain))
    }
}

impl Default for NetlinkNftables {
    fn default() -> Self {
        Self::new()
    }
}

impl Nftables for NetlinkNftables {
    fn list(&mut self, chain: &ChainId) -> Result<Option<Vec<ListedRule>>, NetfilterError> {
        let failed = |cause| unreadable(&format!("list chain {chain}"), &cause);
        let read = |payload: &[u8]| listing::read_rule(chain.table.family, payload);
        self.connection.rules(chain, read).map_err(failed)
    }

    fn find(&mut self, chain: &ChainId, meant: &[RuleSelection]) -> Result<Option<Vec<ListedRule>>, NetfilterError> {
        let failed = |cause| unreadable(&format!("list chain {chain}"), &cause);
        match self.remembered(chain, meant).map_err(failed)? {
            Some(rules) => Ok(Some(rules)),
            None => self.select(chain, meant).map_err(failed),
        }
    }

    fn find_handles(&mut self, chain: &ChainId, meant: &[RuleSelection]) -> Result<Option<Vec<u64>>, NetfilterError> {
        let found = self.select(chain, meant).map_err(|cause| unreadable(&format!("list chain {chain}"), &cause))?;
        // They are about to be deleted.
        for rule in found.iter().flatten().filter_map(|rule| rule.to_rule(chain)) {
            self.connection.handles.forget(chain, &rule.to_string());
        }
        Ok(found.map(|found| found.iter().map(|rule| rule.handle).collect()))
    }

    /// Asks for one element after the other: the kernel answers one question about several with an error
    /// when one of them is absent.
    fn held(&mut self, wanted: &SetElements) -> Result<Option<Vec<IpAddr>>, NetfilterError> {
        let failed = |cause| unreadable(&format!("look into set {}", wanted.set), &cause);
        if !self.connection.exists(message::get_set(&wanted.set)).map_err(failed)? {
            return Ok(None);
        }
        let mut held = Vec::new();
        for address in &wanted.addresses {
            if self.connection.exists(message::get_element(&wanted.set, *address)).map_err(failed)? {
                held.push(*address);
            }
        }
        Ok(Some(held))
    }

    fn generation(&mut self) -> Result<Generation, NetfilterError> {
        self.connection.generation().map_err(|cause| unreadable("read the generation of nf_tables", &cause))
    }

    fn commit(&mut self, transaction: &Transaction) -> Result<(), NetfilterError> {
        let requests: Option<Vec<_>> = transaction.ops.iter().map(message::change).collect();
        let Some(requests) = requests else {
            let done = run_script(transaction, &self.path, &self.scope);
            self.connection.expire();
            return done;
        };
        let (mut changes, mut origins): (Vec<ChangeMessage>, Vec<&NftChange>) = Default::default();
        let mut remembered = 0;
        for (op, mut requests) in transaction.ops.iter().zip(requests) {
            if remembered < FEW && self.is_remembered(transaction, op) {
                remembered += 1;
                requests.iter_mut().for_each(|(_, flags)| *flags |= NLM_F_ECHO);
            }
            origins.extend(requests.iter().map(|_| op));
            changes.extend(requests);
        }
        if changes.is_empty() {
            return Ok(());
        }
        let done = self.connection.batch(transaction.since, changes);
        self.retry = match &done {
            Err(refused) if refused.is_late() => self.retry.take().or_else(|| Some(self.connection.lock_for_retry())),
            Ok(_) | Err(_) => None,
        };
        let made = done.map_err(|refused| refusal(refused, &origins))?;
        for (change, op) in origins.iter().enumerate() {
            if let Some((rule, handle)) = op.added_rule().zip(made.get(&change)) {
                self.connection.handles.keep(&rule.chain, &rule.to_string(), *handle);
            }
        }
        Ok(())
    }
}

/// The operation in errors that no single change has caused.
const COMMIT: &str = "commit to nf_tables";

/// Names the change that was refused. What someone else's change may have caused is worth another look.
fn refusal(RefusedChange { change, cause }: RefusedChange, origins: &[&NftChange]) -> NetfilterError {
    let op = change.and_then(|index| origins.get(index));
    let operation = op.map_or_else(|| COMMIT.to_owned(), |op| op.command());
    match cause.errno() {
        Some(
            libc::ENOENT | libc::EEXIST | libc::EBUSY | libc::EAGAIN | libc::EINTR | libc::ENOBUFS | libc::ERESTART,
        ) => failed(NetfilterErrorKind::Refused, Code::Kernel, &operation, &cause),
        Some(_) | None => unusable(&operation, &cause),
    }
}

/// The error of a question. A kernel without nf_tables answers `EINVAL`.
fn unreadable(operation: &str, cause: &Cause) -> NetfilterError {
    match cause.errno() {
        Some(libc::EINVAL) => unsupported(operation, cause),
        Some(_) | None => unusable(operation, cause),
    }
}

fn unusable(operation: &str, cause: &Cause) -> NetfilterError {
    match cause.errno() {
        None if *cause == Cause::Interrupted => failed(NetfilterErrorKind::Other, Code::TryAgain, operation, cause),
        Some(libc::EOPNOTSUPP | libc::EPROTONOSUPPORT | libc::EAFNOSUPPORT) => unsupported(operation, cause),
        Some(libc::EPERM | libc::EACCES) => {
            failed(NetfilterErrorKind::NotPermitted, Code::Kernel, &format!("{operation}: not permitted"), cause)
        }
        Some(_) | None => failed(NetfilterErrorKind::Other, Code::Kernel, operation, cause),
    }
}

fn unsupported(operation: &str, cause: &Cause) -> NetfilterError {
    let operation = format!("{operation}: nf_tables is not supported by this kernel");
    failed(NetfilterErrorKind::Unsupported, Code::Kernel, &operation, cause)
}

fn failed(kind: NetfilterErrorKind, code: Code, operation: &str, cause: &Cause) -> NetfilterError {
    NetfilterError::new(kind, code, format!("failed to {operation}"), cause)
}

/// The program.
const NFT: &str = "nft";

/// The time limit of `nft`.
const LIMIT: Duration = Duration::from_secs(30);

/// Runs a transaction as the script of one `nft -f -`, which is atomic as well.
fn run_script(transaction: &Transaction, path: &OsStr, scope: &NetnsScope) -> Result<(), NetfilterError> {
    let script = transaction.script()?;
    let program = find_program(NFT, path).ok_or_else(|| absent(transaction, path))?;
    let command = format!("{} -f -", program.display());
    let failed = |source: &dyn Display| {
        NetfilterError::new(NetfilterErrorKind::Unanswered, Code::Program, format!("failed to run {command}"), source)
    };
    let ended = scope.run(|| process::run_bound(&program, &["-f", "-"], script.as_bytes(), LIMIT));
    let ended = ended.map_err(|error| failed(&error))?.map_err(|error| failed(&error))?;
    if ended.status.success() {
        return Ok(());
    }
    let (status, words) = (ended.status.to_string(), String::from_utf8_lossy(&ended.stderr));
    Err(NetfilterError::program(NetfilterErrorKind::Refused, &command, &status, &words))
}

fn absent(transaction: &Transaction, path: &OsStr) -> NetfilterError {
    let added = transaction.ops.iter().filter_map(NftChange::added_rule);
    let rule = added.filter(|rule| rule.has_words()).map(ToString::to_string).next().unwrap_or_default();
    let no_program = "no such program in the directories of PATH";
    let text = format!("failed to locate {NFT}, which must interpret the rule {rule:?}: {no_program}");
    NetfilterError::new(NetfilterErrorKind::Other, Code::Program, text, format_args!("PATH={}", path.display()))
}

#[cfg(test)]
mod tests {
    use cni_core::error::Failure;
    use cni_kernel::netlink::Errno;
    use cni_netfilter::nftables::{NftChain, TableFamily, TableId};

    use super::*;

    fn refused(number: i32) -> NetfilterError {
        let op = NftChange::AddChain(NftChain::regular(TableId::fixed(TableFamily::Bridge, "nat").chain("x")));
        refusal(RefusedChange { change: Some(0), cause: Errno::new(number).into() }, &[&op])
    }

    #[test]
    fn a_kernel_that_cannot_is_distinguished_from_one_that_may_not_and_one_that_may_later() {
        let failed = |number| {
            let error = refused(number);
            assert!(!error.is_refusal(), "to be tried again: {error}");
            (error.to_string(), error.details(), error.is_absence())
        };
        let reported =
            |message: &str, details: &str, unavailable| (message.to_owned(), details.to_owned(), unavailable);
        let add = "failed to add chain bridge nat x";
        for number in [libc::EOPNOTSUPP, libc::EPROTONOSUPPORT, libc::EAFNOSUPPORT] {
            let (message, details, unavailable) = failed(number);
            assert_eq!((message, unavailable), (format!("{add}: nf_tables is not supported by this kernel"), true));
            assert_eq!(details, Errno::new(number).to_string());
        }
        assert_eq!(failed(libc::EPERM), reported(&format!("{add}: not permitted"), "operation not permitted", true));
        assert_eq!(failed(libc::ERANGE), reported(add, "numerical result out of range", false));
        let error = refused(libc::ENOENT);
        assert!(error.is_refusal(), "not to be tried again");
        assert_eq!((error.to_string(), error.details()), (add.to_owned(), "no such thing".to_owned()));
    }

    #[test]
    fn a_kernel_without_the_subsystem_is_known_by_its_answer_to_a_question() {
        let error = unreadable("list chain ip x y", &Errno::new(libc::EINVAL).into());
        assert_eq!(error.to_string(), "failed to list chain ip x y: nf_tables is not supported by this kernel");
    }

    #[test]
    fn what_others_keep_changing_may_be_tried_again() {
        let error = unreadable("list chain ip x y", &Cause::Interrupted);
        assert_eq!((error.code().number(), error.to_string()), (11, "failed to list chain ip x y".to_owned()));
        assert_eq!(error.details(), "it was changed again and again while it was listed");
    }
}
