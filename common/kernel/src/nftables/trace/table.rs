//! The table that marks packets, and sees them pass at the beginning and the end of each hook.
//!
//! The kernel deletes it with the socket that has made it (`NFT_TABLE_F_OWNER`, Linux 5.12), also if this process is
//! killed. Older kernels do not: there the table is removed at the end, or by the next call.

use cni_netfilter::nftables::{
    BaseChain, BaseChainType, ChainId, Hook, NftChain, NftName, Policy, TableFamily, TableId,
};
use netlink_packet_core::{NLM_F_APPEND, NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_netfilter::nftables::{
    ExpressionAttribute, ListAttribute, NfTablesMessage, RuleAttribute, RuleMessage, TableAttribute, TableFlags,
    TableMessage,
};
use netlink_sys::protocols::NETLINK_NETFILTER;

use super::mark::{self, Mark};
use crate::netlink::attribute::{attributes, field};
use crate::netlink::{Cause, NetlinkError, Socket, during};
use crate::nftables::message;
use crate::nftables::request::{ChangeMessage, message as to_family};

/// How the tables are called; the number of the process follows.
pub const PREFIX: &str = "cni-plugins-trace-";

/// Before and after all others: connections are put together at -400, and address translation ends at 100.
const FIRST: i32 = -450;
const LAST: i32 = 450;

/// The chains that mark packets, before all others see them.
const PREROUTING: &str = "prerouting-first";
const OUTPUT: &str = "output-first";

/// `NFTA_TABLE_NAME` and `NFTA_TABLE_FLAGS`.
const NAME: u16 = 1;
const FLAGS: u16 = 2;

/// What removes the table if this process is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeper {
    /// The kernel does, with the socket.
    Socket,
    /// The next call does.
    NextCall,
}

/// The table, for as long as this lives.
#[derive(Debug)]
pub struct TraceTable {
    socket: Socket,
    table: TableId,
    keeper: Keeper,
    is_removed: bool,
}

impl TraceTable {
    /// Makes the table in the network namespace of the calling thread. Packets that meet one of these conditions before
    /// all other rules are marked.
    ///
    /// # Errors
    /// When the kernel refuses, such as one without nf_tables, or without tables for both families.
    pub fn create(marks: &[Mark]) -> Result<Self, NetlinkError> {
        let name = format!("{PREFIX}{}", std::process::id());
        let name = NftName::parse(&name).map_err(|_| Cause::Malformed).map_err(during(|| format!("name {name}")))?;
        let table = TableId { family: TableFamily::Inet, name };
        let open = || Socket::of(NETLINK_NETFILTER);
        let mut socket = open()?;
        let keeper = match make(&mut socket, &table, TableFlags::Owner, marks) {
            Ok(()) => Keeper::Socket,
            Err(cause) if is_unknown_flag(&cause) => {
                socket = open()?;
                make(&mut socket, &table, TableFlags::empty(), marks)
                    .map_err(during(|| format!("make table {table}")))?;
                Keeper::NextCall
            }
            Err(cause) => return Err(during(|| format!("make table {table}"))(cause)),
        };
        Ok(Self { socket, table, keeper, is_removed: false })
    }

    /// What removes the table if this process is killed.
    pub const fn keeper(&self) -> Keeper {
        self.keeper
    }

    /// The name of the table.
    pub fn name(&self) -> &str {
        self.table.name.as_str()
    }

    /// Removes the table.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn remove(mut self) -> Result<(), NetlinkError> {
        self.is_removed = true;
        remove(&mut self.socket, &self.table)
    }
}

impl Drop for TraceTable {
    fn drop(&mut self) {
        if self.is_removed {
            return;
        }
        if let Err(error) = remove(&mut self.socket, &self.table) {
            log::warn!("{error}");
        }
    }
}

/// Lists the tables that a killed process has left, with the number of the process. Those that the kernel deletes by
/// itself are left out.
///
/// # Errors
/// When the kernel refuses.
pub fn leftovers() -> Result<Vec<u32>, NetlinkError> {
    let mut socket = Socket::of(NETLINK_NETFILTER)?;
    let question = to_family(TableFamily::Inet, NfTablesMessage::GetTable(TableMessage { attributes: Vec::new() }));
    let found = socket.dump(&question, left_over);
    found.map_err(during(|| "list the tables".to_owned()))
}

impl TraceTable {
    /// Removes the table that a process has left.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn remove_of(process: u32) -> Result<(), NetlinkError> {
        let name = format!("{PREFIX}{process}");
        let name = NftName::parse(&name).map_err(|_| Cause::Malformed).map_err(during(|| format!("name {name}")))?;
        remove(&mut Socket::of(NETLINK_NETFILTER)?, &TableId { family: TableFamily::Inet, name })
    }
}

