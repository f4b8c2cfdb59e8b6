//! The properties of a link on the host, recorded while it is in a container. The reference keeps only the name, as
//! the link's alias, which the container can change; this plugin sets the alias too, so that the reference finds it.
//!
//! Without a record, as after an ADD of the reference, the alias gives the name, and the link stays down.
//!
//! Root in a container chooses the name, the alias, the MAC address and the index of every link that it makes, so none
//! of them proves that a link is the one that ADD moved. It cannot choose the device of a link, nor the other end that the
//! kernel reports: outside its own namespaces it can make neither the peer of a veth nor a link on a master.

use cni_core::error::Error;
use cni_core::names::{Attachment, IfName};
use cni_model::link::{Link, OtherEnd};
use cni_model::plan::{LinkSetting, Ns};
use cni_model::record::PartKind;
use cni_plugin::host::Host;
use cni_plugin::json_part::JsonPart;
use cni_plugin::ledger::DEVICE;
use serde::{Deserialize, Serialize};

/// A link that an attachment has from the host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct MovedLink {
    /// `CNI_NETNS` of ADD.
    pub netns: String,
    /// Its name on the host.
    pub name: String,
    /// Its alias on the host.
    pub alias: Option<String>,
    /// Whether it was up.
    pub up: bool,
    /// The bridge or bond that it was a port of.
    pub master: Option<String>,
    /// `IFLA_INFO_KIND`; none for hardware.
    pub kind: Option<String>,
    /// Its link-layer address on the host.
    pub mac: Option<String>,
    /// Its MTU on the host; `None` in records of earlier releases.
    pub mtu: Option<u32>,
    /// Its index in the container, which cannot be changed.
    pub index: u32,
    /// What distinguishes it from links that the container makes; `None` in records of earlier releases.
    pub evidence: Option<LinkIdentity>,
}

impl JsonPart for MovedLink {
    const KIND: PartKind = DEVICE;
}

impl MovedLink {
    /// The record of a link of the host before it is moved; `master` is the name of its bridge or bond.
    pub fn of(link: &Link, master: Option<&IfName>) -> Self {
        Self {
            name: link.name.clone(),
            alias: link.alias.clone(),
            up: link.up,
            master: master.map(ToString::to_string),
            mtu: Some(link.mtu),
            ..Self::known_by(link)
        }
    }

    /// The record without a file: only the name on the host.
    pub fn by_alias(link: &Link, name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::known_by(link) }
    }

    fn known_by(link: &Link) -> Self {
        let mac = link.mac.as_ref().map(ToString::to_string);
        Self { kind: link.kind.clone(), mac, index: link.index, ..Self::default() }
    }

    /// Whether a link may be the moved one. A container can change its alias and its address, but hardly both by
    /// accident; [`LinkIdentity`] detects intent.
    pub fn is(&self, link: &Link) -> bool {
        let has_mac = || self.mac.is_some() && link.mac.as_ref().map(ToString::to_string) == self.mac;
        link.kind == self.kind && (link.alias.as_deref() == Some(self.name.as_str()) || has_mac())
    }

    /// Compares a link with the record.
    pub fn verdict(&self, ns: Ns, link: &Link, host: &mut dyn Host) -> Result<Proof, Error> {
        let Some(recorded) = &self.evidence else { return Ok(Proof::Unproven) };
        let found = LinkIdentity::observe(ns, link, host)?;
        Ok(judge(recorded, &found, recorded.former_end(host)?))
    }

    /// The settings that give the link, as it is now, its MTU and its address of before. The container may have changed them.
    pub fn settings_back(&self, now: &Link) -> impl Iterator<Item = LinkSetting> + use<> {
        let mtu = self.mtu.filter(|mtu| *mtu != now.mtu);
        let mac = self.mac.as_ref().filter(|_| self.mtu.is_some()).and_then(|mac| mac.parse().ok());
        let mac = mac.filter(|mac| now.mac.as_ref() != Some(mac));
        mtu.map(LinkSetting::Mtu).into_iter().chain(mac.map(LinkSetting::Mac))
    }

    /// Whether the kernel moves it back when its namespace ends. The kernel deletes links that have a kind.
    pub const fn is_hardware(&self) -> bool {
        self.kind.is_none()
    }

    /// The other attachments with a record of this link, which was on the host when this one was made: none of them has it
    /// any more. Hardware is known by its address, and a veth by its other end. All VLANs of one link are alike, as are the channels of
    /// one card: those are told from each other by their names.
    pub fn former_borrowers(&self, at: &Attachment, host: &mut dyn Host) -> Result<Vec<Attachment>, Error> {
        let Some(evidence) = &self.evidence else { return Ok(Vec::new()) };
        let has_end = evidence.other_end.is_some();
        let is_unique = evidence.permanent_mac.is_some() || has_end && self.kind.as_deref() == Some("veth");
        let has_origin = has_end || evidence.device.is_some();
        let is_same = |loan: &Self| {
            loan.evidence.as_ref() == Some(evidence) && (is_unique || has_origin && loan.name == self.name)
        };
        let others = Self::all(host)?.into_iter().filter(|(other, loan)| other != at && is_same(loan));
        Ok(others.map(|(other, _)| other).collect())
    }

    /// The record of a link of the host whose attachment has lost its namespace.
    pub fn of_lost(link: &Link, host: &mut dyn Host) -> Result<Option<Self>, Error> {
        let has_alias = |loan: &Self| link.alias.as_deref() == Some(loan.name.as_str());
        let is_lost = |loan: &Self| loan.is_hardware() && loan.name != link.name && loan.is(link) && has_alias(loan);
        Ok(Self::all(host)?.into_iter().map(|(_, loan)| loan).find(is_lost))
    }
}

