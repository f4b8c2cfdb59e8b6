//! Links: looks one up, and changes the properties that every kind of link has.
//!
//! `create` creates links.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use cni_core::mac::Mac;
use cni_core::names::IfName;
use cni_model::link::{Link, OperState};
use netlink_packet_core::DefaultNla;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{InfoKind, LinkAttribute, LinkExtentMask, LinkFlags, LinkInfo, LinkMessage};
use netlink_sys::SocketAddr;
use netlink_sys::protocols::NETLINK_ROUTE;

use super::attribute::{Attribute, attributes, field};
use super::create::{read_child, read_tap};
use super::error::{Cause, NetlinkError, accept, during};
use super::socket::Socket;

/// Length of `struct ifinfomsg`.
pub(super) const HEADER_LENGTH: usize = 16;
/// `IFLA_BR_VLAN_FILTERING` of `linux/if_link.h`.
const BRIDGE_VLAN_FILTERING: u16 = 7;
/// `IFLA_VRF_TABLE` of `linux/if_link.h`.
const VRF_TABLE: u16 = 1;
/// `IFLA_ALT_IFNAME` of `linux/if_link.h`, since Linux 5.5.
const ALTERNATIVE_NAME: u16 = 53;
/// `IFLA_TARGET_NETNSID` of `linux/if_link.h`, since Linux 4.20.
const TARGET_NETNSID: u16 = 46;
/// `IFLA_PARENT_DEV_NAME` of `linux/if_link.h`, since Linux 5.14.
const PARENT_DEVICE_NAME: u16 = 56;
/// `IFLA_PARENT_DEV_BUS_NAME` of `linux/if_link.h`, since Linux 5.14.
const PARENT_DEVICE_BUS: u16 = 57;
/// `ALTIFNAMSIZ` of `linux/if.h`: room for an alternative name and the zero behind it.
const LONGEST_NAME: usize = 128;

impl Socket {
    /// Looks up a link by name; `None` if it does not exist.
    ///
    /// # Errors
    /// If the kernel refuses, such as a name of more than 15 bytes (`ERANGE`).
    pub fn link(&mut self, name: &str) -> Result<Option<Link>, NetlinkError> {
        let mut question = LinkMessage::default();
        question.attributes.push(LinkAttribute::IfName(name.to_owned()));
        self.ask_for_link(question).map_err(during(|| format!("look up link {name}")))
    }

    /// Looks a link up by a name or alternative name; `None` when no link is called so.
    pub fn link_called(&mut self, name: &str) -> Result<Option<Link>, NetlinkError> {
        if name.contains('\0') || name.len() >= LONGEST_NAME {
            return Ok(None);
        }
        if name.len() < libc::IFNAMSIZ {
            return self.link(name);
        }
        let mut question = LinkMessage::default();
        let terminated = [name.as_bytes(), &[0]].concat();
        question.attributes.push(LinkAttribute::Other(DefaultNla::new(ALTERNATIVE_NAME, terminated)));
        self.ask_for_link(question).map_err(during(|| format!("look up link {name}")))
    }

    /// Looks up a link by index; `None` if it does not exist.
    pub fn link_by_index(&mut self, index: u32) -> Result<Option<Link>, NetlinkError> {
        self.ask_for_link(link_message(index)).map_err(during(|| format!("look up link {index}")))
    }

    /// The name of a link for an error about it, or its index if it has none any more.
    pub(super) fn label(&mut self, index: u32) -> String {
        match self.ask_for_link(link_message(index)) {
            Ok(Some(link)) => link.name,
            Ok(None) | Err(_) => format!("link {index}"),
        }
    }

    /// Lists the links of a kind, by the kernel's word. Older kernels send all links; the others are left out here.
    pub fn links_of_kind(&mut self, kind: &str) -> Result<Vec<Link>, NetlinkError> {
        let listed = self.dump(&RouteNetlinkMessage::GetLink(question_about_kind(kind, None)), read_of_kind(kind));
        listed.map_err(during(|| format!("list the {kind} links")))
    }

