//! Errors of requests to firewalld.

use std::fmt;
use std::net::IpAddr;

use cni_core::cidr::Cidr;
use cni_core::error::{Code, Failure};
use cni_netfilter::firewalld::Zone;

use super::bus::BusError;

/// A request to firewalld.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirewalldRequest {
    method: Method,
    pub(super) zone: Zone,
    pub(super) source: Cidr,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    Add,
    Remove,
    Query,
}

/// Errors of requests to firewalld.
#[derive(Debug, thiserror::Error)]
pub enum FirewalldError {
    /// It refused, with this text.
    #[error("failed to {attempt}: {text}")]
    Refused { attempt: FirewalldRequest, text: String },
    /// It did not answer.
    #[error("failed to {attempt}")]
    Unanswered {
        attempt: FirewalldRequest,
        /// The error of the bus.
        #[source]
        source: Box<BusError>,
    },
}

impl Failure for FirewalldError {
    fn code(&self) -> Code {
        match self {
            Self::Refused { text, .. } if text.starts_with("ZONE_CONFLICT") => Code::Conflict,
            Self::Refused { text, .. } if text.starts_with("INVALID_ZONE") => Code::InvalidConfig,
            Self::Refused { .. } => Code::Program,
            Self::Unanswered { source, .. } => source.code(),
        }
    }
}

impl FirewalldRequest {
    pub(super) fn new(method: Method, zone: &Zone, address: IpAddr) -> Self {
        Self { method, zone: zone.clone(), source: Cidr::host(address) }
    }

    /// If the text is empty, the name of the failure is used.
    pub(super) fn refused(self, name: String, text: String) -> FirewalldError {
        FirewalldError::Refused { attempt: self, text: if text.is_empty() { name } else { text } }
    }

    pub(super) fn unanswered(self, source: BusError) -> FirewalldError {
        FirewalldError::Unanswered { attempt: self, source: Box::new(source) }
    }
}

impl fmt::Display for FirewalldRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { method, zone, source } = self;
        match method {
            Method::Add => write!(f, "add the address {source} to {zone} zone"),
            Method::Remove => write!(f, "remove the address {source} from {zone} zone"),
            Method::Query => write!(f, "find the address {source} in {zone} zone"),
        }
    }
}
