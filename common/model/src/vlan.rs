//! The VLANs of a bridge port: those that it has, and those that it should have.
//!
//! The native VLAN of a port is the one of untagged frames, in both directions; frames of the others carry a tag.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::RangeInclusive;

use cni_core::mac::Mac;
use cni_core::names::IfName;

/// The number of a VLAN: IEEE 802.1Q leaves 1 to 4094 for use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct VlanId(u16);

impl VlanId {
    /// The first VLAN, which the kernel gives to a port without a configured one: `vlan_default_pvid` of the bridge.
    pub const FIRST: Self = Self(1);
    /// The last VLAN.
    pub const LAST: Self = Self(4094);

    /// Takes the number of a VLAN; `None` for any other.
    pub fn new(number: impl TryInto<u16>) -> Option<Self> {
        let id = Self(number.try_into().ok()?);
        (Self::FIRST..=Self::LAST).contains(&id).then_some(id)
    }

    /// The number.
    pub const fn number(self) -> u16 {
        self.0
    }

    /// The VLANs from this one to another, both included.
    pub fn through(self, last: Self) -> impl Iterator<Item = Self> {
        (self.0..=last.0).map(Self)
    }
}

impl fmt::Display for VlanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A VLAN that a bridge port takes part in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BridgeVlan {
    /// Which one.
    pub id: VlanId,
    /// Whether received untagged frames belong to this VLAN.
    pub pvid: bool,
    /// Whether frames of this VLAN are sent untagged.
    pub untagged: bool,
}

/// What happens to the VLANs that a port already has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EarlierVlans {
    /// They are taken away.
    #[default]
    Removed,
    /// They stay, one that is repeated with other flags.
    Kept,
}

/// The VLANs that a port is to take part in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortVlans {
    /// The VLAN of frames without a tag.
    pub native: VlanId,
    /// Those of frames with a tag: ranges in ascending order that do not touch, without the native one.
    pub tagged: Vec<RangeInclusive<VlanId>>,
    /// What to do with the former VLANs.
    pub earlier: EarlierVlans,
}

/// A veth pair on the host that connects the host itself to one VLAN of a bridge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VlanLink {
    /// The host's end.
    pub name: IfName,
    /// Its address.
    pub mac: Mac,
    /// The end that is a port of the bridge.
    pub port: IfName,
    /// The port's address.
    pub port_mac: Mac,
    /// The bridge; the pair gets its MTU.
    pub bridge: IfName,
    /// The VLANs of the port.
    pub vlans: PortVlans,
}

impl PortVlans {
    /// Makes the VLANs of a port. The native VLAN is untagged, even if it is also among the tagged.
    pub fn new(native: VlanId, mut tagged: BTreeSet<VlanId>, earlier: EarlierVlans) -> Self {
        tagged.remove(&native);
        Self { native, tagged: ranges(&tagged), earlier }
    }

    /// The first VLAN that a port lacks or has in another way: `found` are those that it has.
    pub fn first_missing(&self, found: &[BridgeVlan]) -> Option<VlanId> {
        let is_native = |vlan: &BridgeVlan| vlan.id == self.native && vlan.pvid && vlan.untagged;
        if !found.iter().any(is_native) {
            return Some(self.native);
        }
        let tagged: BTreeSet<VlanId> = found.iter().filter(|vlan| !vlan.untagged).map(|vlan| vlan.id).collect();
        self.tagged.iter().flat_map(|range| range.start().through(*range.end())).find(|id| !tagged.contains(id))
    }
}

/// Consecutive numbers as ranges.
fn ranges(ids: &BTreeSet<VlanId>) -> Vec<RangeInclusive<VlanId>> {
    let mut ranges: Vec<RangeInclusive<VlanId>> = Vec::new();
    for &id in ids {
        match ranges.last_mut() {
            Some(range) if range.end().0 + 1 == id.0 => *range = *range.start()..=id,
            _ => ranges.push(id..=id),
        }
    }
    ranges
}

impl fmt::Display for PortVlans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.earlier == EarlierVlans::Kept {
            f.write_str("also ")?;
        }
        write!(f, "{} pvid untagged", self.native)?;
        self.tagged.iter().try_for_each(|range| match (range.start(), range.end()) {
            (first, last) if first == last => write!(f, ", {first}"),
            (first, last) => write!(f, ", {first}-{last}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vlan(id: u16, native: bool) -> BridgeVlan {
        BridgeVlan { id: VlanId(id), pvid: native, untagged: native }
    }

    fn port(native: u16, tagged: &[u16]) -> PortVlans {
        PortVlans::new(VlanId(native), tagged.iter().copied().map(VlanId).collect(), EarlierVlans::Removed)
    }

    #[test]
    fn a_vlan_has_a_number_that_a_tag_can_hold() {
        for number in [-1, 0, 4095, 4096, 65537, i64::MAX] {
            assert_eq!(VlanId::new(number), None, "{number}");
        }
        assert_eq!((VlanId::new(1_i64), VlanId::new(4094_u32)), (Some(VlanId::FIRST), Some(VlanId::LAST)));
    }

    #[test]
    fn consecutive_vlans_are_one_range() {
        assert_eq!(port(1, &[30, 20, 22, 21, 4094]).to_string(), "1 pvid untagged, 20-22, 30, 4094");
        assert_eq!(PortVlans::new(VlanId(5), BTreeSet::new(), EarlierVlans::Kept).to_string(), "also 5 pvid untagged");
    }

    #[test]
    fn the_native_vlan_is_never_tagged() {
        assert_eq!(port(21, &[20, 21, 22]).to_string(), "21 pvid untagged, 20, 22");
    }

    #[test]
    fn the_first_vlan_that_is_missing_is_reported() {
        let wanted = port(5, &[20, 21]);
        let missing = |found: &[BridgeVlan]| wanted.first_missing(found).map(VlanId::number);
        assert_eq!(missing(&[vlan(5, true), vlan(20, false), vlan(21, false), vlan(30, false)]), None);
        assert_eq!(missing(&[vlan(5, true), vlan(21, false)]), Some(20));
        assert_eq!(missing(&[vlan(5, true), vlan(20, false)]), Some(21));
        assert_eq!(missing(&[vlan(20, false), vlan(21, false)]), Some(5));
        assert_eq!(missing(&[vlan(5, false), vlan(20, false), vlan(21, false)]), Some(5));
        let untagged_trunk = BridgeVlan { untagged: true, ..vlan(20, false) };
        assert_eq!(missing(&[vlan(5, true), untagged_trunk, vlan(21, false)]), Some(20));
    }
}