    /// Lists all links.
    pub fn links(&mut self) -> Result<Vec<Link>, NetlinkError> {
        let listed = self.dump(&RouteNetlinkMessage::GetLink(question_about_all(None)), read_link);
        listed.map_err(during(|| "list the links".to_owned()))
    }

    fn ask_for_link(&mut self, mut question: LinkMessage) -> Result<Option<Link>, Cause> {
        question.attributes.push(LinkAttribute::ExtMask(vec![LinkExtentMask::SkipStats]));
        let link = self.ask(RouteNetlinkMessage::GetLink(question), read_link);
        accept(link.map(Some), &[libc::ENODEV], None)
    }

    /// Sets a link up.
    pub fn set_link_up(&mut self, index: u32) -> Result<(), NetlinkError> {
        self.switch_flag(index, LinkFlags::Up, true).map_err(during(|| format!("set {} up", self.label(index))))
    }

    /// Sets a link down.
    pub fn set_link_down(&mut self, index: u32) -> Result<(), NetlinkError> {
        self.switch_flag(index, LinkFlags::Up, false).map_err(during(|| format!("set {} down", self.label(index))))
    }

    /// Sets promiscuous mode of a link on or off (`IFF_PROMISC`).
    pub fn set_promisc(&mut self, index: u32, on: bool) -> Result<(), NetlinkError> {
        self.switch_flag(index, LinkFlags::Promisc, on)
            .map_err(during(|| format!("set promiscuous mode of {} to {on}", self.label(index))))
    }

    /// Lets a link receive every multicast frame, or not (`IFF_ALLMULTI`).
    pub fn set_all_multicast(&mut self, index: u32, on: bool) -> Result<(), NetlinkError> {
        self.switch_flag(index, LinkFlags::Allmulti, on)
            .map_err(during(|| format!("set reception of all multicast of {} to {on}", self.label(index))))
    }

    fn switch_flag(&mut self, index: u32, flag: LinkFlags, on: bool) -> Result<(), Cause> {
        let mut change = link_message(index);
        change.header.flags = if on { flag } else { LinkFlags::empty() };
        change.header.change_mask = flag;
        self.change(RouteNetlinkMessage::SetLink(change), 0)
    }

    /// Sets the link-layer address of a link.
    ///
    /// # Errors
    /// When the kernel refuses, such as a multicast address (`EADDRNOTAVAIL`).
    pub fn set_mac(&mut self, index: u32, mac: &Mac) -> Result<(), NetlinkError> {
        self.set_attribute(index, LinkAttribute::Address(mac.bytes().to_vec()))
            .map_err(during(|| format!("set the MAC address of {} to {mac}", self.label(index))))
    }

    /// Sets the MTU of a link, in bytes.
    ///
    /// # Errors
    /// When the kernel refuses, such as an MTU that the driver does not take (`EINVAL`).
    pub fn set_mtu(&mut self, index: u32, mtu: u32) -> Result<(), NetlinkError> {
        self.set_attribute(index, LinkAttribute::Mtu(mtu))
            .map_err(during(|| format!("set the MTU of {} to {mtu}", self.label(index))))
    }

    /// Sets how many packets may wait to be sent by a link.
    pub fn set_tx_queue_length(&mut self, index: u32, packets: u32) -> Result<(), NetlinkError> {
        self.set_attribute(index, LinkAttribute::TxQueueLen(packets))
            .map_err(during(|| format!("set the transmit queue length of {} to {packets}", self.label(index))))
    }

    /// Sets the alias of a link; an empty one removes it.
    ///
    /// # Errors
    /// When the kernel refuses, such as an alias of more than 255 bytes.
    pub fn set_alias(&mut self, index: u32, alias: &str) -> Result<(), NetlinkError> {
        self.set_attribute(index, alias_attribute(alias))
            .map_err(during(|| format!("set the alias of {} to {alias:?}", self.label(index))))
    }

