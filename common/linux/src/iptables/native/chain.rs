//! A chain of iptables in nf_tables: its name there, and its rules with their numbers.

use cni_core::family::Family;
use cni_core::names::ChainName;
use cni_netfilter::iptables::IptablesTable;
use cni_netfilter::nftables::{Base, ChainId, Hook, Kind, NftChain, NftName, Policy, TableId};

use crate::nftables::connection::NftConnection;
use cni_kernel::netlink::Cause;
use cni_kernel::nftables::message;
use cni_kernel::nftables::xt::{NumberedRule, read_rule};

/// The chain as nf_tables know it.
///
/// # Errors
/// For a name that nothing here could hold.
pub(super) fn chain_id(family: Family, table: IptablesTable, chain: &ChainName) -> Result<ChainId, String> {
    let name = |text| NftName::parse(text).map_err(|error| error.to_string());
    Ok(TableId { family: family.into(), name: name(table.as_str())? }.chain_named(name(chain.as_str())?))
}

/// Whether a chain is one of the table's own, which iptables makes when it is first used.
pub(super) fn is_builtin(chain: &ChainName) -> bool {
    ["PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"].contains(&chain.as_str())
}

/// One of the table's own chains as iptables makes it; `None` for a chain that the table does not have. The places are
/// those of `xtables_ipv4` in `iptables/nft.c`.
pub(super) fn builtin(table: IptablesTable, id: &ChainId) -> Option<NftChain> {
    let (kind, hook, priority) = match (table, id.name.as_str()) {
        (IptablesTable::Nat, "PREROUTING") => (Kind::Nat, Hook::Prerouting, -100),
        (IptablesTable::Nat, "INPUT") => (Kind::Nat, Hook::Input, 100),
        (IptablesTable::Nat, "OUTPUT") => (Kind::Nat, Hook::Output, -100),
        (IptablesTable::Nat, "POSTROUTING") => (Kind::Nat, Hook::Postrouting, 100),
        (IptablesTable::Filter, "INPUT") => (Kind::Filter, Hook::Input, 0),
        (IptablesTable::Filter, "FORWARD") => (Kind::Filter, Hook::Forward, 0),
        (IptablesTable::Filter, "OUTPUT") => (Kind::Filter, Hook::Output, 0),
        _ => return None,
    };
    let base = Base { kind, hook, priority, policy: Some(Policy::Accept) };
    Some(NftChain { id: id.clone(), base: Some(base), comment: None })
}

/// Whether a chain is there.
///
/// # Errors
/// Why that cannot be decided here.
pub(super) fn exists(connection: &mut NftConnection, id: &ChainId) -> Result<bool, String> {
    connection.exists(message::get_chain(id)).map_err(|cause| unreadable(id, &cause))
}

/// The rules of a chain, `None` when it is not there.
///
/// # Errors
/// Why they cannot be read here.
pub(super) fn numbered(
    connection: &mut NftConnection,
    family: Family,
    id: &ChainId,
    chain: &ChainName,
) -> Result<Option<Vec<NumberedRule>>, String> {
    if !exists(connection, id)? {
        return Ok(None);
    }
    let found = connection.rules(id, |payload| Some(read_rule(family, chain, payload)));
    let rules: Option<Vec<NumberedRule>> = found.map_err(|cause| unreadable(id, &cause))?.into_iter().collect();
    rules.map(Some).ok_or_else(|| format!("chain {id} holds a rule of an unknown kind"))
}

fn unreadable(id: &ChainId, cause: &Cause) -> String {
    format!("chain {id} cannot be read: {cause}")
}
