//! The keys of the vrf plugin.

use cni_core::error::Error;
use cni_core::fail;
use cni_core::names::IfName;
use cni_core::request::Request;
use serde::Deserialize;

/// A VRF that is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Its name.
    pub name: IfName,
    /// Its table; none for one that the plugin chooses.
    pub table: Option<u32>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Keys {
    vrfname: String,
    table: u32,
}

impl Config {
    /// Reads and checks every key.
    pub fn load(request: &Request) -> Result<Self, Error> {
        let Keys { vrfname, table } = request.decode()?;
        let name = IfName::parse(&vrfname).map_err(|_| {
            let details = format!("vrfname {vrfname:?} is no name of a link");
            fail!(InvalidConfig, "configuration is expected to have a valid vrf name", details: "{details}")
        })?;
        Ok(Self { name, table: Some(table).filter(|table| *table != 0) })
    }
}
