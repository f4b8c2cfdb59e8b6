//! The keys of the bridge plugin, checked before anything is done.

use std::collections::BTreeMap;

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
use cni_model::vlan::EarlierVlans;
use cni_netfilter::Backend;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::vlan::{TrunkKeys, VlanKeys, Vlans};

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

/// What DEL needs to know: another key that has become invalid must not prevent it from cleaning up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DelConfig {
    /// The IPAM plugin.
    pub ipam: Option<String>,
    /// Whether the configuration asks for masquerade rules, even without an IPAM plugin: a runtime may omit it to keep
    /// the addresses.
    pub masquerade: bool,
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

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct DelKeys {
    ip_masq: bool,
    ipam: keys::IpamKey,
}

impl DelConfig {
    /// Reads the keys that DEL needs.
    pub fn load(request: &Request) -> Result<Self, Error> {
        let DelKeys { ip_masq, ipam } = request.decode()?;
        Ok(Self { masquerade: ip_masq, ipam: ipam.plugin() })
    }
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
        let args = request.args()?;
        let mac = keys.mac(args.mac)?;
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
        let vlans = VlanKeys { vlan: keys.vlan, trunk: keys.vlan_trunk, earlier };
        Ok(Self {
            vlans: vlans.checked(has_gateway.then_some(&bridge))?,
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

impl Keys {
    /// The MAC address to set: the runtime's, else the one in `args`, else the one in `CNI_ARGS`.
    fn mac(&self, in_args: Option<String>) -> Result<Option<Mac>, Error> {
        let given = [
            ("runtimeConfig.mac", self.runtime_config.mac.clone()),
            ("args.cni.mac", self.args.cni.mac.clone()),
            ("CNI_ARGS MAC", in_args.unwrap_or_default()),
        ];
        keys::first_mac("make veth pair", given)
    }
}
