//! Transactions that only `nft` can read: one run of `nft -f -`, which is atomic as well.

use std::ffi::OsStr;
use std::time::Duration;

use cni_files::find_program;
use cni_netfilter::nftables::{BoxError, NftChange, NftablesError, Transaction, TransactionError};

use crate::process;
use cni_kernel::netns::NetnsScope;

/// The program.
const NFT: &str = "nft";

/// The time limit of `nft`.
const LIMIT: Duration = Duration::from_secs(30);

/// Runs a transaction as a script.
pub(super) fn run(transaction: &Transaction, path: &OsStr, scope: &NetnsScope) -> Result<(), TransactionError> {
    let script = transaction.script().map_err(TransactionError::Failed)?;
    let program = find_program(NFT, path).ok_or_else(|| TransactionError::Failed(absent(transaction, path)))?;
    let command = || format!("{} -f -", program.display());
    let failed = |source: BoxError| TransactionError::Failed(NftablesError::Run { program: command(), source });
    let ended = scope.run(|| process::run_bound(&program, &["-f", "-"], script.as_bytes(), LIMIT));
    let ended = ended.map_err(|error| failed(error.into()))?.map_err(|error| failed(error.into()))?;
    if ended.status.success() {
        return Ok(());
    }
    let (status, text) = (ended.status.to_string(), String::from_utf8_lossy(&ended.stderr).into_owned());
    Err(TransactionError::Refused(NftablesError::Program { program: command(), status, text }))
}

fn absent(transaction: &Transaction, path: &OsStr) -> NftablesError {
    let added = transaction.ops.iter().filter_map(NftChange::added_rule);
    let rule = added.filter(|rule| rule.has_words()).map(ToString::to_string).next().unwrap_or_default();
    NftablesError::NoProgram { program: NFT.to_owned(), rule, path: path.to_string_lossy().into_owned() }
}
