//! Encodes and decodes `IFLA_LINKINFO` of links on a master: macvlan, ipvlan and vlan.

use cni_core::names::IfName;
use cni_model::plan::{ChildKind, IpvlanMode, MacvlanMode};
use netlink_packet_core::DefaultNla;
use netlink_packet_route::link::{InfoData, InfoIpVlan, InfoKind, InfoMacVlan, InfoVlan, LinkAttribute, LinkInfo};

use super::attribute::{Attribute, field};
use super::error::{NetlinkError, during};
use super::socket::Socket;

/// `IFLA_MACVLAN_MODE` of `linux/if_link.h`.
const MACVLAN_MODE: u16 = 1;
/// `IFLA_MACVLAN_BC_QUEUE_LEN` of `linux/if_link.h`, since Linux 5.11.
const MACVLAN_BC_QUEUE_LEN: u16 = 7;
/// `IFLA_VLAN_ID` of `linux/if_link.h`.
const VLAN_ID: u16 = 1;
/// `IFLA_IPVLAN_MODE` of `linux/if_link.h`.
const IPVLAN_MODE: u16 = 1;

impl Socket {
    /// Gives a link another name. It must be down.
    ///
    /// # Errors
    /// When the kernel refuses: `EEXIST` when the name is taken, `EBUSY` when the link is up on older kernels.
    pub fn set_name(&mut self, index: u32, name: &IfName) -> Result<(), NetlinkError> {
        self.set_attribute(index, LinkAttribute::IfName(name.to_string()))
            .map_err(during(|| format!("rename {} to {name}", self.label(index))))
    }
}

/// The description of a new child.
pub(super) fn child_info(kind: &ChildKind) -> Vec<LinkInfo> {
    match kind {
        ChildKind::Macvlan { mode, broadcast_queue } => {
            let mut data = vec![InfoMacVlan::Mode(mode.number().into())];
            data.extend(broadcast_queue.map(queue_length));
            vec![LinkInfo::Kind(InfoKind::MacVlan), LinkInfo::Data(InfoData::MacVlan(data))]
        }
        ChildKind::Vlan { id } => {
            vec![LinkInfo::Kind(InfoKind::Vlan), LinkInfo::Data(InfoData::Vlan(vec![InfoVlan::Id(*id)]))]
        }
        // Without flags, which would be set for all links of the master.
        ChildKind::Ipvlan { mode } => {
            let data = vec![InfoIpVlan::Mode(mode.number().into())];
            vec![LinkInfo::Kind(InfoKind::IpVlan), LinkInfo::Data(InfoData::IpVlan(data))]
        }
    }
}

fn queue_length(packets: u32) -> InfoMacVlan {
    InfoMacVlan::Other(DefaultNla::new(MACVLAN_BC_QUEUE_LEN, packets.to_ne_bytes().to_vec()))
}

/// Decodes the properties of a link of one of these kinds.
pub(super) fn read_child(kind: &str, data: Attribute<'_>) -> Option<ChildKind> {
    let part = |kind| data.nested().find(|attribute| attribute.kind == kind);
    match kind {
        "macvlan" => {
            let number = part(MACVLAN_MODE)?.u32()?;
            let mode = MacvlanMode::ALL.into_iter().find(|mode| mode.number() == number)?;
            let broadcast_queue = part(MACVLAN_BC_QUEUE_LEN).and_then(Attribute::u32);
            Some(ChildKind::Macvlan { mode, broadcast_queue })
        }
        "vlan" => Some(ChildKind::Vlan { id: u16::from_ne_bytes(field(part(VLAN_ID)?.value, 0)?) }),
        "ipvlan" => {
            let number = u16::from_ne_bytes(field(part(IPVLAN_MODE)?.value, 0)?);
            let mode = IpvlanMode::ALL.into_iter().find(|mode| mode.number() == number)?;
            Some(ChildKind::Ipvlan { mode })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::attribute::{attributes, written};
    use netlink_packet_core::Emitable;

    /// The bytes of a description, and what is read of them.
    fn there_and_back(kind: &ChildKind) -> Option<ChildKind> {
        let info = child_info(kind);
        let mut bytes = vec![0; info.as_slice().buffer_len()];
        info.as_slice().emit(&mut bytes);
        let data = attributes(&bytes).find(|attribute| attribute.kind == libc::IFLA_INFO_DATA)?;
        read_child(kind.name(), data)
    }

    #[test]
    fn a_description_is_read_as_it_was_written() {
        for mode in MacvlanMode::ALL {
            for broadcast_queue in [None, Some(7), Some(u32::MAX)] {
                let kind = ChildKind::Macvlan { mode, broadcast_queue };
                assert_eq!(there_and_back(&kind), Some(kind));
            }
        }
        let vlans = [0, 1, 4094].map(|id| ChildKind::Vlan { id });
        let ipvlans = IpvlanMode::ALL.map(|mode| ChildKind::Ipvlan { mode });
        for kind in vlans.into_iter().chain(ipvlans) {
            assert_eq!(there_and_back(&kind), Some(kind));
        }
    }

    #[test]
    fn what_is_torn_or_of_another_kind_is_no_child() {
        let bytes = written(libc::IFLA_INFO_DATA, &written(MACVLAN_MODE, &[4]));
        let data = attributes(&bytes).next().expect("an attribute");
        for kind in ["macvlan", "ipvlan", "vlan", "veth"] {
            assert_eq!(read_child(kind, data), None, "{kind}");
        }
    }
}
