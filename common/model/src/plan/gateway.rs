//! The address by which the containers of a network reach the host. It is on a link that other networks may use too.

use cni_core::cidr::Cidr;
use cni_core::error::{Code, Failure};
use cni_core::family::Family;
use cni_core::names::IfName;

use crate::link::Address;

/// What to do with the address of another network on the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherAddress {
    /// Refuse the ADD.
    Refuse,
    /// Take it away: `forceAddress`.
    Replace,
}

/// A gateway that is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewGateway {
    /// The link, which is the bridge or its link to a VLAN.
    pub link: IfName,
    /// Its address, which the kernel is to use without looking for another user of it.
    pub cidr: Cidr,
    /// All gateways of the network: they are not in each other's way.
    pub network: Vec<Cidr>,
    /// What to do with any other address.
    pub other: OtherAddress,
}

/// The link has an address of another network, which is not to be taken away.
#[derive(Debug, thiserror::Error)]
#[error("failed to set bridge addr: {link:?} already has an IP address different from {gateway}")]
pub struct OtherAddressError {
    link: String,
    gateway: Cidr,
    found: Cidr,
}

impl Failure for OtherAddressError {
    fn code(&self) -> Code {
        Code::Conflict
    }

    fn details(&self) -> String {
        format!("it has {}; forceAddress: true replaces it, for every container on the bridge", self.found)
    }
}

impl NewGateway {
    /// Which addresses of the link have to go: none where it has the gateway's already.
    pub fn unwanted(&self, present: &[Address]) -> Result<Vec<Cidr>, OtherAddressError> {
        let others = if self.is_among(present) { Vec::new() } else { self.conflicts(present) };
        match (self.other, others.first()) {
            (OtherAddress::Refuse, Some(found)) => {
                Err(OtherAddressError { link: self.link.to_string(), gateway: self.cidr, found: *found })
            }
            (OtherAddress::Refuse | OtherAddress::Replace, _) => Ok(others),
        }
    }

    /// Whether the gateway's address is among those of the link.
    pub fn is_among(&self, present: &[Address]) -> bool {
        present.iter().any(|address| address.cidr == self.cidr)
    }

    /// Any other IPv4 address of the link conflicts with the gateway, an IPv6 address only when the networks overlap.
    fn conflicts(&self, present: &[Address]) -> Vec<Cidr> {
        let others = present.iter().map(|address| address.cidr).filter(|cidr| !self.network.contains(cidr));
        others
            .filter(|other| match (other.family(), self.cidr.family()) {
                (Family::V4, Family::V4) => true,
                (Family::V6, Family::V6) => other.overlaps(self.cidr),
                (Family::V4, Family::V6) | (Family::V6, Family::V4) => false,
            })
            .collect()
    }
}
