//! The keys of the dummy plugin, checked before anything is done.

use cni_core::error::Error;
use cni_core::fail;
use cni_core::request::Request;
use cni_core::result::Dns;
use cni_interface::keys::IpamKey;
use serde::Deserialize;

/// A configuration that can be carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The IPAM plugin.
    pub ipam: String,
    /// Name resolution, instead of the IPAM plugin's.
    pub dns: Dns,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Keys {
    ipam: IpamKey,
    dns: Dns,
}

impl Config {
    /// Reads and checks every key.
    pub fn load(request: &Request) -> Result<Self, Error> {
        let Keys { ipam, dns } = request.decode()?;
        let ipam = ipam.plugin();
        // A dummy link without addresses is of no use.
        Ok(Self {
            ipam: ipam.ok_or_else(|| fail!(InvalidConfig, "dummy interface requires an IPAM configuration"))?,
            dns,
        })
    }
}
