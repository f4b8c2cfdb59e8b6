//! The bridge plugin: connects a container to a bridge by a veth pair, with addresses from an IPAM plugin, the bridge
//! as gateway, and a masquerade for packets that leave the network.
//!
//! `cni-interface` holds what it shares with other plugins that make interfaces. `config.rs` checks the configuration,
//! `add.rs` and `check.rs` have the commands, and `spoof.rs` has the rules against forged MAC addresses.

use cni_core::error::Error;
use cni_core::request::{Command, Request};
use cni_core::result::CniResult;
use cni_core::valid::ValidAttachments;
use cni_interface::{ipam, leftovers, masquerade};
use cni_plugin::host::Host;
use cni_plugin::journal::Journal;
use cni_plugin::missing::MissingPart;
use cni_plugin::removal::Removal;
use cni_plugin::run::Plugin;
use cni_plugin::share::Share;

use config::{Config, DelKeys};

mod add;
mod check;
mod config;
mod spoof;

/// The plugin.
pub struct Bridge;

impl Plugin for Bridge {
    fn kind(&self) -> &'static str {
        "bridge"
    }

    fn share(&self) -> Share {
        Share::Interface
    }

    fn examine(&self, request: &Request) -> Result<(), Error> {
        Config::load(request).map(drop)
    }

    fn add(&self, request: &Request, journal: &mut Journal<'_>) -> Result<CniResult, Error> {
        add::add(request, journal)
    }

    fn check(&self, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
        check::check(request, host)
    }

    /// Removes the rules before the interface, and both before the addresses are released, which stay reserved if the
    /// interface cannot be searched for or removed. It removes what ADD made, whatever the configuration says by then.
    fn del(&self, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
        let DelKeys { ip_masq, .. } = request.decode()?;
        let at = request.attachment()?;
        let mut removal = Removal::new(host);
        let sandbox = removal.attempt(|host| leftovers::observe_sandbox(request, &at, host));
        let is_known = sandbox.is_some();
        let sandbox = sandbox.unwrap_or_default();
        let has_masquerade =
            ip_masq || matches!(removal.attempt(|host| masquerade::addresses(&at, host)), Some(Some(_)));
        if !has_masquerade {
            removal.attempt(|host| {
                masquerade::remove_made_by_reference(self.kind(), request, &at, &sandbox, host);
                Ok(())
            });
        } else if removal.attempt(|host| masquerade::remove(request, &at, &sandbox, host)).is_some() {
            removal.step(&masquerade::forget(&at));
        }
        ipam::del_with(request, &mut removal, |removal| {
            let removed = removal.attempt(|host| leftovers::remove_veth(&at, &sandbox, host));
            removal.attempt(|host| spoof::remove(&at, host));
            removed.filter(|()| is_known)
        });
        removal.finish()
    }

    fn status(&self, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
        ipam::delegate(config::ipam_plugin(request)?.as_deref(), Command::Status, host)
    }

    /// The comment of a masquerade rule and the alias of a link name their owner, so both are found without a record. The
    /// check of MAC addresses is removed with its link, or after it; the reference's names of the check do not contain
    /// the network. Rules are removed before the IPAM plugin releases their addresses. It is not called if a link cannot
    /// be removed; `dhcp` is called before, since it releases an address by the link.
    fn gc(&self, request: &Request, valid: &ValidAttachments, host: &mut dyn Host) -> Result<(), Error> {
        let network = &request.network;
        let mut removal = Removal::new(host);
        removal.attempt(|host| masquerade::remove_stale(network, valid, host));
        ipam::gc_with(request, &mut removal, |removal| {
            let kept = leftovers::remove_invalid_veths(request, valid, removal);
            removal.attempt(|host| spoof::remove_orphans(network, valid, host));
            kept
        });
        removal.finish()
    }

    fn find_missing(&self, request: &Request, host: &mut dyn Host) -> Result<Vec<MissingPart>, Error> {
        check::find_missing(request, host)
    }
}
