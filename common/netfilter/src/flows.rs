//! UDP connections that the kernel still sends to the former destination of a host port.
//!
//! Only the first packet of a connection is matched against the rules of address translation. UDP connections have no
//! end, so the packets of a client that keeps its port go to the old destination, whatever the rules are now.
//! [`StaleFlows`] decides which connections to delete: either by filters, which the kernel applies itself, or one by
//! one from a list.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use cni_core::cidr::Cidr;
use cni_core::family::Family;

/// A UDP connection as the kernel tracks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// The destination of its first packet.
    pub to: SocketAddr,
    /// The source of its answers: the same, unless the destination was translated.
    pub answered_by: SocketAddr,
}

/// A UDP port of the host that leads to a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpPort {
    /// The address on which the host listens; every address of the host if none.
    pub host_ip: Option<IpAddr>,
    /// The port on the host.
    pub port: u16,
    /// The destination in the container.
    pub target: SocketAddr,
}

/// The change of a container's ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortChange {
    /// New mappings: connections that lead elsewhere are stale. A connection that leads to the container is younger
    /// than its rules and older than its first process; if it is deleted too, the client's next packet is translated to
    /// the container again.
    Mapped,
    /// Restored mappings: connections that lead elsewhere are stale. A connection that leads to the container is in use
    /// and must stay: if it was deleted, the container's next packet would open another connection, from another port
    /// of the host.
    Restored,
    /// Removed mappings: connections that still lead to the container are stale.
    Unmapped,
}

/// Which UDP connections are meant, in terms that the kernel can compare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowFilter {
    /// Their family.
    pub family: Family,
    /// The address to which their first packet was sent, if it has to be a certain one.
    pub to: Option<IpAddr>,
    /// The destination ports of the first packet, in order; empty for any port.
    pub ports: Vec<u16>,
    /// The address to which they were translated, if it must be this one.
    pub led_to: Option<IpAddr>,
}

impl FlowFilter {
    /// A filter that matches what either of two matches, which are of one family, and possibly more.
    fn or(mut self, other: Self) -> Self {
        self.ports.extend(other.ports);
        self.ports.sort_unstable();
        self.ports.dedup();
        self.to = self.to.filter(|address| other.to == Some(*address));
        self.led_to = self.led_to.filter(|address| other.led_to == Some(*address));
        self
    }

    /// Whether a connection matches.
    pub fn takes(&self, flow: &Flow) -> bool {
        let Self { family, to, ports, led_to } = self;
        *family == Family::of(flow.to.ip())
            && to.is_none_or(|address| address == flow.to.ip())
            && (ports.is_empty() || ports.binary_search(&flow.to.port()).is_ok())
            && led_to.is_none_or(|address| address == flow.answered_by.ip() && flow.answered_by != flow.to)
    }
}

/// The connections that a change of a container's ports makes stale.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaleFlows {
    change: PortChange,
    container: IpAddr,
    /// In the order of the ports on the host, so that one of a thousand is found at once.
    ports: Vec<UdpPort>,
    /// Connections to these addresses and ports of the host are of others and not stale.
    kept: Vec<SocketAddr>,
}

impl StaleFlows {
    /// The stale connections of a container's address; `None` when it has no UDP port.
    pub fn new(change: PortChange, container: IpAddr, mut ports: Vec<UdpPort>) -> Option<Self> {
        ports.sort_by_key(|port| port.port);
        (!ports.is_empty()).then_some(Self { change, container, ports, kept: Vec::new() })
    }

    /// Leaves out the connections to some addresses and ports of the host, which others keep. The unspecified address
    /// stands for all addresses of its family. `None` if no connection can be stale then.
    #[must_use]
    pub fn without(mut self, kept: &[SocketAddr]) -> Option<Self> {
        self.ports.retain(|port| !kept.iter().any(|kept| port.is_within(kept)));
        self.kept = kept.to_vec();
        (!self.ports.is_empty()).then_some(self)
    }

    /// The container's address.
    pub const fn container(&self) -> IpAddr {
        self.container
    }

    /// The family of the connections.
    pub const fn family(&self) -> Family {
        Family::of(self.container)
    }

    /// A filter that matches all stale connections, and possibly others.
    pub fn filter(&self) -> FlowFilter {
        let mut ports: Vec<u16> = self.ports.iter().map(|port| port.port).collect();
        ports.dedup();
        FlowFilter { family: self.family(), to: self.only_host_ip(), ports, led_to: self.only_led_to() }
    }

    /// A filter that matches the stale connections of some changes in one family, and possibly others; `None` if there
    /// is no change.
    pub fn common_filter(all: &[&Self]) -> Option<FlowFilter> {
        let (first, others) = all.split_first()?;
        let first = first.filter();
        Some(others.iter().map(|stale| stale.filter()).fold(first, FlowFilter::or))
    }

    /// The address to which all of them were sent, if it is known.
    fn only_host_ip(&self) -> Option<IpAddr> {
        let (first, others) = self.ports.split_first()?;
        first.host_ip.filter(|_| others.iter().all(|other| other.host_ip == first.host_ip))
    }

