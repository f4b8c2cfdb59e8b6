//! Accesses the tables of iptables over netlink, if the host's iptables uses nf_tables.
//!
//! iptables-nft stores a rule as instructions of nf_tables and extensions of x_tables. The plugins' rules are encoded
//! here in the same way, so a batch is one message and starts no program; any release of iptables-nft prints, finds
//! and deletes them. What cannot be read or written with certainty is left to the programs: then nothing was changed,
//! and the error is the reason.

mod draft;

use std::collections::HashSet;
use std::time::{Duration, Instant};

use cni_core::error::Code;
use cni_core::family::Family;
use cni_core::names::ChainName;
use cni_kernel::netlink::RefusedChange;
use cni_kernel::nftables::listing::RawRule;
use cni_kernel::nftables::xt::{NumberedRule, read_rule};
use cni_netfilter::iptables::{Batch, ChainRules, IptablesRule, IptablesTable, Match, Target};
use cni_netfilter::nftables::Generation;
use cni_netfilter::{NetfilterError, NetfilterErrorKind};
use draft::{MessageDraft, NoMessages, chain_id, copies, unreadable};

use crate::nftables::connection::NftConnection;
use crate::nftables::handles::text;

/// How long a batch is tried if other programs keep changing tables in between.
const PATIENCE: Duration = Duration::from_secs(8);

/// The rules of a chain in order. One of the table's own may be missing.
pub(super) fn list(
    connection: &mut NftConnection,
    family: Family,
    table: IptablesTable,
    chain: &ChainName,
    unknown: UnknownRules,
) -> Result<ChainRules, String> {
    let id = chain_id(family, table, chain)?;
    let read = |payload: &[u8]| match read_rule(family, chain, payload) {
        None if unknown == UnknownRules::Keep => unread(chain, payload),
        known => known,
    };
    let found = connection.rules(&id, |payload| Some(read(payload))).map_err(|cause| unreadable(&id, &cause))?;
    let Some(found) = found else { return Ok(None) };
    let rules: Option<Vec<NumberedRule>> = found.into_iter().collect();
    let rules = rules.ok_or_else(|| format!("chain {id} holds a rule of an unknown kind"))?;
    // What is decided about rules with copies refers to the first copy, so their handles are forgotten.
    if let Some(handles) = connection.handles_without_index() {
        let mut seen = HashSet::new();
        rules.iter().filter(|(_, rule)| !seen.insert(rule)).for_each(|(_, rule)| handles.forget(&id, &text(rule)));
    }
    Ok(Some(rules.into_iter().map(|(_, rule)| rule).collect()))
}

/// The rules of a chain that may be copies of some rules, with their positions, counted from 0.
pub(super) fn find(
    connection: &mut NftConnection,
    family: Family,
    table: IptablesTable,
    chain: &ChainName,
    rules: &[&IptablesRule],
) -> Result<Vec<(usize, IptablesRule)>, String> {
    let found = copies(connection, family, &chain_id(family, table, chain)?, chain, rules)?;
    Ok(found.into_iter().map(|(place, (_, rule))| (place, rule)).collect())
}

/// Carries out a batch.
pub(super) fn commit(connection: &mut NftConnection, batch: &Batch) -> Result<Result<(), NetfilterError>, String> {
    let (started, mut retry) = (Instant::now(), None);
    while started.elapsed() < PATIENCE {
        let unreadable = |cause| format!("the generation of nf_tables cannot be read: {cause}");
        let since = connection.state().map_err(unreadable)?;
        let draft = match MessageDraft::new(connection, batch) {
            Ok(draft) => draft,
            Err(NoMessages::Unfit(line)) => {
                // The next attempt must not rely on what was kept.
                connection.expire();
                return Ok(Err(unfit(batch, &line)));
            }
            Err(NoMessages::Fallback(reason)) => return Err(reason),
        };
        match draft.send(since) {
            Ok(()) => return Ok(Ok(())),
            Err((refused, _)) if refused.is_late() => retry = retry.or_else(|| Some(connection.lock_for_retry())),
            Err((refused, creation)) => return judge(connection, batch, since, refused, creation).map(Err),
        }
    }
    Err(format!("others changed tables in between for {PATIENCE:?}"))
}

/// Interprets the refusal of a batch that is bound to this generation; the refused change may create a chain.
fn judge(
    connection: &mut NftConnection,
    batch: &Batch,
    since: Generation,
    RefusedChange { change, cause }: RefusedChange,
    creation: Option<ChainName>,
) -> Result<NetfilterError, String> {
    let (Batch { family, table, .. }, number) = (batch, cause.errno());
    match (change, creation) {
        (_, Some(chain)) if number == Some(libc::EEXIST) => Ok(unfit(batch, &format!("-N {chain}"))),
        // Carried out, it would have made another state.
        (None, _) if number != Some(libc::EPERM) => match connection.generation() {
            Ok(now) if now == since => Err(format!("the batch was not carried out: {cause}")),
            Ok(_) | Err(_) => {
                let text = format!("failed to find out whether the {family} rules of table {table} were changed");
                Ok(NetfilterError::new(NetfilterErrorKind::Unanswered, Code::Kernel, text, cause))
            }
        },
        (None | Some(_), _) => Err(format!("the kernel refuses: {cause}")),
    }
}

/// A line of a batch does not fit what exists.
fn unfit(Batch { family, table, .. }: &Batch, line: &str) -> NetfilterError {
    let program = format!("table {family} {table} of nf_tables");
    NetfilterError::refused(*family, *table, &program, &format!("{line}: does not fit"))
}

/// What to do with rules of an unknown kind, as `nft` writes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnknownRules {
    /// The chain is not read.
    Refuse,
    /// They keep their places among the others, as rules that are nobody's.
    Keep,
}

/// Reads only the handle of a rule whose kind is unknown.
fn unread(chain: &ChainName, payload: &[u8]) -> Option<NumberedRule> {
    let handle = RawRule::read(payload)?.handle;
    let words = vec!["handle".to_owned(), handle.to_string()];
    Some((handle, IptablesRule::new(chain.clone(), vec![Match::Raw(words)], Target::Raw(Vec::new()))))
}
