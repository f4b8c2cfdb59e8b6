//! The keys `vlan`, `vlanTrunk` and `preserveDefaultVlan`, and their checks.

use std::collections::BTreeSet;

use cni_core::error::{Code, Failure};
use cni_core::names::{IfName, NameError};
use cni_model::vlan::{EarlierVlans, PortVlans, VlanId};
use serde::Deserialize;

/// Errors of the VLAN keys.
#[derive(Debug, thiserror::Error)]
pub enum VlanKeyError {
    /// `vlan` is not a VLAN ID.
    #[error("invalid VLAN ID {id} (must be between 0 and {})", VlanId::LAST)]
    Id { id: i64 },
    /// An element of `vlanTrunk` is null.
    #[error("incorrect trunk parameter: null")]
    TrunkNull { element: usize },
    /// A number in an element of `vlanTrunk` is not a VLAN ID.
    #[error("incorrect trunk {key} parameter")]
    TrunkId { element: usize, key: &'static str, id: i64 },
    /// A range ends before it begins.
    #[error("minID is greater than maxID in trunk parameter")]
    TrunkOrder { element: usize, min: VlanId, max: VlanId },
    /// A range has only one end.
    #[error("minID and maxID should be configured simultaneously, {missing} is missing")]
    TrunkHalf { element: usize, missing: &'static str },
    /// The name of the VLAN's gateway link would be invalid.
    #[error("failed to create vlan interface: failed to create vlan gateway {name:?}")]
    LinkName {
        name: String,
        #[source]
        source: NameError,
    },
}

impl Failure for VlanKeyError {
    fn code(&self) -> Code {
        match self {
            Self::Id { .. }
            | Self::TrunkNull { .. }
            | Self::TrunkId { .. }
            | Self::TrunkOrder { .. }
            | Self::TrunkHalf { .. }
            | Self::LinkName { .. } => Code::InvalidConfig,
        }
    }

    fn details(&self) -> String {
        match self {
            Self::Id { .. } => String::new(),
            Self::TrunkNull { element } | Self::TrunkHalf { element, missing: _ } => format!("vlanTrunk[{element}]"),
            Self::TrunkId { element, key, id } => {
                format!("vlanTrunk[{element}]: {key} {id} must be between 1 and {}", VlanId::LAST)
            }
            Self::TrunkOrder { element, min, max } => format!("vlanTrunk[{element}]: {min} is greater than {max}"),
            Self::LinkName { name, source } => format!("{source}: {name} has {} bytes, and 15 fit", name.len()),
        }
    }
}

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
    pub(crate) fn checked(&self, gateway: Option<&IfName>) -> Result<Vlans, VlanKeyError> {
        let Self { vlan, trunk: elements, earlier } = self;
        let access = match *vlan {
            0 => None,
            id => Some(VlanId::new(id).ok_or(VlanKeyError::Id { id })?),
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

fn gateway_link(bridge: &IfName, vlan: VlanId, earlier: EarlierVlans) -> Result<GatewayLink, VlanKeyError> {
    let name = format!("{bridge}.{vlan}");
    match IfName::parse(&name) {
        Ok(name) => Ok(GatewayLink { name, vlans: PortVlans::new(vlan, BTreeSet::new(), earlier) }),
        Err(source) => Err(VlanKeyError::LinkName { name, source }),
    }
}

/// Every VLAN of a trunk.
fn trunk(elements: &[Option<TrunkKeys>]) -> Result<BTreeSet<VlanId>, VlanKeyError> {
    let mut all = BTreeSet::new();
    for (element, keys) in elements.iter().enumerate() {
        let TrunkKeys { min, max, id } = keys.as_ref().ok_or(VlanKeyError::TrunkNull { element })?;
        let number = |key, id: &Option<i64>| id.map(|id| trunk_id(element, key, id)).transpose();
        match (number("minID", min)?, number("maxID", max)?) {
            (Some(min), Some(max)) if min > max => return Err(VlanKeyError::TrunkOrder { element, min, max }),
            (Some(min), Some(max)) => all.extend(min.through(max)),
            (None, Some(_)) => return Err(VlanKeyError::TrunkHalf { element, missing: "minID" }),
            (Some(_), None) => return Err(VlanKeyError::TrunkHalf { element, missing: "maxID" }),
            (None, None) => {}
        }
        all.extend(number("id", id)?);
    }
    Ok(all)
}

fn trunk_id(element: usize, key: &'static str, id: i64) -> Result<VlanId, VlanKeyError> {
    VlanId::new(id).ok_or(VlanKeyError::TrunkId { element, key, id })
}

#[cfg(test)]
mod tests;