    /// The address to which all of them were translated, if it is known.
    const fn only_led_to(&self) -> Option<IpAddr> {
        match self.change {
            PortChange::Mapped | PortChange::Restored => None,
            PortChange::Unmapped => Some(self.container),
        }
    }

    /// Filters that match only connections that may be deleted, so the kernel can delete all of them. `None` if each
    /// connection must be examined. `local` returns the host's own networks; it is called only if the answer depends on
    /// them.
    pub fn filters<E>(&self, local: impl FnOnce() -> Result<Vec<Cidr>, E>) -> Result<Option<Vec<FlowFilter>>, E> {
        let hosts = match (self.family(), self.change) {
            // Linux takes an IPv6 address of a filter for its opposite, from 5.8 to 6.18 at least.
            (Family::V6, _) | (Family::V4, PortChange::Restored) => None,
            (Family::V4, PortChange::Unmapped) => Some(vec![None]),
            (Family::V4, PortChange::Mapped) if self.ports.iter().all(|port| port.host_ip.is_some()) => {
                Some(Vec::new())
            }
            (Family::V4, PortChange::Mapped) => single_addresses(&local()?),
        };
        Ok(hosts.map(|hosts| self.ports.iter().flat_map(|port| self.filters_of(port, &hosts)).collect()))
    }

    /// A filter for each of the host's addresses, unless the port is mapped for a single address.
    fn filters_of(&self, port: &UdpPort, hosts: &[Option<IpAddr>]) -> Vec<FlowFilter> {
        let filter = |to| FlowFilter { to, ports: vec![port.port], ..self.filter() };
        match port.host_ip {
            Some(_) => vec![filter(port.host_ip)],
            None => {
                let is_kept = |host: &Option<IpAddr>| host.is_some_and(|ip| self.keeps(SocketAddr::new(ip, port.port)));
                hosts.iter().copied().filter(|host| !is_kept(host)).map(filter).collect()
            }
        }
    }

    /// Whether a connection is stale. `is_local` returns whether an address is the host's own; it is called only if the
    /// answer depends on it.
    pub fn contain<E>(&self, flow: &Flow, is_local: impl FnOnce(IpAddr) -> Result<bool, E>) -> Result<bool, E> {
        let first = self.ports.partition_point(|port| port.port < flow.to.port());
        let mut same = self.ports[first..].iter().take_while(|port| port.port == flow.to.port());
        match same.find(|port| port.takes(flow)) {
            Some(port) if self.is_astray(flow, port) && !self.keeps(flow.to) => {
                port.host_ip.map_or_else(|| is_local(flow.to.ip()), |_| Ok(true))
            }
            Some(_) | None => Ok(false),
        }
    }

    /// Ports that are kept on all addresses are not among `ports`.
    fn keeps(&self, to: SocketAddr) -> bool {
        self.kept.contains(&to)
    }

    fn is_astray(&self, flow: &Flow, port: &UdpPort) -> bool {
        match self.change {
            PortChange::Mapped | PortChange::Restored => flow.answered_by != port.target,
            PortChange::Unmapped => flow.answered_by.ip() == self.container,
        }
    }
}

/// The addresses of networks; `None` if they are too many. The whole loopback network is the host's, but only the usual
/// address is returned: a connection to another loopback address lasts until its client falls silent.
fn single_addresses(networks: &[Cidr]) -> Option<Vec<Option<IpAddr>>> {
    let is_single = |network: &Cidr| *network == Cidr::host(network.address());
    let counting = networks.iter().filter(|network| is_single(network) || !network.address().is_loopback());
    counting.map(|network| is_single(network).then(|| Some(network.address()))).collect()
}

impl UdpPort {
    /// Whether all connections to this port are to an address and port of the host, or to all addresses with that port.
    fn is_within(&self, kept: &SocketAddr) -> bool {
        let is_same_family = kept.is_ipv4() == self.target.is_ipv4();
        let is_same_address = kept.ip().is_unspecified() || self.host_ip == Some(kept.ip());
        self.port == kept.port() && is_same_family && is_same_address
    }

    /// Whether a connection from outside to this port came in by it.
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
        let Self { change, container, ports, kept } = self;
        f.write_str("forget UDP flows to")?;
        ports.iter().try_for_each(|port| write!(f, " {port}"))?;
        match change {
            PortChange::Mapped | PortChange::Restored => write!(f, " not answered by {container}"),
            PortChange::Unmapped => write!(f, " answered by {container}"),
        }?;
        kept.iter().try_for_each(|kept| write!(f, " except to {kept}"))
    }
}

/// A transport protocol with ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Proto {
    Tcp,
    Udp,
    Sctp,
    Dccp,
}

impl Proto {
    /// Every protocol.
    pub const ALL: [Self; 4] = [Self::Tcp, Self::Udp, Self::Sctp, Self::Dccp];

    /// Reads a protocol's name in any case; `None` for one that the port matches do not know.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|proto| proto.as_str().eq_ignore_ascii_case(name))
    }

    /// The name of the protocol, which is also that of its match extension.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Sctp => "sctp",
            Self::Dccp => "dccp",
        }
    }
}

impl fmt::Display for Proto {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests;
