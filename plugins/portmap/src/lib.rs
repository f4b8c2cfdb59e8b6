//! The portmap plugin: host ports forwarded to a container.
//!
//! It is chained behind a plugin that assigns addresses, passes that plugin's result through, and never
//! enters the container. `config.rs` judges the configuration and `plan.rs` decides; what is done is in
//! their plans, and in `del.rs` and `gc.rs`. `missing.rs` and `repair.rs` look for what others have removed.

use std::net::IpAddr;

use cni_core::cidr::Cidr;
use cni_core::error::{Code, Error, Failure};
use cni_core::family::Family;
use cni_core::names::{Attachment, IfName};
use cni_core::request::Request;
use cni_core::result::CniResult;
use cni_core::valid::ValidAttachments;
use cni_netfilter::iptables::{IptablesTable, verify_available};
use cni_netfilter::nftables::NftablesError;
use cni_plugin::host::Host;
use cni_plugin::journal::Journal;
use cni_plugin::plan::Step;
use cni_plugin::removal::Removal;
use cni_plugin::repair::Lack;
use cni_plugin::run::Plugin;

use crate::config::{Backend, Config, Keys};

mod config;
mod del;
mod flows;
mod gc;
mod localnet;
mod missing;
mod nftables;
mod plan;
mod repair;

/// The plugin.
pub struct Portmap;

/// What the plugin cannot do, or finds.
#[derive(Debug, thiserror::Error)]
enum PortmapError {
    #[error("must be called as chained plugin")]
    NotChained,
    #[error("Required prevResult missing")]
    NoPrevResult,
    #[error("nf_tables is not available")]
    NotAvailable(#[source] NftablesError),
}

impl Failure for PortmapError {
    fn code(&self) -> Code {
        match self {
            Self::NotChained | Self::NoPrevResult => Code::InvalidConfig,
            Self::NotAvailable(_) => Code::NotAvailable,
        }
    }

    fn details(&self) -> String {
        match self {
            Self::NotChained | Self::NoPrevResult => {
                "chain portmap behind the plugin that assigns addresses".to_owned()
            }
            Self::NotAvailable(source) => format!("{source}: {}", source.details()),
        }
    }
}

impl Plugin for Portmap {
    fn kind(&self) -> &'static str {
        "portmap"
    }

    fn add(&self, request: &Request, journal: &mut Journal<'_>) -> Result<CniResult, Error> {
        let config = load(request, journal.host())?;
        let prev_result = request.prev_result()?.ok_or(PortmapError::NotChained)?;
        let at = request.attachment()?;
        let targets = plan::targets(&prev_result, &at.ifname);
        let link = match plan::localnet_target(&config, &targets) {
            Some(target) => observe_link(journal.host(), target)?,
            None => None,
        };
        if link.is_some() {
            guard_loopback(journal.host());
        }
        supersede(journal.host(), &config, &at, &targets)?;
        let applied = journal.apply(&plan::add(&config, &at, &targets, link.as_ref()));
        applied.map_err(|error| with_unjudged(error, &config))?;
        Ok(prev_result)
    }

    fn del(&self, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
        let at = request.attachment()?;
        let config = logged("its configuration", load(request, host));
        let prev_result = logged("prevResult", request.prev_result().map_err(Error::from)).flatten();
        let targets = prev_result.map(|result| plan::targets(&result, &at.ifname)).unwrap_or_default();
        del::del(host, &at, config.as_ref(), &targets)
    }

    fn check(&self, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
        let config = load(request, host)?;
        let prev_result = request.prev_result()?.ok_or(PortmapError::NoPrevResult)?;
        let at = request.attachment()?;
        for target in plan::mapped(&config, &plan::targets(&prev_result, &at.ifname)) {
            if let Some(missing) = missing::observe_missing(host, &config, &at, target)? {
                return Err(missing.into());
            }
        }
        Ok(())
    }

    fn status(&self, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
        match load(request, host)?.backend {
            Backend::Iptables => Ok(verify_available(host.tables(), IptablesTable::Nat)?),
            Backend::Nftables => Ok(nftables::verify_available(host).map_err(PortmapError::NotAvailable)?),
        }
    }

    fn gc(&self, request: &Request, valid: &ValidAttachments, host: &mut dyn Host) -> Result<(), Error> {
        let mut removal = Removal::new(host);
        removal.attempt(|host| gc::gc(host, &request.network, valid));
        removal.attempt(|host| nftables::gc(host, &request.network, valid));
        removal.finish()
    }

    fn lacks(&self, request: &Request, host: &mut dyn Host) -> Result<Vec<Lack>, Error> {
        repair::lacks(request, host)
    }
}

fn load(request: &Request, host: &mut dyn Host) -> Result<Config, Error> {
    let mut keys = request.decode::<Keys>()?;
    keys.automatic = observe_backend(host);
    Ok(Config::try_from(keys)?)
}

/// The reference's choice, without running anything: iptables before nftables, and iptables if neither is there.
fn observe_backend(host: &mut dyn Host) -> Backend {
    if host.tables().is_installed(Family::V4) || nftables::verify_available(host).is_err() {
        Backend::Iptables
    } else {
        Backend::Nftables
    }
}

/// Makes way for ours where the reference has been at work before.
fn supersede(host: &mut dyn Host, config: &Config, at: &Attachment, targets: &[Cidr]) -> Result<(), Error> {
    if config.backend == Backend::Iptables {
        return Ok(());
    }
    for target in plan::mapped(config, targets) {
        if let Some(unwanted) = nftables::observe_superseded(host, config, at, target.family())? {
            host.apply(&Step::RemoveNftables(unwanted))?;
        }
    }
    Ok(())
}

/// Names what the administrator has written where the backend refuses, which tells of its own input alone.
fn with_unjudged(error: Error, config: &Config) -> Error {
    if [Code::Kernel, Code::Program].contains(&error.code()) {
        return config.unjudged().into_iter().fold(error, Error::with_note);
    }
    error
}

/// What DEL can do without is logged when it is of no use.
fn logged<T>(what: &str, found: Result<T, Error>) -> Option<T> {
    match found {
        Ok(found) => Some(found),
        Err(error) => {
            log::warn!("DEL goes on without {what}: {error}: {}", error.details());
            None
        }
    }
}

fn observe_link(host: &mut dyn Host, target: IpAddr) -> Result<Option<IfName>, Error> {
    match host.route_link(target)? {
        Some(link) => Ok(Some(IfName::parse(&link.name)?)),
        None => {
            log::warn!("there is no route to {target}: its ports are not reached from the host's loopback");
            Ok(None)
        }
    }
}

/// The reference has no such guard, and a host without nf_tables none either.
fn guard_loopback(host: &mut dyn Host) {
    if let Err(error) = host.apply(&Step::EnsureNftables(localnet::guard())) {
        let details = error.details();
        log::warn!("containers can reach what listens on the host's loopback: {error}: {details}");
    }
}

#[cfg(test)]
mod tests;