/// The name of the bridge or bond that a link of the host is a port of.
pub fn master_of(link: &Link, host: &mut dyn Host) -> Result<Option<IfName>, Error> {
    let Some(index) = link.master else { return Ok(None) };
    let master = host.link_by_index(Ns::Host, index)?.filter(takes_ports);
    master.map(|master| IfName::parse(&master.name)).transpose()
}

/// Whether links become ports of a link by `IFLA_MASTER`. Those of Open vSwitch do not: the kernel takes them out when they are moved.
pub fn takes_ports(master: &Link) -> bool {
    master.kind.as_deref().is_some_and(|kind| ["bridge", "bond", "team", "vrf", "batadv"].contains(&kind))
}

/// The properties of a link that a container cannot choose.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LinkIdentity {
    /// `IFLA_INFO_KIND`
    pub kind: Option<String>,
    /// The device of hardware, by its bus and its address there.
    pub device: Option<String>,
    /// The address that hardware was made with.
    pub permanent_mac: Option<String>,
    /// The other end of the link.
    pub other_end: Option<OtherEnd>,
}

impl LinkIdentity {
    /// Asks the kernel about a link.
    pub fn observe(ns: Ns, link: &Link, host: &mut dyn Host) -> Result<Self, Error> {
        Ok(Self {
            kind: link.kind.clone(),
            device: link.parent_device.clone(),
            permanent_mac: link.permanent_mac.as_ref().map(ToString::to_string),
            other_end: if link.kind.is_some() { host.devices().other_end(ns, link)? } else { None },
        })
    }

    /// Examines the former other end of the link. The kernel does not reuse indices of the host.
    pub fn former_end(&self, host: &mut dyn Host) -> Result<FormerEnd, Error> {
        let place = self.other_end.filter(|end| end.netns.is_none()).and_then(|end| end.index);
        let Some(index) = place else { return Ok(FormerEnd::Unknown) };
        Ok(host.link_by_index(Ns::Host, index)?.map_or(FormerEnd::Unknown, |_| FormerEnd::InPlace))
    }
}

/// Whether the former other end of the link is still in its place on the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormerEnd {
    /// It is, so the link that leads to it exists as well.
    InPlace,
    /// The host does not have it, or cannot see it.
    Unknown,
}

/// Whether a link is proven to be the one that ADD moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// It is that one, or one that does the same.
    Proven,
    /// It may be that one, or one that the container has made.
    Unproven,
    /// It is another one.
    Refuted,
}

/// Links that pass packets to nobody: a new one is as good as the old one.
const INERT: [&str; 3] = ["dummy", "ifb", "vcan"];

/// Compares a link with the record of ADD.
///
/// A tap device and a WireGuard tunnel are never proven: they lead to a process, or over a socket, of the one who made
/// or opened them.
fn judge(recorded: &LinkIdentity, found: &LinkIdentity, former_end: FormerEnd) -> Proof {
    if recorded.kind != found.kind || recorded.device != found.device {
        return Proof::Refuted;
    }
    let Some(kind) = found.kind.as_deref().filter(|_| found.device.is_none()) else {
        return judge_hardware(recorded, found);
    };
    // A tunnel leads to the namespace that it was made in. There the kernel does not say so.
    let leads_to = recorded.other_end.unwrap_or_default();
    match found.other_end {
        _ if INERT.contains(&kind) => Proof::Proven,
        Some(end) if end == leads_to => Proof::Proven,
        _ if former_end == FormerEnd::InPlace => Proof::Refuted,
        _ => Proof::Unproven,
    }
}