    /// Moves a link to a namespace, or leaves it in its own, and gives it a name and an alias there.
    ///
    /// # Errors
    /// If the kernel refuses: `EEXIST` if the name is taken there (it has then moved the link under its old name) or if
    /// one of its other names is; `EINVAL` for a link that cannot leave its namespace, such as `lo`.
    pub fn move_link(
        &mut self,
        index: u32,
        netns: Option<BorrowedFd<'_>>,
        name: &IfName,
        alias: &str,
    ) -> Result<(), NetlinkError> {
        let mut change = link_message(index);
        change.attributes.extend(netns.map(|netns| LinkAttribute::NetNsFd(netns.as_raw_fd())));
        change.attributes.push(LinkAttribute::IfName(name.to_string()));
        change.attributes.push(alias_attribute(alias));
        self.change(RouteNetlinkMessage::SetLink(change), 0)
            .map_err(during(|| format!("move {} to {name}", self.label(index))))
    }

    /// Sets one attribute of a link.
    pub(super) fn set_attribute(&mut self, index: u32, attribute: LinkAttribute) -> Result<(), Cause> {
        let mut change = link_message(index);
        change.attributes.push(attribute);
        self.change(RouteNetlinkMessage::SetLink(change), 0)
    }

    /// Deletes a link of any kind; the peer of a veth is deleted with it.
    ///
    /// # Errors
    /// If the kernel refuses: `ENODEV` if there is no such link, `EOPNOTSUPP` for `lo`.
    pub fn delete_link(&mut self, index: u32) -> Result<(), NetlinkError> {
        self.change(RouteNetlinkMessage::DelLink(link_message(index)), 0)
            .map_err(during(|| format!("delete {}", self.label(index))))
    }
}

/// Asks for all links, in the namespace of a number or in the socket's own.
pub(super) fn question_about_all(netns: Option<i32>) -> LinkMessage {
    let mut question = LinkMessage::default();
    question.attributes.push(LinkAttribute::ExtMask(vec![LinkExtentMask::SkipStats]));
    question.attributes.extend(netns.map(target_netns));
    question
}

/// Asks for the links of a kind, in the namespace of a number or in the socket's own.
pub(super) fn question_about_kind(kind: &str, netns: Option<i32>) -> LinkMessage {
    let mut question = question_about_all(netns);
    question.attributes.push(LinkAttribute::LinkInfo(vec![LinkInfo::Kind(InfoKind::Other(kind.to_owned()))]));
    question
}

/// A message about the link of an index in the namespace of a number.
pub(super) fn question_about_index(index: u32, netns: i32) -> LinkMessage {
    let mut question = link_message(index);
    question.attributes.push(LinkAttribute::ExtMask(vec![LinkExtentMask::SkipStats]));
    question.attributes.push(target_netns(netns));
    question
}

fn target_netns(netns: i32) -> LinkAttribute {
    LinkAttribute::Other(DefaultNla::new(TARGET_NETNSID, netns.to_ne_bytes().to_vec()))
}

/// Reads a link if it is of a kind.
pub(super) fn read_of_kind(kind: &str) -> impl Fn(&[u8]) -> Option<Link> {
    move |payload| read_link(payload).filter(|link| link.kind.as_deref() == Some(kind))
}

/// The kernel stores what it gets, and counts a terminating zero; hence not `LinkAttribute::IfAlias`.
fn alias_attribute(alias: &str) -> LinkAttribute {
    LinkAttribute::Other(DefaultNla::new(libc::IFLA_IFALIAS, alias.as_bytes().to_vec()))
}

/// A message about the link of an index.
pub(super) fn link_message(index: u32) -> LinkMessage {
    let mut message = LinkMessage::default();
    message.header.index = index;
    message
}

/// The index of the link that a message is about.
pub(super) fn read_index(payload: &[u8]) -> Option<u32> {
    field(payload, 4).map(u32::from_ne_bytes)
}

