//! What is known of a lease: its key, where its interface is, and the daemon's record of it, with which it continues after a
//! restart: one file for each lease, as JSON. It is of no use after the namespace has ended, and is lost at a reboot.

use std::fmt;

use cni_core::error::Error;
use cni_core::fail;
use cni_core::names::{Attachment, hash_hex};
use serde::{Deserialize, Serialize};

use crate::client::{DhcpLease, Identity};

/// The longest client identifier, with the byte of its type before it: one option holds no more.
const LONGEST_ID: usize = 254;
/// The length of a record's name: hexadecimal digits of a hash.
const NAME_LENGTH: usize = 64;

/// An attachment, by its three names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LeaseKey {
    /// The container.
    pub container: String,
    /// The network.
    pub network: String,
    /// The interface inside the container.
    pub ifname: String,
}

impl LeaseKey {
    /// The key of an attachment.
    pub fn of(at: &Attachment) -> Self {
        let Attachment { network, container, ifname } = at;
        Self { container: container.to_string(), network: network.to_string(), ifname: ifname.to_string() }
    }

    /// The name that servers know it by, as with the reference: option 61, of the type that is no hardware's.
    pub fn client_id(&self) -> Vec<u8> {
        let name = self.to_string().into_bytes();
        [&[0], name.get(..LONGEST_ID).unwrap_or(&name)].concat()
    }

    /// The name of the file that keeps its lease.
    pub fn file_name(&self) -> String {
        let mut name = hash_hex(&self.to_string());
        name.truncate(NAME_LENGTH);
        name
    }
}

impl fmt::Display for LeaseKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { container, network, ifname } = self;
        write!(f, "{container}/{network}/{ifname}")
    }
}

/// An interface in a namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterfaceLocation {
    /// The path of the namespace. It may lead to another one by now.
    pub netns: String,
    /// The interface in it.
    pub ifname: String,
    /// A unique identifier of the namespace, never reused.
    pub identity: String,
}

impl InterfaceLocation {
    /// Whether both are the same interface, whatever the path of its namespace.
    pub fn is_the_same(&self, other: &Self) -> bool {
        self.identity == other.identity && self.ifname == other.ifname
    }
}

/// The number of the format.
const FORMAT: u32 = 1;

/// A lease, with all that is needed to prolong it and to give it back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseRecord {
    format: u32,
    /// The key of the lease.
    pub key: LeaseKey,
    /// The location of the interface.
    pub place: InterfaceLocation,
    /// The client's identity.
    pub identity: Identity,
    /// The lease.
    pub lease: DhcpLease,
}

impl LeaseRecord {
    /// The record of a lease.
    pub const fn new(key: LeaseKey, place: InterfaceLocation, identity: Identity, lease: DhcpLease) -> Self {
        Self { format: FORMAT, key, place, identity, lease }
    }

    /// Reads a record.
    pub fn parse(text: &[u8]) -> Result<Self, Error> {
        #[derive(Deserialize)]
        struct RecordFormat {
            format: u32,
        }
        let torn = |error| fail!(Decoding, "the record of a lease is not understood", details: "{error}");
        match serde_json::from_slice(text).map_err(torn)? {
            RecordFormat { format: FORMAT } => serde_json::from_slice(text).map_err(torn),
            RecordFormat { format } => {
                Err(fail!(Decoding, "the record of a lease is of format {format}, which is not known"))
            }
        }
    }

    /// Its text.
    pub fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_else(|error| unreachable!("{error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(container: &str) -> LeaseKey {
        LeaseKey { container: container.to_owned(), network: "lan".to_owned(), ifname: "eth0".to_owned() }
    }

    #[test]
    fn servers_know_a_client_by_container_network_and_interface() {
        assert_eq!(key("c1").client_id(), b"\0c1/lan/eth0");
        let long = key(&"c".repeat(300)).client_id();
        assert_eq!((long.len(), &long[..3]), (255, &b"\0cc"[..]));
    }

    #[test]
    fn each_has_a_file_of_its_own() {
        let names = ["c1", "c2"].map(|container| key(container).file_name());
        assert_ne!(names[0], names[1]);
        assert!(names.iter().all(|name| name.len() == NAME_LENGTH));
    }

    #[test]
    fn what_is_not_a_record_of_this_format_is_reported() {
        let said = |text: &[u8]| LeaseRecord::parse(text).expect_err("no record").to_string();
        assert_eq!(said(br#"{"format":2}"#), "the record of a lease is of format 2, which is not known");
        for torn in [&b""[..], b"{", br#"{"format":1}"#, br#"{"format":1,"key":7}"#] {
            assert_eq!(said(torn), "the record of a lease is not understood");
        }
    }
}
