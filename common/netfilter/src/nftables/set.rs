//! Sets, and maps to verdicts: one look-up instead of a rule for each address or port.

use std::fmt;
use std::net::IpAddr;

use super::name::NftName;
use super::object::TableId;
use super::rule::Verdict;
use cni_core::family::Family;

/// What a set holds, or a map leads from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyType {
    /// Addresses of a family.
    Address(Family),
    /// Ports.
    Port,
}

/// Whether there is something to each key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SetKind {
    /// A set: there is not.
    Set,
    /// A map: there is a verdict.
    VerdictMap,
}

/// Which set or map: `inet cni_firewall containers`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SetId {
    /// Its table.
    pub table: TableId,
    /// Its name.
    pub name: NftName,
}

/// A set or a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Set {
    /// Which.
    pub id: SetId,
    /// What it holds.
    pub key: KeyType,
    /// Whether it is a map.
    pub kind: SetKind,
}

/// A key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ElementKey {
    /// An address.
    Address(IpAddr),
    /// A port.
    Port(u16),
}

/// An element: of a set just a key, of a map one with a verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Element {
    /// What it is found by.
    pub key: ElementKey,
    /// What a map has for it.
    pub verdict: Option<Verdict>,
}

/// Elements of one set or map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elements {
    /// Of which.
    pub set: SetId,
    /// The elements.
    pub elements: Vec<Element>,
}

impl Set {
    pub(super) fn command(&self) -> String {
        let Self { id, key, kind } = self;
        match kind {
            SetKind::Set => format!("add set {id} {{ type {key} ; }}"),
            SetKind::VerdictMap => format!("add map {id} {{ type {key} : verdict ; }}"),
        }
    }
}

impl fmt::Display for SetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.table, self.name)
    }
}

impl fmt::Display for KeyType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Address(Family::V4) => "ipv4_addr",
            Self::Address(Family::V6) => "ipv6_addr",
            Self::Port => "inet_service",
        })
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.key {
            ElementKey::Address(address) => write!(f, "{address}")?,
            ElementKey::Port(port) => write!(f, "{port}")?,
        }
        self.verdict.as_ref().map_or(Ok(()), |verdict| write!(f, " : {verdict}"))
    }
}

impl fmt::Display for Elements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { set, elements } = self;
        let elements: Vec<String> = elements.iter().map(Element::to_string).collect();
        write!(f, "{set} {{ {} }}", elements.join(", "))
    }
}
