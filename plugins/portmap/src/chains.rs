//! The iptables chain that holds the rules of an attachment.
//!
//! The reference derives the chain's name from network and container. A second interface of a container in one network
//! needs its own chain, or its ADD would replace the ports of the first. The first interface has the chain that the
//! reference finds; a record says which interface that is. Without the record, an attachment has the reference's
//! chain.

use std::fmt;

use cni_core::names::{Attachment, ChainName};
use cni_model::plan::Step;
use cni_model::record::RecordKey;
use cni_plugin::owner;
use cni_plugin::records::Records;

use crate::register::{PORTS, read, whole_lines};

/// The beginning of the names of these records.
const CHAIN: &str = "chain-";

/// The attachments of a container in a network that have rules in iptables.
#[derive(Clone, Debug)]
pub struct ChainRegister {
    owner: Attachment,
    holders: Vec<ChainHolder>,
    /// Whether a record exists that names no owner.
    is_torn: bool,
}

/// An attachment, and which chain it has.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ChainHolder {
    owner: Attachment,
    kind: ChainKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChainKind {
    /// The one with the reference's name.
    Reference,
    /// One that is named for the interface too.
    Interface,
}

impl ChainRegister {
    /// Reads what is recorded.
    pub fn observe(owner: &Attachment, records: &mut dyn Records) -> Self {
        let text = read(&key(owner), records).unwrap_or_default();
        let holders: Vec<_> = whole_lines(&text).filter_map(ChainHolder::parse).collect();
        Self { owner: owner.clone(), is_torn: !text.is_empty() && holders.is_empty(), holders }
    }

    /// The chain that holds the attachment's rules, or is to hold them.
    pub fn chain(&self) -> ChainName {
        match self.kind() {
            ChainKind::Reference => self.owner.dnat_chain(),
            ChainKind::Interface => self.owner.interface_dnat_chain(),
        }
    }

    /// ADD: the step that records the attachment's chain, unless it is recorded.
    pub fn claim(&self) -> Option<Step> {
        let own = ChainHolder { owner: self.owner.clone(), kind: self.kind() };
        let is_new = !self.holders.contains(&own);
        is_new.then(|| self.write(self.holders.iter().chain([&own])))
    }

    /// DEL: the step that removes the attachment's record, if there is one. A record that names no owner is removed
    /// too.
    pub fn release(&self) -> Option<Step> {
        let others: Vec<&ChainHolder> = self.holders.iter().filter(|holder| holder.owner != self.owner).collect();
        (self.is_torn || others.len() < self.holders.len()).then(|| self.write(others))
    }

    fn kind(&self) -> ChainKind {
        let own = self.holders.iter().find(|holder| holder.owner == self.owner);
        let is_taken = self.holders.iter().any(|holder| holder.kind == ChainKind::Reference);
        own.map_or(if is_taken { ChainKind::Interface } else { ChainKind::Reference }, |own| own.kind)
    }

    fn write<'a>(&self, holders: impl IntoIterator<Item = &'a ChainHolder>) -> Step {
        let text: String = holders.into_iter().map(ToString::to_string).collect();
        let key = key(&self.owner);
        if text.is_empty() { Step::RemoveRecord { key } } else { Step::WriteRecord { key, text } }
    }
}

impl ChainHolder {
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let kind = match words.next()? {
            "reference" => ChainKind::Reference,
            "interface" => ChainKind::Interface,
            _ => return None,
        };
        Some(Self { kind, owner: owner::parse(&mut words)? })
    }
}

impl fmt::Display for ChainHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.kind {
            ChainKind::Reference => "reference",
            ChainKind::Interface => "interface",
        };
        writeln!(f, "{word} {}", owner::text(&self.owner))
    }
}

fn key(owner: &Attachment) -> RecordKey {
    RecordKey::hashed(PORTS, CHAIN, &format!("{} {}", owner.network, owner.container))
}
