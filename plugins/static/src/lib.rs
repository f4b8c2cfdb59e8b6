//! The static IPAM plugin: hands out the addresses of its configuration, and remembers nothing.
//!
//! Nothing of the machine is looked at: `config` reads the addresses of all sources, `check` compares them with
//! the result of ADD.

use cni_core::error::Error;
use cni_core::request::Request;
use cni_core::result::{CniResult, IpConfig};
use cni_plugin::host::Host;
use cni_plugin::journal::Journal;
use cni_plugin::run::Plugin;

mod check;
mod config;

use config::{Config, FixedAddress};

/// The plugin.
pub struct Static;

impl Plugin for Static {
    fn kind(&self) -> &'static str {
        "static"
    }

    fn add(&self, request: &Request, _journal: &mut Journal<'_>) -> Result<CniResult, Error> {
        let Config { addresses, routes, dns } = Config::load(request)?;
        let ips = addresses.into_iter().map(|FixedAddress { cidr, gateway }| IpConfig {
            interface: None,
            address: cidr,
            gateway,
        });
        Ok(CniResult { interfaces: Vec::new(), ips: ips.collect(), routes, dns })
    }

    /// Nothing was reserved.
    fn del(&self, _request: &Request, _host: &mut dyn Host) -> Result<(), Error> {
        Ok(())
    }

    fn check(&self, request: &Request, _host: &mut dyn Host) -> Result<(), Error> {
        check::check(&Config::load(request)?, request)
    }

    fn status(&self, request: &Request, _host: &mut dyn Host) -> Result<(), Error> {
        Config::load(request).map(|_| ())
    }
}

#[cfg(test)]
mod tests;
