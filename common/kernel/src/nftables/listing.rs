//! Decodes a rule from its message. Attributes of newer kernels are skipped.

use std::borrow::Cow;

use cni_netfilter::nftables::{Generation, ListedRule, TableFamily};

use super::decompile::decompile;
use super::instruction::Instruction;
use super::message::COMMENT;
use crate::netlink::attribute::{Attribute, attributes, field, find};

/// The type of a message about a rule: `NFNL_SUBSYS_NFTABLES` and `NFT_MSG_NEWRULE`.
pub const NEW_RULE: u16 = 10 << 8 | 6;

/// Length of `struct nfgenmsg`, which comes before the attributes.
const HEADER_LENGTH: usize = 4;

/// `NFTA_CHAIN_TABLE` and `NFTA_CHAIN_NAME`.
const CHAIN_TABLE: u16 = 1;
const CHAIN_NAME: u16 = 3;

/// `NFTA_CHAIN_TYPE`, which only base chains have.
const CHAIN_TYPE: u16 = 7;

/// `NFTA_RULE_CHAIN`, `NFTA_RULE_HANDLE`, `NFTA_RULE_EXPRESSIONS`, `NFTA_RULE_USERDATA`.
const RULE_CHAIN: u16 = 2;
const HANDLE: u16 = 3;
const EXPRESSIONS: u16 = 4;
const USER_DATA: u16 = 7;

/// `NFTA_EXPR_NAME` and `NFTA_EXPR_DATA`.
const NAME: u16 = 1;
const DATA: u16 = 2;

/// `NFTA_GEN_ID`.
const GENERATION: u16 = 1;

/// Reads the number of the state that all tables are in.
pub fn read_generation(payload: &[u8]) -> Option<Generation> {
    let number = find(payload.get(HEADER_LENGTH..)?, GENERATION)?;
    field(number.value, 0).map(u32::from_be_bytes).map(Generation)
}

/// Reads the names of a chain's table and of the chain.
pub fn read_chain(payload: &[u8]) -> Option<(String, String)> {
    Some((text(payload, CHAIN_TABLE)?.into_owned(), text(payload, CHAIN_NAME)?.into_owned()))
}

/// Reads the type of a base chain; `None` for another chain.
pub fn read_chain_type(payload: &[u8]) -> Option<String> {
    text(payload, CHAIN_TYPE).map(Cow::into_owned)
}

/// Reads the name of the chain that a rule is in.
pub fn read_chain_of_rule(payload: &[u8]) -> Option<Cow<'_, str>> {
    text(payload, RULE_CHAIN)
}

fn text(payload: &[u8], kind: u16) -> Option<Cow<'_, str>> {
    find(payload.get(HEADER_LENGTH..)?, kind).map(Attribute::borrowed_text)
}

/// A rule as it is in its message.
pub struct RawRule<'a> {
    /// Its number in its table.
    pub handle: u64,
    /// The owner.
    pub comment: Option<String>,
    /// The names of its expressions, and their attributes.
    pub expressions: Vec<(Cow<'a, str>, &'a [u8])>,
}

impl<'a> RawRule<'a> {
    /// Reads the message of a rule; `None` when it lacks what every rule has, which should never happen.
    pub fn read(payload: &'a [u8]) -> Option<Self> {
        let (mut handle, mut comment, mut expressions) = (None, None, Vec::new());
        for attribute in attributes(payload.get(HEADER_LENGTH..)?) {
            match attribute.kind {
                HANDLE => handle = field(attribute.value, 0).map(u64::from_be_bytes),
                EXPRESSIONS => expressions = attribute.nested().map(expression).collect::<Option<_>>()?,
                USER_DATA => comment = read_comment(attribute.value),
                _ => {}
            }
        }
        Some(Self { handle: handle?, comment, expressions })
    }
}

fn expression(element: Attribute<'_>) -> Option<(Cow<'_, str>, &[u8])> {
    Some((element.part(NAME)?.borrowed_text(), element.part(DATA).map(|data| data.value).unwrap_or_default()))
}

/// Reads the message of a rule.
pub fn read_rule(table: TableFamily, payload: &[u8]) -> Option<ListedRule> {
    let RawRule { handle, comment, expressions } = RawRule::read(payload)?;
    let instructions: Option<Vec<Instruction>> =
        expressions.into_iter().map(|(name, data)| Instruction::decode(&name, data)).collect();
    let expressions = instructions.and_then(|instructions| decompile(table, &instructions));
    Some(ListedRule { handle, comment, expressions })
}

/// User data are entries of a type, a length and a value.
fn read_comment(mut bytes: &[u8]) -> Option<String> {
    while let [kind, length, rest @ ..] = bytes {
        let (value, next) = rest.split_at_checked(usize::from(*length))?;
        if *kind == COMMENT {
            let text = value.strip_suffix(&[0]).unwrap_or(value);
            return Some(String::from_utf8_lossy(text).into_owned());
        }
        bytes = next;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_is_found_among_other_user_data() {
        assert_eq!(read_comment(b"\x00\x04abc\x00"), Some("abc".to_owned()));
        assert_eq!(read_comment(b"\x07\x02xx\x00\x02a\x00"), Some("a".to_owned()));
        assert_eq!(read_comment(b"\x07\x02xx"), None);
        assert_eq!(read_comment(b"\x00\x09abc"), None);
        assert_eq!(read_comment(b""), None);
    }
}
