//! Tells whether a link is the one that ADD moved.
//!
//! Root in a container chooses the name, the alias, the MAC address and the index of every link that it makes, so none
//! of them proves anything. It cannot choose the device of a link, nor the other end that the kernel reports: outside
//! its own namespaces it can make neither the peer of a veth nor a link on a master.

use cni_core::error::Error;
use cni_model::link::{Link, OtherEnd};
use cni_model::plan::Ns;
use cni_plugin::host::Host;
use serde::{Deserialize, Serialize};

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
pub fn judge(recorded: &LinkIdentity, found: &LinkIdentity, former_end: FormerEnd) -> Proof {
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
