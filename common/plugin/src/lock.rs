//! Names of locks between processes.

use std::net::IpAddr;

use cni_core::names::{Attachment, NetworkName, hash_hex};

/// The name of a lock between processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockName(String);

impl LockName {
    /// The lock of a container in a network. Its interfaces there share chains of the packet filter.
    pub fn attachment(at: &Attachment) -> Self {
        Self(format!("{}\0{}", at.network, at.container))
    }

    /// Which containers have a port of the host.
    pub fn host_port(port: u16) -> Self {
        Self(format!("port\0{port}"))
    }

    /// Which container has the rules that name nothing but an address.
    pub fn address(address: IpAddr) -> Self {
        Self(format!("address\0{address}"))
    }

    /// The routing tables and rules of a namespace, by what identifies it or leads to it.
    pub fn routing(namespace: &str) -> Self {
        Self(format!("routing\0{namespace}"))
    }

    /// Everything in a network.
    pub fn network(network: &NetworkName) -> Self {
        Self(network.to_string())
    }

    /// The lock of a process that locks several attachments, `repair` or `gc`.
    pub fn several() -> Self {
        Self("repair\0".to_owned())
    }

    /// The number of the lock. Two names may have the same, and then wait for each other.
    pub fn number(&self) -> u32 {
        u32::from_str_radix(&hash_hex(&self.0)[..8], 16).unwrap_or_default()
    }
}