fn left_over(payload: &[u8]) -> Option<u32> {
    let (mut process, mut flags) = (None, 0);
    for attribute in attributes(payload.get(4..)?) {
        match attribute.kind {
            NAME => process = attribute.text().strip_prefix(PREFIX).and_then(|number| number.parse().ok()),
            FLAGS => flags = field(attribute.value, 0).map(u32::from_be_bytes).unwrap_or_default(),
            _ => {}
        }
    }
    process.filter(|_| flags & TableFlags::Owner.bits() == 0)
}

/// Kernels before 5.12 answer so.
fn is_unknown_flag(cause: &Cause) -> bool {
    matches!(cause.errno(), Some(libc::EINVAL | libc::EOPNOTSUPP))
}

fn make(socket: &mut Socket, table: &TableId, flags: TableFlags, marks: &[Mark]) -> Result<(), Cause> {
    let changes = changes(table, flags, marks);
    socket.batch(message::batch_ends(None), changes, |_, _, _| {}).map_err(|refused| refused.cause)
}

fn remove(socket: &mut Socket, table: &TableId) -> Result<(), NetlinkError> {
    let attributes = vec![TableAttribute::Name(table.name.to_string())];
    let change = to_family(table.family, NfTablesMessage::DeleteTable(TableMessage { attributes }));
    let done = socket.batch(message::batch_ends(None), vec![(change, 0)], |_, _, _| {});
    match done.map_err(|refused| refused.cause) {
        Err(cause) if cause.errno() == Some(libc::ENOENT) => Ok(()),
        done => done.map_err(during(|| format!("remove table {table}"))),
    }
}

fn changes(table: &TableId, flags: TableFlags, marks: &[Mark]) -> Vec<ChangeMessage> {
    let attributes = vec![TableAttribute::Name(table.name.to_string()), TableAttribute::Flags(flags)];
    let new = to_family(table.family, NfTablesMessage::NewTable(TableMessage { attributes }));
    let mut changes = vec![(new, NLM_F_CREATE | NLM_F_EXCL)];
    for (hook, first, last) in [
        (Hook::Prerouting, PREROUTING, "prerouting-last"),
        (Hook::Input, "input-first", "input-last"),
        (Hook::Forward, "forward-first", "forward-last"),
        (Hook::Output, OUTPUT, "output-last"),
        (Hook::Postrouting, "postrouting-first", "postrouting-last"),
    ] {
        for (name, priority) in [(first, FIRST), (last, LAST)] {
            let base = BaseChain { kind: BaseChainType::Filter, hook, priority, policy: Some(Policy::Accept) };
            changes.push(message::add_chain(&NftChain { id: table.chain(name), base: Some(base), comment: None }));
            if [PREROUTING, OUTPUT].contains(&name) {
                changes.extend(marks.iter().map(|mark| add_rule(&table.chain(name), mark.expressions())));
            }
            // The kernel sends the packet's addresses with the first rule of a chain, but not with a policy.
            changes.push(add_rule(&table.chain(name), mark::nothing()));
        }
    }
    changes
}

fn add_rule(chain: &ChainId, expressions: Vec<ListAttribute<ExpressionAttribute>>) -> ChangeMessage {
    let mut attributes = message::stands_in(chain);
    attributes.push(RuleAttribute::Expressions(expressions));
    let inner = NfTablesMessage::NewRule(RuleMessage { attributes });
    (to_family(chain.table.family, inner), NLM_F_CREATE | NLM_F_APPEND)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::attribute::written;

    fn table(name: &str, flags: u32) -> Vec<u8> {
        let name = format!("{name}\0");
        [vec![1, 0, 0, 0], written(NAME, name.as_bytes()), written(FLAGS, &flags.to_be_bytes())].concat()
    }

    #[test]
    fn only_tables_that_the_kernel_does_not_delete_are_left_over() {
        assert_eq!(left_over(&table("cni-plugins-trace-17", 0)), Some(17));
        assert_eq!(left_over(&table("cni-plugins-trace-17", 2)), None);
        assert_eq!(left_over(&table("cni-plugins-trace-x", 0)), None);
        assert_eq!(left_over(&table("filter", 0)), None);
        assert_eq!(left_over(&[]), None);
    }

    #[test]
    fn every_hook_has_a_first_and_a_last_chain() {
        let table = TableId::fixed(TableFamily::Inet, "t");
        let marks = [Mark::default(), Mark::default()];
        assert_eq!(changes(&table, TableFlags::Owner, &marks).len(), 1 + 10 + 10 + 4);
    }
}
