//! ADD: returns the configured addresses.

use cni_core::error::Error;
use cni_core::request::Request;
use cni_core::result::{CniResult, IpConfig};
use cni_plugin::journal::Journal;

use crate::config::{Config, FixedAddress};

pub fn add(request: &Request, _journal: &mut Journal<'_>) -> Result<CniResult, Error> {
    let Config { addresses, routes, dns } = Config::load(request)?;
    let ips = addresses.into_iter().map(|FixedAddress { cidr, gateway }| IpConfig {
        interface: None,
        address: cidr,
        gateway,
    });
    Ok(CniResult { interfaces: Vec::new(), ips: ips.collect(), routes, dns })
}
