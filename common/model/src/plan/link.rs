//! Links that are to be made, and what can be set on those that exist.

use cni_core::mac::Mac;
use cni_core::names::IfName;

use super::child::{ChildKind, MasterLink};
use super::ns::Ns;
use super::present::IfPresent;
use super::tap::{Tap, TapHeaders};
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
    /// What a link of this name means.
    pub if_present: IfPresent,
    /// What kind of link.
    pub kind: LinkKind,
}

/// What a link is, with what has to be said when it is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkKind {
    /// A switch for its ports.
    Bridge {
        /// Whether ports are separated by VLAN.
        vlan_filtering: bool,
    },
    /// A pair of links, of which one receives what the other sends.
    Veth {
        /// The other end.
        peer: VethPeer,
    },
    /// A link that drops what it is to send.
    Dummy,
    /// A link that sends whatever is redirected to it, and hands it back to where that came from: a place for a queue.
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
        /// Who may open it.
        tap: Tap,
        /// The SELinux label of the process that makes it, which decides who may open it there; that of the plugin if none.
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

/// A link that leaves a namespace for another one, and is called something else there. The kernel sets it down, and
/// takes its addresses, its routes and its bridge away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkMove {
    /// Where it is.
    pub from: Ns,
    /// Its name there.
    pub name: IfName,
    /// Where it is to be.
    pub to: Ns,
    /// Its name there, which no link may have.
    pub new_name: IfName,
    /// Its alias from then on, at most 255 bytes; empty for none.
    pub alias: String,
}

/// How a bridge treats one of its ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BridgePort {
    /// Whether frames may leave by the port they came in by.
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
    /// `IFLA_IFALIAS`, at most 255 bytes: whose the link is.
    Alias(String),
    /// Whether it receives frames for other addresses.
    Promisc(bool),
    /// Whether it receives every multicast frame.
    AllMulticast(bool),
    /// How many packets may wait to be sent.
    TxQueueLength(u32),
    /// A port of a bridge, or a member of a VRF.
    Master(IfName),
    /// No longer a port or member; a link that does not exist is none.
    NoMaster,
    /// What it may do as a port of a bridge.
    Port(BridgePort),
}

impl LinkSetting {
    /// What sets a link to what it was; `master` is the name of that of `before`. None where that is what the
    /// setting says, and for [`LinkSetting::Port`], which ends with being a port.
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
    fn a_setting_is_taken_back_to_what_was_there() {
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
    }

    #[test]
    fn a_link_goes_back_to_the_state_and_the_bridge_that_it_had() {
        let before = Link { up: true, master: Some(7), ..Link::default() };
        let (br0, br1) = (name("br0"), name("br1"));
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
