//! The daemon's record of a lease, with which it continues after a restart: one file for each lease, as JSON. It is of
//! no use after the namespace has ended, and is lost at a reboot.

use cni_core::error::Error;
use cni_core::fail;
use serde::{Deserialize, Serialize};

use crate::client::{DhcpLease, Identity};
use crate::key::{InterfaceLocation, LeaseKey};

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
        crate::protocol::text(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_a_record_of_this_format_is_reported() {
        let said = |text: &[u8]| LeaseRecord::parse(text).expect_err("no record").to_string();
        assert_eq!(said(br#"{"format":2}"#), "the record of a lease is of format 2, which is not known");
        for torn in [&b""[..], b"{", br#"{"format":1}"#, br#"{"format":1,"key":7}"#] {
            assert_eq!(said(torn), "the record of a lease is not understood");
        }
    }
}
