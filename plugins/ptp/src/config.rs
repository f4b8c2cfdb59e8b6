//! The keys of the ptp plugin, checked before anything is done.

use std::collections::BTreeMap;

use cni_core::error::Error;
use cni_core::request::Request;
use cni_core::result::Dns;
use cni_interface::keys::{self, IpamKey};
use cni_netfilter::Backend;
use serde::Deserialize;
use serde::de::IgnoredAny;

/// A configuration that can be carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Whether packets to other networks get the host's address.
    pub masquerade: bool,
    /// The backend for that; `None` for the one that the host has.
    pub masquerade_backend: Option<Backend>,
    /// MTU of both ends of the veth, in bytes.
    pub mtu: Option<u32>,
    /// The IPAM plugin.
    pub ipam: String,
    /// Name resolution, instead of the IPAM plugin's.
    pub dns: Dns,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Keys {
    ip_masq: bool,
    ip_masq_backend: Option<String>,
    mtu: i64,
    ipam: IpamKey,
    dns: Dns,
    /// Not used by ADD, but a runtime that sends something else than an object is not understood.
    #[serde(rename = "prevResult")]
    _prev_result: BTreeMap<String, IgnoredAny>,
}

impl Config {
    /// Reads and checks every key.
    pub fn load(request: &Request) -> Result<Self, Error> {
        let Keys { ip_masq, ip_masq_backend, mtu, ipam, dns, _prev_result } = request.decode()?;
        Ok(Self {
            masquerade: ip_masq,
            masquerade_backend: keys::masquerade_backend(ip_masq_backend.as_deref())?,
            mtu: keys::mtu(mtu)?,
            ipam: ipam.required("ptp")?,
            dns,
        })
    }
}
