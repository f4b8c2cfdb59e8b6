//! UDP connections that the kernel still sends where a host port used to lead.
//!
//! Rules of address translation are asked for the first packet of a connection alone. UDP knows no end of
//! one, so a client that keeps its port keeps being sent to the old place, whatever the rules say by now.
//! [`StaleFlows`] decides which connections are to be forgotten; what the kernel tracks is looked up, and
//! deleted, by the effect layer.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use cni_core::family::Family;

/// A UDP connection as the kernel tracks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Where its first packet was sent.
    pub to: SocketAddr,
    /// Where its answers come from: the same, unless the packet was given another destination.
    pub answered_by: SocketAddr,
}

/// A UDP port of the host that leads to a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpPort {
    /// The address on which the host listens; every address of the host if none.
    pub host_ip: Option<IpAddr>,
    /// The port on the host.
    pub port: u16,
    /// Where it leads.
    pub target: SocketAddr,
}

/// What has happened to the ports of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortChange {
    /// They lead to it by now: connections that lead elsewhere are stale.
    Mapped,
    /// They do not lead to it any more: connections that still do are stale.
    Unmapped,
}

/// The connections that a change of a container's ports makes stale.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaleFlows {
    change: PortChange,
    container: IpAddr,
    /// In the order of the ports on the host, so that one of a thousand is found at once.
    ports: Vec<UdpPort>,
}

impl StaleFlows {
    /// The stale connections of a container's address; `None` when it has no UDP port.
    pub fn new(change: PortChange, container: IpAddr, mut ports: Vec<UdpPort>) -> Option<Self> {
        ports.sort_by_key(|port| port.port);
        (!ports.is_empty()).then_some(Self { change, container, ports })
    }

    /// The container's address.
    pub const fn container(&self) -> IpAddr {
        self.container
    }

    /// The family of the connections.
    pub const fn family(&self) -> Family {
        Family::of(self.container)
    }

    /// The ports to one of which all of them were sent, in order and each once.
    pub fn ports(&self) -> Vec<u16> {
        let mut ports: Vec<u16> = self.ports.iter().map(|port| port.port).collect();
        ports.dedup();
        ports
    }

    /// The address to which all of them were sent, if it is known.
    pub fn only_host_ip(&self) -> Option<IpAddr> {
        let (first, others) = self.ports.split_first()?;
        first.host_ip.filter(|_| others.iter().all(|other| other.host_ip == first.host_ip))
    }

    /// The address to which all of them were led instead, if it is known.
    pub const fn only_led_to(&self) -> Option<IpAddr> {
        match self.change {
            PortChange::Mapped => None,
            PortChange::Unmapped => Some(self.container),
        }
    }

    /// Whether a connection is stale. `is_local` tells whether an address is the host's own; it is asked
    /// when that decides.
    ///
    /// # Errors
    /// Those of `is_local`.
    pub fn contain<E>(&self, flow: &Flow, is_local: impl FnOnce(IpAddr) -> Result<bool, E>) -> Result<bool, E> {
        let first = self.ports.partition_point(|port| port.port < flow.to.port());
        let mut same = self.ports[first..].iter().take_while(|port| port.port == flow.to.port());
        match same.find(|port| port.takes(flow)) {
            Some(port) if self.is_astray(flow, port) => {
                port.host_ip.map_or_else(|| is_local(flow.to.ip()), |_| Ok(true))
            }
            Some(_) | None => Ok(false),
        }
    }

    fn is_astray(&self, flow: &Flow, port: &UdpPort) -> bool {
        match self.change {
            PortChange::Mapped => flow.answered_by != port.target,
            PortChange::Unmapped => flow.answered_by.ip() == self.container,
        }
    }
}

impl UdpPort {
    /// Whether a connection to this port came in by it, if it came in at all.
    fn takes(&self, flow: &Flow) -> bool {
        self.host_ip.is_none_or(|address| address == flow.to.ip())
    }
}

impl fmt::Display for UdpPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host_ip {
            Some(address) => SocketAddr::new(address, self.port).fmt(f),
            None => write!(f, "*:{}", self.port),
        }
    }
}

impl fmt::Display for StaleFlows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { change, container, ports } = self;
        f.write_str("forget UDP flows to")?;
        ports.iter().try_for_each(|port| write!(f, " {port}"))?;
        match change {
            PortChange::Mapped => write!(f, " not answered by {container}"),
            PortChange::Unmapped => write!(f, " answered by {container}"),
        }
    }
}

#[cfg(test)]
mod tests;
