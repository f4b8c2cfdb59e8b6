//! The keys `vlan`, `vlanTrunk` and `preserveDefaultVlan`, and their checks.

use std::collections::BTreeSet;

use cni_core::error::Error;
use cni_core::fail;
use cni_core::names::IfName;
use cni_model::vlan::{EarlierVlans, PortVlans, VlanId};
use serde::Deserialize;

/// The configured VLANs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vlans {
    /// Whether a new bridge filters VLANs.
    pub filtering: bool,
    /// The VLANs of the container's port; `None` keeps the kernel's default.
    pub port: Option<PortVlans>,
    /// The link that has the gateway's addresses instead of the bridge.
    pub gateway: Option<GatewayLink>,
}

/// The host's link to the VLAN of the containers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayLink {
    /// `<bridge>.<vlan>`
    pub name: IfName,
    pub vlans: PortVlans,
}

/// The keys as they are written.
pub(crate) struct VlanKeys {
    pub(crate) vlan: i64,
    /// `vlanTrunk`
    pub(crate) trunk: Option<Vec<Option<TrunkKeys>>>,
    /// `preserveDefaultVlan`
    pub(crate) earlier: EarlierVlans,
}

/// An element of `vlanTrunk`.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct TrunkKeys {
    #[serde(rename = "minID")]
    min: Option<i64>,
    #[serde(rename = "maxID")]
    max: Option<i64>,
    id: Option<i64>,
}

impl VlanKeys {
    /// Checks the keys, `vlan` first. `gateway` is the bridge, if it shall be the containers' gateway.
    pub(crate) fn checked(&self, gateway: Option<&IfName>) -> Result<Vlans, Error> {
        let Self { vlan, trunk: elements, earlier } = self;
        let access = match *vlan {
            0 => None,
            id => Some(VlanId::new(id).ok_or_else(|| {
                let last = VlanId::LAST;
                fail!(InvalidConfig, "invalid VLAN ID {id} (must be between 0 and {last})")
            })?),
        };
        let tagged = trunk(elements.as_deref().unwrap_or_default())?;
        let in_use = access.is_some() || !tagged.is_empty();
        let gateway = match (gateway, access) {
            (Some(bridge), Some(id)) => Some(gateway_link(bridge, id, *earlier)?),
            (Some(_) | None, _) => None,
        };
        Ok(Vlans {
            filtering: access.is_some() || elements.is_some(),
            port: in_use.then(|| PortVlans::new(access.unwrap_or(VlanId::FIRST), tagged, *earlier)),
            gateway,
        })
    }
}

fn gateway_link(bridge: &IfName, vlan: VlanId, earlier: EarlierVlans) -> Result<GatewayLink, Error> {
    let name = format!("{bridge}.{vlan}");
    match IfName::parse(&name) {
        Ok(name) => Ok(GatewayLink { name, vlans: PortVlans::new(vlan, BTreeSet::new(), earlier) }),
        Err(error) => {
            let text = format!("failed to create vlan interface: failed to create vlan gateway {name:?}");
            let length = name.len();
            Err(fail!(InvalidConfig, "{text}", details: "{error}: {name} has {length} bytes, and 15 fit"))
        }
    }
}

/// Every VLAN of a trunk.
fn trunk(elements: &[Option<TrunkKeys>]) -> Result<BTreeSet<VlanId>, Error> {
    let mut all = BTreeSet::new();
    for (element, keys) in elements.iter().enumerate() {
        let refused = |text: &str, more: &str| fail!(InvalidConfig, "{text}", details: "vlanTrunk[{element}]{more}");
        let half = |missing| {
            refused(&format!("minID and maxID should be configured simultaneously, {missing} is missing"), "")
        };
        let TrunkKeys { min, max, id } = keys.as_ref().ok_or_else(|| refused("incorrect trunk parameter: null", ""))?;
        let number = |key, id: &Option<i64>| id.map(|id| trunk_id(element, key, id)).transpose();
        match (number("minID", min)?, number("maxID", max)?) {
            (Some(min), Some(max)) if min > max => {
                let text = "minID is greater than maxID in trunk parameter";
                return Err(refused(text, &format!(": {min} is greater than {max}")));
            }
            (Some(min), Some(max)) => all.extend(min.through(max)),
            (None, Some(_)) => return Err(half("minID")),
            (Some(_), None) => return Err(half("maxID")),
            (None, None) => {}
        }
        all.extend(number("id", id)?);
    }
    Ok(all)
}

fn trunk_id(element: usize, key: &str, id: i64) -> Result<VlanId, Error> {
    VlanId::new(id).ok_or_else(|| {
        let details = format!("vlanTrunk[{element}]: {key} {id} must be between 1 and {}", VlanId::LAST);
        fail!(InvalidConfig, "incorrect trunk {key} parameter", details: "{details}")
    })
}

#[cfg(test)]
mod tests;
