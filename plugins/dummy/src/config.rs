//! The keys of the dummy plugin, checked before anything is done.

use cni_core::error::{Code, Error, Failure};
use cni_core::request::Request;
use cni_core::result::Dns;
use cni_interface::keys::IpamKey;
use serde::Deserialize;

/// The configuration has no IPAM plugin; a dummy link without addresses is of no use.
#[derive(Debug, thiserror::Error)]
#[error("dummy interface requires an IPAM configuration")]
pub struct NoIpamError;

impl Failure for NoIpamError {
    fn code(&self) -> Code {
        Code::InvalidConfig
    }
}

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
        Ok(Self { ipam: ipam.plugin().ok_or(NoIpamError)?, dns })
    }
}
