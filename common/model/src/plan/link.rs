//! Links to be created, and the settings of existing links.

use cni_core::mac::Mac;
use cni_core::names::IfName;

use super::kind::{ChildKind, MasterLink, TapHeaders, TapOptions};
use super::terms::{IfPresent, Ns};
use crate::link::Link;

/// A link to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewLink {
    /// Its name.
    pub name: IfName,
    /// Its address; the kernel chooses one if none. A bridge keeps that one, and does not take those of its ports.
    pub mac: Option<Mac>,
    /// Its MTU in bytes, which for a veth is that of both ends; the kernel's default if none.
    pub mtu: Option<u32>,
    /// What to do if a link of this name exists.
    pub if_present: IfPresent,
    /// The kind of the link.
    pub kind: LinkKind,
}

/// The kind of a link, with the settings for its creation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkKind {
    /// A switch for its ports.
    Bridge {
        /// Whether ports are separated by VLAN.
        vlan_filtering: bool,
    },
    /// A pair of links; each receives what the other sends.
    Veth {
        /// The other end.
        peer: VethPeer,
    },
    /// A link that drops what it is to send.
    Dummy,
    /// A link with a queue: packets redirected to it wait there, and then continue where they came from.
    Ifb,
    /// A link that has a routing table for all links that it is the master of.
    Vrf {
        /// The table.
        table: u32,
    },
    /// A link that works by way of another one.
    Child {
        /// The other one.
        master: MasterLink,
        /// Of what kind.
        kind: ChildKind,
    },
    /// A device that programs open (`/dev/net/tun`), which stays when none has it open.
    Tap {
        /// The users that may open it.
        tap: TapOptions,
        /// The SELinux label of the process that creates it, which decides who may open it; the plugin's own label if
        /// `None`.
        label: Option<String>,
        /// The headers of its frames.
        headers: TapHeaders,
        /// Its alias, which it has before it is made persistent; none if absent.
        alias: Option<String>,
    },
}

impl LinkKind {
    /// `IFLA_INFO_KIND`: the kernel's word for the kind, and the name of its module.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Bridge { .. } => "bridge",
            Self::Veth { .. } => "veth",
            Self::Dummy => "dummy",
            Self::Ifb => "ifb",
            Self::Vrf { .. } => "vrf",
            Self::Child { kind, .. } => kind.name(),
            Self::Tap { .. } => "tun",
        }
    }
}

/// The other end of a veth pair, made in its namespace: it never has to move or be renamed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VethPeer {
    /// Where.
    pub ns: Ns,
    /// Its name.
    pub name: IfName,
    /// Its address.
    pub mac: Mac,
}

/// The move of a link to another namespace, with a new name. The kernel sets the link down, and removes its addresses,
/// its routes and its place in a bridge.
///
/// The index selects the link, since a container may rename its links at any time. The name before may be any that the
/// kernel allows, and is for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkMove {
    /// The namespace before.
    pub from: Ns,
    /// The index before.
    pub index: u32,
    /// The name before.
    pub name: String,
    /// The namespace after.
    pub to: Ns,
    /// The name after; no link may have it.
    pub new_name: IfName,
    /// The alias after, at most 255 bytes; empty for none.
    pub alias: String,
}

/// The settings of a bridge port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BridgePort {
    /// Whether frames may leave by the port that they came in by.
    pub hairpin: bool,
    /// Whether frames to other isolated ports are dropped.
    pub isolated: bool,
}

/// A property of a link that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkSetting {
    /// Ready to pass packets.
    Up,
    /// Out of use; a link that does not exist is.
    Down,
    /// Its link-layer address.
    Mac(Mac),
    /// Its MTU in bytes.
    Mtu(u32),
    /// `IFLA_IFALIAS`, at most 255 bytes: names the owner of the link.
    Alias(String),
    /// Whether the link receives frames for other addresses.
    Promisc(bool),
    /// Whether the link receives every multicast frame.
    AllMulticast(bool),
    /// The length of the transmit queue, in packets.
    TxQueueLength(u32),
    /// A port of a bridge, or a member of a VRF.
    Master(IfName),
    /// The link leaves its master: a bridge, bond or VRF. A missing link is success.
    NoMaster,
    /// The settings of the link as a port of a bridge.
    Port(BridgePort),
}

impl LinkSetting {
    /// The setting that restores the link; `master` is the name of the former master. `None` if the setting changes
    /// nothing, and for [`LinkSetting::Port`], whose effect ends when the link leaves the bridge.
    pub fn undo(&self, before: &Link, master: Option<&IfName>) -> Option<Self> {
        let earlier = match self {
            Self::Up | Self::Down if before.up => Self::Up,
            Self::Up | Self::Down => Self::Down,
            Self::Mac(_) => Self::Mac(before.mac.clone()?),
            Self::Mtu(_) => Self::Mtu(before.mtu),
            Self::Alias(_) => Self::Alias(before.alias.clone().unwrap_or_default()),
            Self::Promisc(_) => Self::Promisc(before.promisc),
            Self::AllMulticast(_) => Self::AllMulticast(before.all_multicast),
            Self::TxQueueLength(_) => Self::TxQueueLength(before.tx_queue_length),
            Self::Master(_) | Self::NoMaster => master.map_or(Self::NoMaster, |name| Self::Master(name.clone())),
            Self::Port(_) => return None,
        };
        (earlier != *self).then_some(earlier)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(name: &str) -> IfName {
        IfName::parse(name).expect("a name")
    }

    fn mac(last: u8) -> Mac {
        Mac::local([0, 0, 0, 0, 0, last])
    }

    #[test]
    fn a_setting_is_undone_to_what_was_there() {
        let before = Link {
            mac: Some(mac(1)),
            mtu: 1500,
            alias: Some("mine".to_owned()),
            all_multicast: true,
            tx_queue_length: 1000,
            ..Link::default()
        };
        let port = LinkSetting::Port(BridgePort { hairpin: true, isolated: true });
        for (setting, undo) in [
            (LinkSetting::Up, Some(LinkSetting::Down)),
            (LinkSetting::Down, None),
            (LinkSetting::Mac(mac(2)), Some(LinkSetting::Mac(mac(1)))),
            (LinkSetting::Mtu(1400), Some(LinkSetting::Mtu(1500))),
            (LinkSetting::Mtu(1500), None),
            (LinkSetting::Alias("ours".to_owned()), Some(LinkSetting::Alias("mine".to_owned()))),
            (LinkSetting::Promisc(true), Some(LinkSetting::Promisc(false))),
            (LinkSetting::AllMulticast(true), None),
            (LinkSetting::AllMulticast(false), Some(LinkSetting::AllMulticast(true))),
            (LinkSetting::TxQueueLength(1), Some(LinkSetting::TxQueueLength(1000))),
            (LinkSetting::Master(name("br0")), Some(LinkSetting::NoMaster)),
            (LinkSetting::NoMaster, None),
            (port, None),
        ] {
            assert_eq!(setting.undo(&before, None), undo, "{setting:?}");
        }
        let (before, [br0, br1]) = (Link { up: true, master: Some(7), ..before }, ["br0", "br1"].map(name));
        for (setting, undo) in [
            (LinkSetting::Up, None),
            (LinkSetting::Down, Some(LinkSetting::Up)),
            (LinkSetting::NoMaster, Some(LinkSetting::Master(br0.clone()))),
            (LinkSetting::Master(br1), Some(LinkSetting::Master(br0.clone()))),
            (LinkSetting::Master(br0.clone()), None),
        ] {
            assert_eq!(setting.undo(&before, Some(&br0)), undo, "{setting:?}");
        }
    }
}
