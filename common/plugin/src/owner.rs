//! The owner in a record: the names of an attachment, as text.

use std::collections::BTreeSet;
use std::net::IpAddr;

use cni_core::error::Error;
use cni_core::names::{Attachment, ContainerId, IfName, NetworkName};
use cni_model::record::{RecordKey, RecordKind};

use crate::namespace::RecordedNamespace;
use crate::records::Records;

/// The prefix of the names of records about owners.
const OWNER: &str = "owner-";

/// An attachment that a plugin has records about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedOwner {
    /// The attachment.
    pub at: Attachment,
    /// Its namespace, if it was recorded.
    pub home: Option<RecordedNamespace>,
    /// The addresses that it has rules for which name nothing else: another container may have one of them by now.
    pub addresses: Vec<IpAddr>,
}

/// The key of a plugin's record about an owner.
pub fn key(kind: RecordKind, owner: &Attachment) -> RecordKey {
    RecordKey::hashed(kind, OWNER, &text(owner))
}

/// The keys of all records about owners of a kind, except of these.
pub fn keys_but(known: &[&Attachment], kind: RecordKind, records: &mut dyn Records) -> Result<Vec<RecordKey>, Error> {
    let mut names = records.names(kind)?;
    names.retain(|name| name.starts_with(OWNER));
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let known: BTreeSet<String> = known.iter().map(|owner| key(kind, owner).name().to_owned()).collect();
    let others = names.iter().filter(|name| !known.contains(*name));
    others.map(|name| RecordKey::new(kind, name)).collect()
}

/// The three names of an attachment in one line. None of them can hold a blank.
pub fn text(owner: &Attachment) -> String {
    format!("{} {} {}", owner.network, owner.container, owner.ifname)
}

/// Reads three words of what [`text`] writes; `None` when they are no such names.
pub fn parse<'a>(words: &mut impl Iterator<Item = &'a str>) -> Option<Attachment> {
    let network = NetworkName::parse(words.next()?).ok()?;
    let container = ContainerId::parse(words.next()?).ok()?;
    let ifname = IfName::parse(words.next()?).ok()?;
    Some(Attachment { network, container, ifname })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_three_words_that_are_read_back() {
        let owner = parse(&mut "net ctr eth0".split(' ')).expect("an owner");
        assert_eq!(text(&owner), "net ctr eth0");
        for text in ["", "net", "net ctr", "net a/b eth0", "net ctr a/b"] {
            assert_eq!(parse(&mut text.split(' ')), None, "{text}");
        }
    }
}
