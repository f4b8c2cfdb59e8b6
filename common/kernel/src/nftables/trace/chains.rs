//! The chains of all tables, and one rule of any of them, as far as a trace needs them.

use netlink_packet_netfilter::nftables::{ChainMessage, NfTablesMessage, RuleAttribute, RuleMessage};
use netlink_packet_netfilter::{NetfilterHeader, NetfilterMessage, NetfilterProtoFamily};
use netlink_sys::protocols::NETLINK_NETFILTER;

use crate::netlink::attribute::{attributes, field};
use crate::netlink::{Cause, NetlinkError, Socket, accept};
use crate::nftables::listing::RawRule;

/// Length of `struct nfgenmsg`, which comes before the attributes.
const HEADER_LENGTH: usize = 4;

/// `NFTA_CHAIN_*`.
const TABLE: u16 = 1;
const NAME: u16 = 3;
const HOOK: u16 = 4;
const TYPE: u16 = 7;

/// `NFTA_HOOK_HOOKNUM`.
const NUMBER: u16 = 1;

/// A chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainInfo {
    /// A number of `enum nf_proto`.
    pub family: u8,
    pub table: String,
    pub name: String,
    /// A number of `enum nf_inet_hooks`, of a base chain.
    pub hook: Option<u32>,
    /// `filter`, `nat` or `route`, of a base chain.
    pub kind: Option<String>,
}

/// What a rule says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleInfo {
    pub comment: Option<String>,
    /// The names of its expressions, such as `reject`.
    pub expressions: Vec<String>,
}

/// The name of a family in `nft`.
pub const fn family_name(family: u8) -> &'static str {
    match family {
        1 => "inet",
        2 => "ip",
        3 => "arp",
        5 => "netdev",
        7 => "bridge",
        10 => "ip6",
        _ => "unknown",
    }
}

/// Opens a socket for these questions, in the network namespace of the calling thread.
///
/// # Errors
/// When the kernel gives none.
pub fn socket() -> Result<Socket, NetlinkError> {
    Socket::of(NETLINK_NETFILTER)
}

/// Lists the chains of all tables.
///
/// # Errors
/// When the kernel refuses.
pub fn list(socket: &mut Socket) -> Result<Vec<ChainInfo>, Cause> {
    let header = NetfilterHeader::new(NetfilterProtoFamily::Unspec, 0, 0);
    let question = NfTablesMessage::GetChain(ChainMessage { attributes: Vec::new() });
    socket.dump(&NetfilterMessage::new(header, question), read_chain)
}

/// Asks for one rule of a chain by its handle; `None` if the rule was deleted.
///
/// # Errors
/// When the kernel refuses.
pub fn rule(
    socket: &mut Socket,
    family: u8,
    [table, chain]: [&str; 2],
    handle: u64,
) -> Result<Option<RuleInfo>, Cause> {
    let header = NetfilterHeader::new(NetfilterProtoFamily::from(family), 0, 0);
    let attributes = vec![
        RuleAttribute::Table(table.to_owned()),
        RuleAttribute::Chain(chain.to_owned()),
        RuleAttribute::Handle(handle),
    ];
    let question = NetfilterMessage::new(header, NfTablesMessage::GetRule(RuleMessage { attributes }));
    accept(socket.ask(question, read_rule).map(Some), &[libc::ENOENT], None)
}

fn read_chain(payload: &[u8]) -> Option<ChainInfo> {
    let [family] = field(payload, 0)?;
    let (mut table, mut name, mut hook, mut kind) = (None, None, None, None);
    for attribute in attributes(payload.get(HEADER_LENGTH..)?) {
        match attribute.kind {
            TABLE => table = Some(attribute.text()),
            NAME => name = Some(attribute.text()),
            TYPE => kind = Some(attribute.text()),
            HOOK => {
                let number = attribute.part(NUMBER);
                hook = number.and_then(|one| field(one.value, 0)).map(u32::from_be_bytes);
            }
            _ => {}
        }
    }
    Some(ChainInfo { family, table: table?, name: name?, hook, kind })
}

fn read_rule(payload: &[u8]) -> Option<RuleInfo> {
    let RawRule { handle: _, comment, expressions } = RawRule::read(payload)?;
    Some(RuleInfo { comment, expressions: expressions.into_iter().map(|(name, _)| name.into_owned()).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::attribute::written;

    #[test]
    fn a_base_chain_is_read_with_its_hook() {
        let hook = written(NUMBER, &2_u32.to_be_bytes());
        let parts = [written(TABLE, b"filter\0"), written(NAME, b"FORWARD\0"), written(HOOK, &hook)].concat();
        let payload = [vec![2, 0, 0, 0], parts, written(TYPE, b"filter\0")].concat();
        let want = ChainInfo {
            family: 2,
            table: "filter".to_owned(),
            name: "FORWARD".to_owned(),
            hook: Some(2),
            kind: Some("filter".to_owned()),
        };
        assert_eq!(read_chain(&payload), Some(want));
        assert_eq!(family_name(2), "ip");
        for cut in 0..payload.len() {
            read_chain(&payload[..cut]);
        }
    }
}
