//! Transactions with words that only `nft` understands: one run of `nft -f -`, which is atomic as well.

use std::ffi::OsStr;
use std::time::Duration;

use cni_netfilter::nftables::{CommitError, NftablesError, Op, Transaction};

use crate::iptables::find;
use crate::process;

/// The program.
const NFT: &str = "nft";

/// How long it may run.
const LIMIT: Duration = Duration::from_secs(30);

/// Runs a transaction as a script.
pub(super) fn run(transaction: &Transaction, path: &OsStr) -> Result<(), CommitError> {
    let script = transaction.script().map_err(CommitError::Failed)?;
    let program = find(NFT, path).ok_or_else(|| CommitError::Failed(absent(transaction, path)))?;
    let command = || format!("{} -f -", program.display());
    let ended = process::run(&program, &["-f", "-"], script.as_bytes(), &[], LIMIT)
        .map_err(|source| CommitError::Failed(NftablesError::Run { program: command(), source: Box::new(source) }))?;
    if ended.status.success() {
        return Ok(());
    }
    let (status, text) = (ended.status.to_string(), String::from_utf8_lossy(&ended.stderr).into_owned());
    Err(CommitError::Refused(NftablesError::Program { program: command(), status, text }))
}

fn absent(transaction: &Transaction, path: &OsStr) -> NftablesError {
    let words = |op: &Op| match op {
        Op::AddRule(rule) if rule.has_words() => Some(rule.to_string()),
        Op::AddRule(_) | Op::AddTable(_) | Op::AddChain(_) | Op::AddSet(_) | Op::AddElements(_) => None,
        Op::DeleteElements(_) | Op::FlushChain(_) | Op::DeleteChain(_) | Op::DeleteRule(..) => None,
    };
    let rule = transaction.ops.iter().find_map(words).unwrap_or_default();
    NftablesError::NoProgram { program: NFT.to_owned(), rule, path: path.to_string_lossy().into_owned() }
}
