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
use cni_netfilter::Backend;
use cni_netfilter::iptables::IptablesTable;
use cni_plugin::host::Host;
use cni_plugin::journal::Journal;
use cni_plugin::missing::MissingPart;
use cni_plugin::plan::{Ns, Step};
use cni_plugin::removal::Removal;
use cni_plugin::run::Plugin;

use crate::config::{Config, Keys};

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
}

impl Failure for PortmapError {
    fn code(&self) -> Code {
        match self {
            Self::NotChained | Self::NoPrevResult => Code::InvalidConfig,
        }
    }

    fn details(&self) -> String {
        match self {
            Self::NotChained | Self::NoPrevResult => {
                "chain portmap behind the plugin that assigns addresses".to_owned()
            }
        }
    }
}

impl Plugin for Portmap {
    fn kind(&self) -> &'static str {
        "portmap"
    }

    fn add(&self, request: &Request, journal: &mut Journal<'_>) -> Result<CniResult, Error> {
        let at = request.attachment()?;
        let prev_result = request.prev_result();
        let targets = told_targets(prev_result.as_ref().ok(), &at);
        let config = load(request, &families(&targets), journal.host())?;
        let prev_result = prev_result?.ok_or(PortmapError::NotChained)?;
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
        let prev_result = logged("prevResult", request.prev_result().map_err(Error::from));
        let targets = told_targets(prev_result.as_ref(), &at);
        let config = logged("its configuration", load(request, &families(&targets), host));
        del::del(host, &at, config.as_ref(), &targets)
    }

    fn check(&self, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
        let (config, at, targets) = told(request, host)?;
        for target in plan::mapped(&config, &targets) {
            if let Some(missing) = missing::observe_missing(host, &config, &at, target)? {
                return Err(missing.into());
            }
        }
        Ok(())
    }

    fn status(&self, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
        let backend = load(request, &[Family::V4], host)?.backend;
        Ok(backend.verify_available(host.netfilter(Ns::Host)?, IptablesTable::Nat)?)
    }

    fn gc(&self, request: &Request, valid: &ValidAttachments, host: &mut dyn Host) -> Result<(), Error> {
        let mut removal = Removal::new(host);
        removal.attempt(|host| gc::gc(host, &request.network, valid));
        removal.attempt(|host| nftables::gc(host, &request.network, valid));
        removal.finish()
    }

    fn find_missing(&self, request: &Request, host: &mut dyn Host) -> Result<Vec<MissingPart>, Error> {
        repair::find_missing(request, host)
    }
}

/// The configuration, with the backend chosen for some families where it names none.
fn load(request: &Request, families: &[Family], host: &mut dyn Host) -> Result<Config, Error> {
    let keys = request.decode::<Keys>()?;
    let in_use: Vec<Family> = families.iter().copied().filter(|family| keys.may_map(*family)).collect();
    Ok(keys.judge(Backend::choose(host.netfilter(Ns::Host)?, in_use))?)
}

/// What ADD was told, and where its ports led.
fn told(request: &Request, host: &mut dyn Host) -> Result<(Config, Attachment, Vec<Cidr>), Error> {
    let at = request.attachment()?;
    let prev_result = request.prev_result();
    let targets = told_targets(prev_result.as_ref().ok(), &at);
    let config = load(request, &families(&targets), host)?;
    prev_result?.ok_or(PortmapError::NoPrevResult)?;
    Ok((config, at, targets))
}

fn told_targets(prev_result: Option<&Option<CniResult>>, at: &Attachment) -> Vec<Cidr> {
    prev_result.and_then(Option::as_ref).map(|result| plan::targets(result, &at.ifname)).unwrap_or_default()
}

fn families(targets: &[Cidr]) -> Vec<Family> {
    targets.iter().map(|target| target.family()).collect()
}

/// Makes way for ours where the reference has been at work before.
fn supersede(host: &mut dyn Host, config: &Config, at: &Attachment, targets: &[Cidr]) -> Result<(), Error> {
    if config.backend == Backend::Iptables {
        return Ok(());
    }
    for target in plan::mapped(config, targets) {
        if let Some(unwanted) = nftables::observe_superseded(host, config, at, target.family())? {
            host.apply(&Step::remove_rules(unwanted))?;
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
    if let Err(error) = host.apply(&Step::ensure_rules(localnet::guard())) {
        let details = error.details();
        log::warn!("containers can reach what listens on the host's loopback: {error}: {details}");
    }
}

#[cfg(test)]
mod tests;
