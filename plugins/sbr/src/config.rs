//! The keys of the sbr plugin.

use std::net::IpAddr;

use cni_core::cidr::parse_ip;
use cni_core::error::Error;
use cni_core::fail;
use cni_core::family::Family;
use cni_core::request::Request;
use serde::Deserialize;

/// The checked configuration.
pub struct Config {
    /// The table of the administrator; `None` if the plugin chooses and fills one.
    pub table: Option<u32>,
    /// Gateways in place of those in `prevResult`, at most one of each family.
    pub gateways: Vec<IpAddr>,
    /// Whether routes on the link stay in the main table, with a source address.
    pub add_source_hints: bool,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Keys {
    table: Option<i64>,
    gateways: Vec<String>,
    add_source_hints: bool,
}

impl Config {
    /// Reads every key.
    pub fn load(request: &Request) -> Result<Self, Error> {
        let Keys { table, gateways, add_source_hints } = request.decode()?;
        let checked = |table: i64| {
            let number = u32::try_from(table).ok().filter(|number| *number != 0);
            number.ok_or_else(|| fail!(InvalidConfig, "invalid table {table} (must be between 1 and 4294967295)"))
        };
        let gateways: Vec<IpAddr> = gateways.into_iter().map(gateway).collect::<Result<_, _>>()?;
        for family in Family::ALL {
            if gateways.iter().filter(|gateway| Family::of(**gateway) == family).count() > 1 {
                return Err(fail!(InvalidConfig, "gateways has more than one IP{family} address"));
            }
        }
        Ok(Self { table: table.map(checked).transpose()?, gateways, add_source_hints })
    }
}

fn gateway(text: String) -> Result<IpAddr, Error> {
    let found = parse_ip(&text).filter(|address| !address.is_unspecified() && !address.is_multicast());
    found.ok_or_else(|| {
        fail!(InvalidConfig, "invalid gateway {text:?} in gateways: it must be the IP address of a router")
    })
}
