//! The firewall plugin: lets a container's traffic through the host's filter.
//!
//! It is chained behind a plugin that assigns addresses, passes that plugin's result through, and never
//! enters the container. `config.rs` judges the configuration, `keepers.rs` finds out who keeps the rules,
//! `missing.rs` and `repair.rs` look for what others have removed, `nftables.rs` knows the plugin's own table,
//! and `plan.rs` decides; what is done is in its plans.

use cni_core::error::{Code, Error, Failure};
use cni_core::family::Family;
use cni_core::request::Request;
use cni_core::result::CniResult;
use cni_core::valid::ValidAttachments;
use cni_core::version::Version;
use cni_netfilter::Backend;
use cni_netfilter::iptables::IptablesTable;
use cni_plugin::host::Host;
use cni_plugin::journal::Journal;
use cni_plugin::keeper::Keeper;
use cni_plugin::missing::MissingPart;
use cni_plugin::plan::{Ns, Plan};
use cni_plugin::removal::Removal;
use cni_plugin::run::Plugin;

use crate::config::{Config, IngressPolicy, Keys};
use crate::missing::observe_missing;

mod config;
mod keepers;
mod missing;
mod nftables;
mod plan;
mod repair;

/// The plugin.
pub struct Firewall;

/// What the plugin cannot do, or finds.
#[derive(Debug, thiserror::Error)]
enum FirewallError {
    #[error("missing prevResult from earlier plugin")]
    NoPrevResult,
    #[error("backend firewalld is not available")]
    FirewalldAbsent,
}

impl Failure for FirewallError {
    fn code(&self) -> Code {
        match self {
            Self::NoPrevResult => Code::InvalidConfig,
            Self::FirewalldAbsent => Code::NotAvailable,
        }
    }

    fn details(&self) -> String {
        match self {
            Self::NoPrevResult => "chain firewall behind the plugin that assigns addresses".to_owned(),
            Self::FirewalldAbsent => "firewalld does not answer on the system bus".to_owned(),
        }
    }
}

impl Plugin for Firewall {
    fn kind(&self) -> &'static str {
        "firewall"
    }

    fn versions(&self) -> &'static [Version] {
        Version::SINCE_0_4_0
    }

    fn add(&self, request: &Request, journal: &mut Journal<'_>) -> Result<CniResult, Error> {
        let config = Config::try_from(request.decode::<Keys>()?)?;
        let prev_result = request.prev_result()?.ok_or(FirewallError::NoPrevResult)?;
        if prev_result.ips.is_empty() {
            return Ok(prev_result);
        }
        if let Some(keeper) =
            keepers::choose(&config, keepers::families(&plan::addresses(&prev_result)), journal.host())?
        {
            journal.apply(&plan::add(&config, &keeper, &request.attachment()?, &prev_result)?)?;
        }
        Ok(prev_result)
    }

    /// What is to go follows from the addresses; the keys say at most where to look for it.
    fn del(&self, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
        let held = keepers::observe_held(request, &request.attachment()?, host)?;
        carry_out(host, &plan::remove(&held))
    }

    fn check(&self, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
        let config = Config::try_from(request.decode::<Keys>()?)?;
        let prev_result = request.prev_result()?.ok_or(FirewallError::NoPrevResult)?;
        let addresses = plan::addresses(&prev_result);
        for (keeper, addresses) in keepers::observe_kept(&config, &request.attachment()?, &addresses, host)? {
            let wanted = plan::wanted(&config, &keeper, &addresses, &prev_result)?;
            if let Some(missing) = observe_missing(&keeper, &addresses, &wanted, host)? {
                return Err(missing.into());
            }
        }
        Ok(())
    }

    fn status(&self, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
        let config = Config::try_from(request.decode::<Keys>()?)?;
        let keeper = keepers::choose(&config, [Family::V4], host)?;
        if matches!(keeper, Some(Keeper::Firewalld(_))) && !host.firewalld().is_running() {
            return Err(FirewallError::FirewalldAbsent.into());
        }
        let backend = match keeper {
            None => return Ok(()),
            Some(Keeper::Firewalld(_)) if config.policy == IngressPolicy::Open => return Ok(()),
            Some(Keeper::Nftables) => Backend::Nftables,
            Some(Keeper::Iptables | Keeper::Firewalld(_)) => Backend::Iptables,
        };
        Ok(backend.verify_available(host.netfilter(Ns::Host)?, IptablesTable::Filter)?)
    }

    /// The rules name no container, so what was claimed tells whose they are.
    fn gc(&self, request: &Request, valid: &ValidAttachments, host: &mut dyn Host) -> Result<(), Error> {
        let mut claims = host.addresses_owned_in(&request.network)?;
        claims.retain(|(_, owner)| !valid.contains(owner.container.as_str(), Some(owner.ifname.as_str())));
        let held = keepers::observe_claimed(claims, host)?;
        carry_out(host, &plan::remove(&held))
    }

    fn find_missing(&self, request: &Request, host: &mut dyn Host) -> Result<Vec<MissingPart>, Error> {
        repair::find_missing(request, host)
    }
}

/// Removes what addresses have; one whose rules cannot be removed stays claimed.
fn carry_out(host: &mut dyn Host, plans: &[Plan]) -> Result<(), Error> {
    let mut removal = Removal::new(host);
    plans.iter().for_each(|plan| removal.in_order(plan));
    removal.finish()
}

#[cfg(test)]
mod tests;
