//! firewalld, the daemon that manages the packet filter of some hosts: the requests that plugins need.
//!
//! It sorts packets into zones, by their source address among other things. Packets from and to an address in the zone
//! `trusted` are accepted. Only the runtime configuration is read and changed, never the permanent one, so firewalld
//! forgets the sources when it ends.

use std::fmt;
use std::net::IpAddr;

use cni_core::error::{Code, Error, Failure};

/// The name of a zone of firewalld.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Zone(String);

/// An invalid name of a zone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid firewalldZone {name:?}")]
pub struct ZoneError {
    name: String,
}

impl Failure for ZoneError {
    fn code(&self) -> Code {
        Code::InvalidConfig
    }

    fn details(&self) -> String {
        "the name of a zone has letters, digits, and - _ / alone".to_owned()
    }
}

impl Zone {
    /// A zone with a name that is fixed in the program.
    pub fn fixed(name: &'static str) -> Self {
        Self(name.to_owned())
    }

    /// Parses a name with the characters that firewalld allows. Only firewalld itself knows whether the zone exists.
    pub fn parse(name: &str) -> Result<Self, ZoneError> {
        let allowed = |letter: char| letter.is_alphanumeric() || ['-', '_', '/'].contains(&letter);
        if name.is_empty() || !name.chars().all(allowed) {
            return Err(ZoneError { name: name.to_owned() });
        }
        Ok(Self(name.to_owned()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The host's firewalld, if it has one.
pub trait Firewalld {
    /// Whether firewalld answers. If the bus cannot be reached, firewalld counts as not running, as in the reference; so it does once it
    /// has refused to serve this user.
    fn is_running(&mut self) -> bool;

    /// Whether an address, as a network with a full-length prefix, is a source of a zone. If firewalld does not run, it
    /// is not.
    fn has_source(&mut self, zone: &Zone, address: IpAddr) -> Result<bool, Error>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_has_a_name_that_firewalld_takes() {
        for name in ["trusted", "my-zone_2", "libvirt/x", "zöne"] {
            assert_eq!(Zone::parse(name).map(|zone| zone.to_string()), Ok(name.to_owned()));
        }
        for name in ["", "a b", "a\n", "a:b", "a\0", "a\"b"] {
            let error = Zone::parse(name).expect_err("refused");
            assert_eq!((error.code().number(), error.to_string()), (7, format!("invalid firewalldZone {name:?}")));
        }
    }
}
