//! The VLANs of bridge ports, and the link that connects the host itself to a VLAN.

use cni_core::error::Error;
use cni_model::link::Link;
use cni_model::vlan::{BridgeVlan, EarlierVlans, PortVlans, VlanId, VlanLink};

use super::kernel::{Kernel, Space};
use super::kernel_error::refuse;

/// The VLAN that the kernel gives a new port.
pub const DEFAULT: BridgeVlan = BridgeVlan { id: VlanId::FIRST, pvid: true, untagged: true };

impl Kernel {
    /// Gives a port its VLANs.
    pub fn set_port_vlans(&mut self, space: &Space, name: &str, vlans: &PortVlans) -> Result<(), Error> {
        let entry = self.present(space, name)?;
        if entry.link.master.is_none() {
            return refuse(format!("{name} is no port of a bridge"));
        }
        if vlans.earlier == EarlierVlans::Removed {
            entry.vlans.clear();
        }
        let tagged = vlans.tagged.iter().flat_map(|range| range.start().through(*range.end()));
        let native = BridgeVlan { id: vlans.native, pvid: true, untagged: true };
        for vlan in tagged.map(|id| BridgeVlan { id, pvid: false, untagged: false }).chain([native]) {
            entry.vlans.retain(|have| have.id != vlan.id);
            entry.vlans.push(vlan);
        }
        Ok(())
    }

    /// Connects the host to a VLAN, unless a link of the name does.
    pub fn ensure_vlan_link(&mut self, link: &VlanLink) -> Result<(), Error> {
        let host = Space::host();
        let (bridge, mtu) = {
            let bridge = self.present(&host, link.bridge.as_str())?;
            (bridge.link.index, bridge.link.mtu)
        };
        if self.find_mut(&host, link.name.as_str()).is_some() {
            return Ok(());
        }
        let kind = Some("veth".to_owned());
        let near = Link { name: link.name.to_string(), mac: Some(link.mac.clone()), mtu, ..Link::default() };
        let port = Link { name: link.port.to_string(), mac: Some(link.port_mac.clone()), mtu, ..Link::default() };
        let near = self.add(&host, Link { kind: kind.clone(), ..near });
        let port = self.add(&host, Link { kind, master: Some(bridge), up: true, ..port });
        self.pair((&host, near), (&host, port));
        self.set_port_vlans(&host, link.port.as_str(), &link.vlans)
    }
}
