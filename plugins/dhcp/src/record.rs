//! The daemon's record of a lease, with which it continues after a restart: one file for each lease, as JSON. It is of
//! no use after the namespace has ended, and is lost at a reboot.

use cni_core::error::{Code, Failure};
use serde::{Deserialize, Serialize};

use crate::client::{DhcpLease, Identity};
use crate::key::{InterfaceLocation, LeaseKey};

/// The number of the format.
const FORMAT: u32 = 1;

/// A record that is not understood.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// It is torn, or something else.
    #[error("the record of a lease is not understood")]
    Text(#[source] serde_json::Error),
    /// It is of another release.
    #[error("the record of a lease is of format {0}, which is not known")]
    Format(u32),
}

impl Failure for RecordError {
    fn code(&self) -> Code {
        match self {
            Self::Text(_) | Self::Format(_) => Code::Decoding,
        }
    }
}

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
    pub fn parse(text: &[u8]) -> Result<Self, RecordError> {
        #[derive(Deserialize)]
        struct RecordFormat {
            format: u32,
        }
        match serde_json::from_slice(text).map_err(RecordError::Text)? {
            RecordFormat { format: FORMAT } => serde_json::from_slice(text).map_err(RecordError::Text),
            RecordFormat { format } => Err(RecordError::Format(format)),
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
