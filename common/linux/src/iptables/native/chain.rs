//! A chain of iptables in nf_tables: its name there, and its rules with their numbers.

use cni_core::family::Family;
use cni_core::names::ChainName;
use cni_netfilter::iptables::{IptablesRule, IptablesTable, Match, Target};
use cni_netfilter::nftables::{BaseChain, BaseChainType, ChainId, Hook, NftChain, NftName, Policy, TableId};

use crate::nftables::connection::NftConnection;
use crate::nftables::handles::{FEW, text};
use cni_kernel::netlink::Cause;
use cni_kernel::nftables::listing::RawRule;
use cni_kernel::nftables::unknown::WantedBytes;
use cni_kernel::nftables::xt::{NumberedRule, read_rule};

/// The chain as nf_tables know it.
///
/// # Errors
/// For a name that nothing here could hold.
pub(super) fn chain_id(family: Family, table: IptablesTable, chain: &ChainName) -> Result<ChainId, String> {
    let name = |text| NftName::parse(text).map_err(|error| error.to_string());
    Ok(TableId { family: family.into(), name: name(table.as_str())? }.chain_named(name(chain.as_str())?))
}

/// Whether a chain is built-in; iptables creates those when they are first used.
pub(super) fn is_builtin(chain: &ChainName) -> bool {
    ["PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"].contains(&chain.as_str())
}

/// One of the table's own chains as iptables makes it; `None` for a chain that the table does not have. The places are
/// those of `xtables_ipv4` in `iptables/nft.c`.
pub(super) fn builtin(table: IptablesTable, id: &ChainId) -> Option<NftChain> {
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
pub(super) fn exists(connection: &mut NftConnection, id: &ChainId) -> Result<bool, String> {
    match connection.chain_type(id).map_err(|cause| unreadable(id, &cause))? {
        None => Ok(false),
        Some(kind) if kind == id.table.name.as_str() => Ok(true),
        Some(_) => Err(format!("chain {id} is of another type")),
    }
}

/// What to do with rules of an unknown kind, as `nft` writes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownRules {
    /// The chain is not read.
    Refuse,
    /// They keep their places among the others, as rules that are nobody's.
    Keep,
}

/// Reads only the handle of a rule whose kind is unknown.
pub(super) fn unread(chain: &ChainName, payload: &[u8]) -> Option<NumberedRule> {
    let handle = RawRule::read(payload)?.handle;
    let words = vec!["handle".to_owned(), handle.to_string()];
    Some((handle, IptablesRule::new(chain.clone(), vec![Match::Raw(words)], Target::Raw(Vec::new()))))
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
