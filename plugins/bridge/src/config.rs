//! The keys of the bridge plugin, checked before anything is done.

use std::collections::{BTreeMap, BTreeSet};

use cni_core::error::Error;
use cni_core::fail;
use cni_core::mac::Mac;
use cni_core::names::IfName;
use cni_core::request::Request;
use cni_core::result::Dns;
use cni_interface::keys;
use cni_interface::naming::is_pattern;
use cni_interface::network::HostGateway;
use cni_model::plan::OtherAddress;
use cni_model::vlan::{EarlierVlans, PortVlans, VlanId};
use cni_netfilter::Backend;
use serde::Deserialize;
use serde::de::IgnoredAny;

/// A configuration that can be carried out.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub bridge: IfName,
    /// How the bridge serves as a gateway.
    pub gateway: HostGateway,
    /// What to do with another address of the bridge.
    pub other_address: OtherAddress,
    /// Whether packets that leave the network get the host's address.
    pub masquerade: bool,
    /// The backend for that; `None` for the one that the host has.
    pub masquerade_backend: Option<Backend>,
    /// Whether frames with another source MAC address than the container's are dropped.
    pub spoof_check: bool,
    /// MTU of the veth, and of the bridge if it is made.
    pub mtu: Option<u32>,
    /// Whether a container may reach itself through the host.
    pub hairpin: bool,
    /// Whether the bridge receives every frame.
    pub promisc: bool,
    /// Whether a container reaches no other isolated port of the bridge.
    pub isolated: bool,
    /// The VLANs of the container.
    pub vlans: Vlans,
    /// The container's MAC address, if not a random one.
    pub mac: Option<Mac>,
    /// Whether duplicate address detection runs for IPv6 addresses.
    pub detect_duplicates: bool,
    /// Whether the container's interface stays down.
    pub leave_down: bool,
    /// The IPAM plugin; none for a network without addresses.
    pub ipam: Option<String>,
    /// Name resolution, instead of the IPAM plugin's.
    pub dns: Dns,
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

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Keys {
    bridge: Option<String>,
    is_gateway: bool,
    is_default_gateway: bool,
    force_address: bool,
    ip_masq: bool,
    ip_masq_backend: Option<String>,
    mtu: i64,
    hairpin_mode: bool,
    promisc_mode: bool,
    vlan: i64,
    vlan_trunk: Option<Vec<Option<TrunkKeys>>>,
    preserve_default_vlan: bool,
    #[serde(rename = "macspoofchk")]
    mac_spoof_check: bool,
    #[serde(rename = "enabledad")]
    enable_dad: bool,
    disable_container_interface: bool,
    port_isolation: bool,
    ipam: keys::IpamKey,
    dns: Dns,
    args: keys::ArgsKey,
    runtime_config: keys::MacKey,
    /// Not used by ADD, but a runtime that sends something else than an object is not understood.
    prev_result: BTreeMap<String, IgnoredAny>,
}

/// An element of `vlanTrunk`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct TrunkKeys {
    #[serde(rename = "minID")]
    min: Option<i64>,
    #[serde(rename = "maxID")]
    max: Option<i64>,
    id: Option<i64>,
}

/// What DEL needs to know: another key that has become invalid must not prevent it from cleaning up.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DelKeys {
    /// Whether the configuration asks for masquerade rules, even without an IPAM plugin: a runtime may omit it to keep
    /// the addresses.
    pub ip_masq: bool,
    #[serde(rename = "ipam")]
    _ipam: keys::IpamKey,
}

/// The IPAM plugin of a configuration, the one key that STATUS needs.
pub fn ipam_plugin(request: &Request) -> Result<Option<String>, Error> {
    let Keys { ipam, .. } = request.decode()?;
    Ok(ipam.plugin())
}

