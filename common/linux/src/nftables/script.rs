//! Transactions that only `nft` can read: one run of `nft -f -`, which is atomic as well.

use std::ffi::OsStr;
use std::fmt::Display;
use std::time::Duration;

use cni_core::error::Code;
use cni_files::find_program;
use cni_netfilter::nftables::{NftChange, Transaction};
use cni_netfilter::{NetfilterError, NetfilterErrorKind};

use crate::process;
use cni_kernel::netns::NetnsScope;

/// The program.
const NFT: &str = "nft";

/// The time limit of `nft`.
const LIMIT: Duration = Duration::from_secs(30);

/// Runs a transaction as a script.
pub(super) fn run(transaction: &Transaction, path: &OsStr, scope: &NetnsScope) -> Result<(), NetfilterError> {
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