pub(super) fn read_link(payload: &[u8]) -> Option<Link> {
    let flags = field(payload, 8).map(u32::from_ne_bytes)?;
    let has = |flag| LinkFlags::from_bits_retain(flags).contains(flag);
    let mut link = Link {
        index: read_index(payload)?,
        up: has(LinkFlags::Up),
        promisc: has(LinkFlags::Promisc),
        all_multicast: has(LinkFlags::Allmulti),
        ..Link::default()
    };
    let (mut bus, mut device) = (String::new(), None);
    for attribute in attributes(payload.get(HEADER_LENGTH..)?) {
        match attribute.kind {
            libc::IFLA_IFNAME => link.name = attribute.text(),
            libc::IFLA_ADDRESS => link.mac = Mac::from_kernel(attribute.value),
            libc::IFLA_PERM_ADDRESS => link.permanent_mac = Mac::from_kernel(attribute.value),
            libc::IFLA_MTU => link.mtu = attribute.u32().unwrap_or_default(),
            libc::IFLA_OPERSTATE => link.oper_state = attribute.u8().map_or(OperState::Unknown, oper_state),
            libc::IFLA_MASTER => link.master = attribute.link_index(),
            libc::IFLA_LINK => link.peer = attribute.link_index(),
            libc::IFLA_LINK_NETNSID => link.peer_netns = attribute.netns_id(),
            libc::IFLA_PROMISCUITY => link.promiscuity = attribute.u32().unwrap_or_default(),
            libc::IFLA_TXQLEN => link.tx_queue_length = attribute.u32().unwrap_or_default(),
            libc::IFLA_IFALIAS => link.alias = Some(attribute.text()).filter(|alias| !alias.is_empty()),
            libc::IFLA_LINKINFO => read_kind(&mut link, attribute),
            PARENT_DEVICE_NAME => device = Some(attribute.text()),
            PARENT_DEVICE_BUS => bus = attribute.text(),
            _ => (),
        }
    }
    link.parent_device = device.map(|name| format!("{bus}/{name}"));
    Some(link).filter(|link| !link.name.is_empty())
}

fn read_kind(link: &mut Link, info: Attribute<'_>) {
    let Some(kind) = info.part(libc::IFLA_INFO_KIND).map(Attribute::text) else { return };
    if let Some(data) = info.part(libc::IFLA_INFO_DATA) {
        match kind.as_str() {
            "bridge" => {
                let filtering = data.part(BRIDGE_VLAN_FILTERING).and_then(Attribute::u8);
                link.vlan_filtering = filtering.map(|value| value != 0);
            }
            "tun" => link.tap = read_tap(data),
            "vrf" => link.vrf_table = data.part(VRF_TABLE).and_then(Attribute::u32),
            kind => link.child = read_child(kind, data),
        }
    }
    link.kind = Some(kind);
}

fn oper_state(number: u8) -> OperState {
    match number {
        1 => OperState::NotPresent,
        2 => OperState::Down,
        3 => OperState::LowerLayerDown,
        4 => OperState::Testing,
        5 => OperState::Dormant,
        6 => OperState::Up,
        _ => OperState::Unknown,
    }
}

/// `RTNLGRP_LINK` of `linux/rtnetlink.h`.
const WATCH_GROUP: u32 = 1;
/// Room for one message, which is not read.
const WATCH_ROOM: usize = 16;

/// A socket to which the kernel sends each change of a link, while it still holds the lock for changes.
#[derive(Debug)]
pub struct LinkWatch {
    inner: netlink_sys::Socket,
    buffer: Vec<u8>,
}

impl LinkWatch {
    /// Watches the links of the namespace that the calling thread is in.
    ///
    /// # Errors
    /// When the kernel gives no socket.
    pub fn open() -> io::Result<Self> {
        let mut inner = netlink_sys::Socket::new(NETLINK_ROUTE)?;
        inner.set_non_blocking(true)?;
        inner.bind(&SocketAddr::new(0, 0))?;
        inner.add_membership(WATCH_GROUP)?;
        Ok(Self { inner, buffer: Vec::with_capacity(WATCH_ROOM) })
    }

    /// Whether a link was made, changed or deleted since the last call. More changes than the socket has room for are
    /// changes, and so is what cannot be told.
    pub fn has_changed(&mut self) -> bool {
        let mut changed = false;
        loop {
            self.buffer.clear();
            match self.inner.recv(&mut self.buffer, libc::MSG_TRUNC) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return changed,
                Err(error) if error.raw_os_error() != Some(libc::ENOBUFS) => return true,
                Ok(_) | Err(_) => changed = true,
            }
        }
    }
}

#[cfg(test)]
mod tests;