/// Compares hardware. The ports of one card may have one device, but each has its own address. A container cannot make
/// a link without a kind; before Linux 5.6 nothing else can be compared.
fn judge_hardware(recorded: &LinkIdentity, found: &LinkIdentity) -> Proof {
    if recorded.permanent_mac == found.permanent_mac { Proof::Proven } else { Proof::Unproven }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_kind(kind: &str, other_end: Option<(u32, Option<i32>)>) -> LinkIdentity {
        let other_end = other_end.map(|(index, netns)| OtherEnd { index: Some(index), netns });
        LinkIdentity { kind: Some(kind.to_owned()), other_end, ..LinkIdentity::default() }
    }

    fn tunnel(kind: &str) -> LinkIdentity {
        LinkIdentity { other_end: Some(OtherEnd::default()), ..of_kind(kind, None) }
    }

    fn hardware(device: Option<&str>, permanent_mac: Option<&str>) -> LinkIdentity {
        let [device, permanent_mac] = [device, permanent_mac].map(|text| text.map(str::to_owned));
        LinkIdentity { device, permanent_mac, ..LinkIdentity::default() }
    }

    #[test]
    fn each_link_that_root_in_a_container_can_make_is_decided() {
        use Proof::{Proven, Refuted, Unproven};
        let (on_host, beyond) = (Some((7, None)), Some((7, Some(3))));
        let (card, mac) = (Some("pci/0000:05:00.0"), Some("02:00:00:00:00:0a"));
        let cases = [
            ("the card", hardware(card, mac), hardware(card, mac), [Proven; 2]),
            ("another port of it", hardware(card, mac), hardware(card, Some("02:00:00:00:00:0b")), [Unproven; 2]),
            ("another card", hardware(card, mac), hardware(Some("usb/1-1"), mac), [Refuted; 2]),
            ("a simulated radio", hardware(None, None), hardware(Some("platform/hwsim0"), None), [Refuted; 2]),
            ("a card on Linux 5.6", hardware(None, mac), hardware(None, mac), [Proven; 2]),
            ("another card on Linux 5.6", hardware(None, mac), hardware(None, None), [Unproven; 2]),
            ("a card on an older one", hardware(None, None), hardware(None, None), [Proven; 2]),
            ("a veth for a card", hardware(card, mac), of_kind("veth", None), [Refuted; 2]),
            ("the veth", of_kind("veth", on_host), of_kind("veth", on_host), [Proven; 2]),
            ("the veth to elsewhere", of_kind("veth", beyond), of_kind("veth", beyond), [Proven; 2]),
            ("a veth inside", of_kind("veth", on_host), of_kind("veth", None), [Refuted, Unproven]),
            ("a veth of another namespace", of_kind("veth", on_host), of_kind("veth", beyond), [Refuted, Unproven]),
            ("a veth for another", of_kind("veth", on_host), of_kind("veth", Some((8, None))), [Refuted, Unproven]),
            ("a veth, and nothing known", of_kind("veth", None), of_kind("veth", None), [Refuted, Unproven]),
            ("the macvlan", of_kind("macvlan", on_host), of_kind("macvlan", on_host), [Proven; 2]),
            ("a macvlan on a link inside", of_kind("macvlan", on_host), of_kind("macvlan", None), [Refuted, Unproven]),
            ("a vlan for a macvlan", of_kind("macvlan", on_host), of_kind("vlan", on_host), [Refuted; 2]),
            ("the vxlan", of_kind("vxlan", None), tunnel("vxlan"), [Proven; 2]),
            ("a vxlan made inside", of_kind("vxlan", None), of_kind("vxlan", None), [Refuted, Unproven]),
            ("any tap", of_kind("tun", None), of_kind("tun", None), [Refuted, Unproven]),
            ("a tap for a veth", of_kind("veth", on_host), of_kind("tun", None), [Refuted; 2]),
            ("any wireguard", of_kind("wireguard", None), of_kind("wireguard", None), [Refuted, Unproven]),
            ("any dummy", of_kind("dummy", None), of_kind("dummy", None), [Proven; 2]),
            ("a bridge for a dummy", of_kind("dummy", None), of_kind("bridge", None), [Refuted; 2]),
        ];
        for (what, recorded, found, want) in cases {
            let verdicts = [FormerEnd::InPlace, FormerEnd::Unknown].map(|end| judge(&recorded, &found, end));
            assert_eq!(verdicts, want, "{what}");
        }
    }
}
