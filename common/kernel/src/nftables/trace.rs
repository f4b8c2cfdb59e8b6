//! The trace of nf_tables: the kernel sends a message for each rule that a marked packet matches.
//!
//! [`TraceTable`] marks packets, in a table that the kernel deletes with its socket. [`TraceSocket`] receives the messages,
//! [`event`] decodes them, and [`chains`] lists the chains and rules that they name.
//!
//! The kernel deletes the table with the socket that has made it (`NFT_TABLE_F_OWNER`, Linux 5.12), also if this process is
//! killed. Older kernels do not: there the table is removed at the end, or by the next call.

pub mod chains;
pub mod event;

use std::net::IpAddr;

use cni_core::family::Family;
use cni_netfilter::nftables::{
    BaseChain, BaseChainType, ChainId, Equality, Hook, NftChain, NftName, Policy, TableFamily, TableId,
};
use netlink_packet_core::{NLM_F_APPEND, NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_netfilter::nftables::{
    ExpressionAttribute, ListAttribute, NfTablesMessage, RuleAttribute, RuleMessage, TableAttribute, TableFlags,
    TableMessage,
};
use netlink_sys::protocols::NETLINK_NETFILTER;

use super::instruction::{Header, Instruction, Meta, be32, expression};
use super::message::{self, ChangeMessage, to_family};
use crate::netlink::attribute::{attributes, field};
use crate::netlink::{Cause, NetlinkError, Socket, accept, during};

pub use event::{Received, TraceSocket};

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

/// The table that marks packets, and sees them pass at the beginning and the end of each hook, for as long as this lives.
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
        let table = table_of(std::process::id())?;
        let open = || Socket::of(NETLINK_NETFILTER);
        let mut socket = open()?;
        let keeper = match make(&mut socket, &table, TableFlags::Owner, marks) {
            Ok(()) => Keeper::Socket,
            // A kernel before 5.12 does not know the flag.
            Err(cause) if matches!(cause.errno(), Some(libc::EINVAL | libc::EOPNOTSUPP)) => {
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

    /// Removes the table that a process has left.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn remove_of(process: u32) -> Result<(), NetlinkError> {
        let table = table_of(process)?;
        remove(&mut Socket::of(NETLINK_NETFILTER)?, &table)
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

fn table_of(process: u32) -> Result<TableId, NetlinkError> {
    let name = format!("{PREFIX}{process}");
    let name = NftName::parse(&name).map_err(|_| Cause::Malformed).map_err(during(|| format!("name {name}")))?;
    Ok(TableId { family: TableFamily::Inet, name })
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

fn make(socket: &mut Socket, table: &TableId, flags: TableFlags, marks: &[Mark]) -> Result<(), Cause> {
    let changes = changes(table, flags, marks);
    socket.batch(message::batch_ends(None), changes, |_, _, _| {}).map_err(|refused| refused.cause)
}

fn remove(socket: &mut Socket, table: &TableId) -> Result<(), NetlinkError> {
    let attributes = vec![TableAttribute::Name(table.name.to_string())];
    let change = to_family(table.family, NfTablesMessage::DeleteTable(TableMessage { attributes }));
    let done = socket.batch(message::batch_ends(None), vec![(change, 0)], |_, _, _| {});
    accept(done.map_err(|refused| refused.cause), &[libc::ENOENT], ())
        .map_err(during(|| format!("remove table {table}")))
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
            changes.push(add_rule(&table.chain(name), nothing()));
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

/// `NFT_META_NFTRACE`.
const NFTRACE: u32 = 12;
/// The room of a link's name.
const NAME_ROOM: usize = libc::IFNAMSIZ;

/// The conditions of a packet that is marked; those that are `None` hold for all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// The name of the link by which it comes.
    pub input: Option<String>,
    pub source: Option<IpAddr>,
    pub destination: Option<IpAddr>,
    /// `IPPROTO_*`. Ports need one.
    pub protocol: Option<u8>,
    pub source_port: Option<u16>,
    pub destination_port: Option<u16>,
}

impl Mark {
    /// The expressions of the rule that marks such packets.
    fn expressions(&self) -> Vec<ListAttribute<ExpressionAttribute>> {
        let conditions = self.conditions();
        let mut all: Vec<_> = conditions.iter().map(Instruction::encode).collect();
        all.push(Instruction::Load { register: 1, data: vec![1] }.encode());
        // NFTA_META_KEY and NFTA_META_SREG.
        all.push(("meta", vec![be32(2, NFTRACE), be32(3, 1)]));
        all.into_iter().map(expression).collect()
    }

    fn conditions(&self) -> Vec<Instruction> {
        let Self { input, source, destination, protocol, source_port, destination_port } = self;
        let mut all = Vec::new();
        if let Some(name) = input {
            let mut bytes = name.as_bytes().to_vec();
            bytes.resize(NAME_ROOM, 0);
            all.extend([Instruction::Meta(Meta::InName), is(bytes)]);
        }
        if let Some(address) = source.or(*destination) {
            all.extend([Instruction::Meta(Meta::Family), is(vec![number(Family::of(address))])]);
        }
        all.extend(source.iter().flat_map(|address| address_is(*address, [12, 8])));
        all.extend(destination.iter().flat_map(|address| address_is(*address, [16, 24])));
        all.extend(protocol.iter().flat_map(|protocol| [Instruction::Meta(Meta::Transport), is(vec![*protocol])]));
        all.extend(source_port.iter().flat_map(|port| port_is(*port, 0)));
        all.extend(destination_port.iter().flat_map(|port| port_is(*port, 2)));
        all
    }
}

/// The expression of a rule that matches every packet and does nothing: it loads a number that nobody reads.
fn nothing() -> Vec<ListAttribute<ExpressionAttribute>> {
    vec![expression(Instruction::Load { register: 1, data: vec![1] }.encode())]
}

fn is(bytes: Vec<u8>) -> Instruction {
    Instruction::Compare(Equality::Equal, bytes)
}

/// `NFPROTO_IPV4` and `NFPROTO_IPV6`.
const fn number(family: Family) -> u8 {
    match family {
        Family::V4 => 2,
        Family::V6 => 10,
    }
}

/// An address of the IP header, at the offset in an IPv4 or an IPv6 one.
fn address_is(address: IpAddr, [v4, v6]: [u32; 2]) -> [Instruction; 2] {
    let (offset, bytes) = match address {
        IpAddr::V4(address) => (v4, address.octets().to_vec()),
        IpAddr::V6(address) => (v6, address.octets().to_vec()),
    };
    let length = u32::from(Family::of(address).bits() / 8);
    [Instruction::Payload { header: Header::Network, offset, length }, is(bytes)]
}

fn port_is(port: u16, offset: u32) -> [Instruction; 2] {
    [Instruction::Payload { header: Header::Transport, offset, length: 2 }, is(port.to_be_bytes().to_vec())]
}

#[cfg(test)]
mod tests {
    use crate::netlink::attribute::written;

    use super::*;

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

    #[test]
    fn each_condition_is_a_load_and_a_comparison() {
        let mark = Mark {
            input: Some("eth0".to_owned()),
            source: Some("192.0.2.1".parse().expect("an address")),
            protocol: Some(6),
            destination_port: Some(80),
            ..Mark::default()
        };
        let mut name = b"eth0".to_vec();
        name.resize(16, 0);
        let want = [
            Instruction::Meta(Meta::InName),
            is(name),
            Instruction::Meta(Meta::Family),
            is(vec![2]),
            Instruction::Payload { header: Header::Network, offset: 12, length: 4 },
            is(vec![192, 0, 2, 1]),
            Instruction::Meta(Meta::Transport),
            is(vec![6]),
            Instruction::Payload { header: Header::Transport, offset: 2, length: 2 },
            is(vec![0, 80]),
        ];
        assert_eq!(mark.conditions(), want);
        assert_eq!(Mark::default().conditions(), []);
    }
}