impl Config {
    /// Reads and checks every key, `CNI_ARGS` included.
    pub fn load(request: &Request) -> Result<Self, Error> {
        let keys: Keys = request.decode()?;
        let masquerade_backend = keys::masquerade_backend(keys.ip_masq_backend.as_deref())?;
        let in_args = request.args()?.mac.unwrap_or_default();
        let given = [
            ("runtimeConfig.mac", keys.runtime_config.mac),
            ("args.cni.mac", keys.args.cni.mac),
            ("CNI_ARGS MAC", in_args),
        ];
        let mac = keys::first_mac("make veth pair", given)?;
        let bridge = keys.bridge.unwrap_or_else(|| "cni0".to_owned());
        let bridge = IfName::parse(&bridge)
            .map_err(|error| fail!(InvalidConfig, "failed to create bridge {bridge:?}", details: "{error}"))?;
        let gateway = match (keys.is_default_gateway, keys.is_gateway) {
            (true, _) => HostGateway::DefaultRoute,
            (false, true) => HostGateway::Address,
            (false, false) => HostGateway::None,
        };
        if is_pattern(&bridge) {
            let name = bridge.as_str();
            let text = "the kernel would replace the % with a number";
            return Err(fail!(InvalidConfig, "failed to create bridge {name:?}: {text}"));
        }
        let ipam = keys.ipam.plugin();
        let earlier = if keys.preserve_default_vlan { EarlierVlans::Kept } else { EarlierVlans::Removed };
        let has_gateway = ipam.is_some() && gateway != HostGateway::None;
        Ok(Self {
            vlans: vlans(keys.vlan, keys.vlan_trunk.as_deref(), earlier, has_gateway.then_some(&bridge))?,
            bridge,
            gateway,
            other_address: if keys.force_address { OtherAddress::Replace } else { OtherAddress::Refuse },
            masquerade: keys.ip_masq && ipam.is_some(),
            masquerade_backend,
            spoof_check: keys.mac_spoof_check,
            mtu: keys::mtu(keys.mtu)?,
            hairpin: keys.hairpin_mode,
            promisc: keys.promisc_mode,
            isolated: keys.port_isolation,
            mac,
            detect_duplicates: keys.enable_dad,
            leave_down: keys.disable_container_interface,
            ipam,
            dns: keys.dns,
        })
    }

    /// The link that has the gateway's addresses: the bridge, or the one to the VLAN of the containers.
    pub fn gateway_link(&self) -> &IfName {
        self.vlans.gateway.as_ref().map_or(&self.bridge, |link| &link.name)
    }

    /// Refuses combinations of keys that ADD cannot carry out.
    pub fn for_add(self) -> Result<Self, Error> {
        if self.ipam.is_some() && self.leave_down {
            return Err(fail!(InvalidConfig, "cannot use IPAM when DisableContainerInterface flag is set"));
        }
        if self.hairpin && self.promisc {
            return Err(fail!(InvalidConfig, "cannot set hairpin mode and promiscuous mode at the same time"));
        }
        Ok(self)
    }
}

/// Checks the keys of VLANs, `vlan` first. `gateway` is the bridge, if it shall be the containers' gateway.
fn vlans(
    vlan: i64,
    elements: Option<&[Option<TrunkKeys>]>,
    earlier: EarlierVlans,
    gateway: Option<&IfName>,
) -> Result<Vlans, Error> {
    let access = match vlan {
        0 => None,
        id => Some(VlanId::new(id).ok_or_else(|| {
            let last = VlanId::LAST;
            fail!(InvalidConfig, "invalid VLAN ID {id} (must be between 0 and {last})")
        })?),
    };
    let tagged = trunk(elements.unwrap_or_default())?;
    let in_use = access.is_some() || !tagged.is_empty();
    let gateway = match (gateway, access) {
        (Some(bridge), Some(id)) => Some(gateway_link(bridge, id, earlier)?),
        (Some(_) | None, _) => None,
    };
    Ok(Vlans {
        filtering: access.is_some() || elements.is_some(),
        port: in_use.then(|| PortVlans::new(access.unwrap_or(VlanId::FIRST), tagged, earlier)),
        gateway,
    })
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
pub mod tests;
