//! The VLANs of bridge ports, and the link that connects the host itself to a VLAN.

use cni_core::error::Error;
use cni_core::fail;
use cni_core::names::IfName;
use cni_model::link::Link;
use cni_model::plan::{BridgePort, IfPresent, LinkKind, NewLink, Ns, VethPeer};
use cni_model::vlan::{BridgeVlan, EarlierVlans, PortVlans, VlanId, VlanLink};

use super::answer::{Creation, accept_absent, accept_existing, present, refused};
use crate::machine::LinuxHost;
use cni_kernel::netlink::{NetlinkError, Socket};

/// The error if a kernel without `CONFIG_BRIDGE_VLAN_FILTERING` has refused a request; `None` if another one has.
pub(super) fn without_filtering(link: &IfName, source: &NetlinkError) -> Option<Error> {
    let (link, details) = (link.as_str(), Error::from(source.clone()).in_full());
    (source.errno() == Some(libc::EOPNOTSUPP)).then(|| {
        fail!(
            UnsupportedField,
            "vlan or vlanTrunk cannot be set on {link:?}: this kernel has no bridge VLAN filtering",
            details: "{details}"
        )
    })
}

/// Gives a port its VLANs.
pub(super) fn set_port_vlans(host: &mut LinuxHost, ns: Ns, name: &IfName, vlans: &PortVlans) -> Result<(), Error> {
    let index = present(host, ns, name)?.index;
    write_port_vlans(host.socket(ns)?, index, vlans).map_err(|source| {
        let text = format!("failed to setup vlan tag on interface {:?}", name.as_str());
        without_filtering(name, &source).unwrap_or_else(|| refused(source, text))
    })
}

/// One request for each range, and one that removes all VLANs of the port, so nothing has to be listed.
fn write_port_vlans(socket: &mut Socket, index: u32, vlans: &PortVlans) -> Result<(), NetlinkError> {
    let PortVlans { native, tagged, earlier } = vlans;
    if *earlier == EarlierVlans::Removed {
        socket.remove_port_vlans(index, VlanId::FIRST..=VlanId::LAST)?;
    }
    socket.add_port_vlan(index, BridgeVlan { id: *native, pvid: true, untagged: true })?;
    tagged.iter().try_for_each(|range| socket.add_port_vlan_range(index, range.clone()))
}

/// Creates the pair, or completes one that was left half-made: its port is set up last, so a port that is up has its
/// VLANs. A link with this name that is not a veth is used as it is: an administrator has made it.
pub(super) fn ensure_link(host: &mut LinuxHost, link: &VlanLink) -> Result<(), Error> {
    let failed = |source| not_connected(link, source);
    let found = host.socket(Ns::Host)?.link(link.name.as_str()).map_err(failed)?;
    let created = if found.is_none() { create_pair(host, link)? } else { Creation::Earlier };
    let finished = finish_pair(host, link);
    if created == Creation::Now
        && finished.is_err()
        && let Some(made) = host.socket(Ns::Host)?.link(link.name.as_str()).map_err(failed)?
    {
        accept_absent(host.socket(Ns::Host)?.delete_link(made.index)).map_err(failed)?;
    }
    finished
}

fn not_connected(link: &VlanLink, source: NetlinkError) -> Error {
    let name = link.name.as_str();
    refused(source, format!("failed to create vlan interface: failed to create vlan gateway {name:?}"))
}

fn create_pair(host: &mut LinuxHost, link: &VlanLink) -> Result<Creation, Error> {
    let mtu = present(host, Ns::Host, &link.bridge)?.mtu;
    let VlanLink { name, mac, port, port_mac, .. } = link.clone();
    let peer = VethPeer { ns: Ns::Host, name: port, mac: port_mac };
    let (mac, mtu, kind) = (Some(mac), Some(mtu), LinkKind::Veth { peer });
    let pair = NewLink { name, mac, mtu, if_present: IfPresent::Accept, kind };
    let made = accept_existing(host.socket(Ns::Host)?.create_link(&pair, None));
    made.map_err(|source| not_connected(link, source))
}

fn finish_pair(host: &mut LinuxHost, link: &VlanLink) -> Result<(), Error> {
    let near = present(host, Ns::Host, &link.name)?;
    let bridge = present(host, Ns::Host, &link.bridge)?.index;
    let socket = host.socket(Ns::Host)?;
    let half_made = |port: &Link| port.master.is_none() || (port.master == Some(bridge) && !port.up);
    let finished = match port_of(socket, &near) {
        Ok(Some(port)) if half_made(&port) => connect(socket, &port, bridge, link),
        other => other.map(|_| ()),
    };
    finished.map_err(|source| without_filtering(&link.name, &source).unwrap_or_else(|| not_connected(link, source)))
}

/// The other end, if the link is a veth and its other end is on the host.
fn port_of(socket: &mut Socket, near: &Link) -> Result<Option<Link>, NetlinkError> {
    let is_peer = |link: &Link| link.kind.as_deref() == Some("veth") && link.peer == Some(near.index);
    match near.peer {
        Some(index) if near.kind.as_deref() == Some("veth") => Ok(socket.link_by_index(index)?.filter(is_peer)),
        Some(_) | None => Ok(None),
    }
}

fn connect(socket: &mut Socket, port: &Link, bridge: u32, link: &VlanLink) -> Result<(), NetlinkError> {
    socket.set_master(port.index, bridge)?;
    socket.set_bridge_port(port.index, BridgePort { hairpin: false, isolated: false })?;
    write_port_vlans(socket, port.index, &link.vlans)?;
    socket.set_link_up(port.index)
}
