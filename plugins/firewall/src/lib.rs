//! The firewall plugin: lets a container's traffic through the host's packet filter.
//!
//! It follows a plugin that assigns addresses, returns that plugin's result, and changes nothing in the container. There is
//! a file for each of ADD, DEL and CHECK; `config.rs` checks the configuration, `locate.rs` finds the back end that holds the rules,
//! `claims.rs` the owners of the rules, `policy.rs` the bridge of an ingress policy, and `iptables.rs` and `nftables.rs` have the rules.

use cni_core::error::Error;
use cni_core::fail;
use cni_core::family::Family;
use cni_core::request::Request;
use cni_core::result::CniResult;
use cni_core::valid::ValidAttachments;
use cni_core::version::Version;
use cni_model::plan::Ns;
use cni_netfilter::Backend;
use cni_netfilter::iptables::IptablesTable;
use cni_plugin::host::Host;
use cni_plugin::journal::Journal;
use cni_plugin::missing::MissingPart;
use cni_plugin::run::Plugin;
use cni_plugin::share::Share;

mod add;
mod check;
mod claims;
mod config;
mod del;
mod iptables;
mod locate;
mod nftables;
mod policy;

use claims::RuleBackend;
use config::Config;
use policy::IngressPolicy;

/// The plugin.
pub struct Firewall;

impl Plugin for Firewall {
    fn kind(&self) -> &'static str {
        "firewall"
    }

    fn versions(&self) -> &'static [Version] {
        Version::SINCE_0_4_0
    }

    fn share(&self) -> Share {
        Share::Rules
    }

    fn examine(&self, request: &Request) -> Result<(), Error> {
        Config::load(request).map(drop)
    }

    fn add(&self, request: &Request, journal: &mut Journal<'_>) -> Result<CniResult, Error> {
        add::add(request, journal)
    }

    fn del(&self, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
        del::del(request, host)
    }

    fn check(&self, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
        check::check(request, host)
    }

    fn gc(&self, request: &Request, valid: &ValidAttachments, host: &mut dyn Host) -> Result<(), Error> {
        del::gc(request, valid, host)
    }

    /// Asks the back end that ADD would use: firewalld, iptables or nf_tables.
    fn status(&self, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
        let config = Config::load(request)?;
        let held_by = locate::choose(&config, [Family::V4], host)?;
        if matches!(held_by, Some(RuleBackend::Firewalld(_))) && !host.firewalld().is_running() {
            let details = "firewalld does not answer on the system bus";
            return Err(fail!(NotAvailable, "backend firewalld is not available", details: "{details}"));
        }
        let backend = match held_by {
            None => return Ok(()),
            Some(RuleBackend::Firewalld(_)) if config.policy == IngressPolicy::Open => return Ok(()),
            Some(RuleBackend::Nftables) => Backend::Nftables,
            Some(RuleBackend::Iptables | RuleBackend::Firewalld(_)) => Backend::Iptables,
        };
        backend.verify_available(host.netfilter(Ns::Host)?, Family::V4, IptablesTable::Filter)
    }

    fn find_missing(&self, request: &Request, host: &mut dyn Host) -> Result<Vec<MissingPart>, Error> {
        check::find_missing(request, host)
    }
}
