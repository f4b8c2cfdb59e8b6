//! Plugins that make one link inside the container: macvlan, vlan and ipvlan on a master, dummy and tap without one.
//!
//! All but dummy create the link before the IPAM plugin is called, since dhcp sends its messages through it. If ADD fails, and
//! on DEL, the link is removed before its addresses are released. The dhcp plugin itself takes the addresses from the
//! link.

use std::marker::PhantomData;

use cni_core::error::Error;
use cni_core::family::Family;
use cni_core::mac::Mac;
use cni_core::names::IfName;
use cni_core::request::{Command, Request};
use cni_core::result::{CniResult, Dns};
use cni_core::valid::ValidAttachments;
use cni_model::link::Link;
use cni_model::plan::{Dad, LinkKind, Ns, Plan, Step};
use cni_plugin::host::Host;
use cni_plugin::journal::Journal;
use cni_plugin::removal::Removal;
use cni_plugin::run::Plugin;
use cni_plugin::share::Share;

use crate::addressing::{self, InterfaceParameter};
use crate::network::{HostGateway, ResolvedNetwork, described, layer_two};
use crate::{ipam, leftovers, naming, verify};

mod master;

pub use master::{MasterChoice, within_master};

/// Parameters by which neighbours that know an address by another MAC address learn of the new one.
pub const NOTIFY: &[InterfaceParameter] = &[
    InterfaceParameter { family: Family::V4, parameter: "arp_notify", value: "1" },
    InterfaceParameter { family: Family::V6, parameter: "ndisc_notify", value: "1" },
];

/// The checked configuration of a plugin, with what is specific to its links.
pub trait ChildConfig: Sized + 'static {
    /// The `type` in configurations.
    const TYPE: &'static str;

    /// The kernel's word for the links.
    const LINK: &'static str = Self::TYPE;

    /// Reads and checks every key.
    fn load(request: &Request) -> Result<Self, Error>;

    /// The IPAM plugin, if there is one.
    fn ipam(&self) -> Option<&str>;

    /// Carries out ADD.
    fn add(self, request: &Request, journal: &mut Journal<'_>) -> Result<CniResult, Error>;

    /// Compares the link with the configuration, for CHECK. The master is not looked at, and may be missing from the configuration: a link
    /// without one does not exist.
    fn compare(&self, _link: &Link) -> Result<(), Error> {
        Ok(())
    }

    /// Compares what the link leads to with the result of ADD, as the last part of CHECK.
    fn compare_network(&self, result: &CniResult, link: &Link, host: &mut dyn Host) -> Result<(), Error> {
        verify::addresses_and_routes(result, link, host)
    }

    /// Requires, for STATUS, that the link can be created.
    fn require_parts(&self, host: &mut dyn Host) -> Result<(), Error> {
        verify::known_kind(Self::LINK, host)
    }
}

/// The plugin of such a configuration.
pub struct ChildPlugin<C>(PhantomData<fn() -> C>);

impl<C> ChildPlugin<C> {
    /// The plugin.
    pub const NEW: Self = Self(PhantomData);
}

impl<C: ChildConfig> Plugin for ChildPlugin<C> {
    fn kind(&self) -> &'static str {
        C::TYPE
    }

    fn share(&self) -> Share {
        Share::Interface
    }

    fn examine(&self, request: &Request) -> Result<(), Error> {
        C::load(request).map(drop)
    }

    fn add(&self, request: &Request, journal: &mut Journal<'_>) -> Result<CniResult, Error> {
        C::load(request)?.add(request, journal)
    }

    /// Removes the link, then has the IPAM plugin release its addresses; while the link is still there only one that speaks by it does. It
    /// needs no key but `ipam`.
    fn del(&self, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
        let mut removal = Removal::new(host);
        ipam::del_with(request, &mut removal, |removal| {
            removal.attempt(|host| leftovers::remove_child(C::LINK, request, host))
        });
        removal.finish()
    }

    fn check(&self, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
        let config = C::load(request)?;
        let netns = request.netns().unwrap_or_default();
        host.enter(netns)?;
        ipam::delegate(config.ipam(), Command::Check, host)?;
        let result = verify::prev_result(request)?;
        let name = request.attachment()?.ifname;
        let reported = verify::interface_of_result(&result, &name, netns)?;
        let link = verify::present(Ns::Container, &name, host)?;
        verify::kind(&link, C::LINK)?;
        config.compare(&link)?;
        verify::mac(&link, reported)?;
        verify::up(Ns::Container, &link)?;
        config.compare_network(&result, &link, host)
    }

    fn status(&self, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
        let config = C::load(request)?;
        config.require_parts(host)?;
        ipam::delegate(config.ipam(), Command::Status, host)
    }

    /// Removes the links of attachments that are not valid, then has the IPAM plugin release their addresses. A link that
    /// cannot be removed keeps its address.
    fn gc(&self, request: &Request, valid: &ValidAttachments, host: &mut dyn Host) -> Result<(), Error> {
        let mut removal = Removal::new(host);
        ipam::gc_with(request, &mut removal, |removal| {
            leftovers::remove_invalid_children(C::LINK, request, valid, removal)
        });
        removal.finish()
    }
}

/// Creates a link in the container, under the name that the runtime wants. `making` names it in messages, such as `create
/// macvlan`.
///
/// # Errors
/// For a name that it cannot have, or when the kernel refuses.
pub fn make(
    making: &'static str,
    kind: LinkKind,
    mac: Option<Mac>,
    mtu: Option<u32>,
    request: &Request,
    journal: &mut Journal<'_>,
) -> Result<(), Error> {
    let name = request.attachment()?.ifname;
    naming::refuse_pattern(making, &name)?;
    naming::refuse_taken(making, &name, journal.host())?;
    let mut plan = Plan::default();
    plan.owned(naming::create(name, kind, mac, mtu));
    journal.apply(&plan)
}

/// Asks the IPAM plugin for the addresses of an existing link. A network without one has no addresses.
///
/// # Errors
/// Those of the IPAM plugin, and for an answer that cannot be applied.
pub fn ask_ipam(
    plugin: Option<&str>,
    dns: &Dns,
    request: &Request,
    journal: &mut Journal<'_>,
) -> Result<ResolvedNetwork, Error> {
    let Some(plugin) = plugin else {
        return Ok(ResolvedNetwork { result: layer_two(dns), ..ResolvedNetwork::default() });
    };
    let link = verify::present(Ns::Container, &request.attachment()?.ifname, journal.host())?;
    let answer = ipam::add(plugin, request, journal);
    if !ipam::speaks_by_link(plugin) {
        journal.undo_first(Step::RemoveLinkByIndex { ns: Ns::Container, index: link.index });
    }
    resolve(answer?, dns)
}

/// Addresses and routes for a link whose gateways are not on the host. It is the only one in the result.
///
/// # Errors
/// If no interface can have them.
pub fn resolve(answer: CniResult, dns: &Dns) -> Result<ResolvedNetwork, Error> {
    ResolvedNetwork::decide(answer, HostGateway::None, 0, dns)
}

/// Gives a link its addresses, sets it up, and answers. The parameters are set for a link with addresses. Neighbours are on
/// the wire of the master, so an IPv6 address of one of them is found out.
///
/// # Errors
/// When the kernel refuses, or another host has an address.
pub fn finish(
    network: ResolvedNetwork,
    parameters: &[InterfaceParameter],
    request: &Request,
    journal: &mut Journal<'_>,
) -> Result<CniResult, Error> {
    let name = request.attachment()?.ifname;
    let parameters = if network.result.ips.is_empty() { &[] } else { parameters };
    let mut plan = Plan::default();
    addressing::assign(&mut plan, &name, &network, Dad::Perform, parameters);
    journal.apply(&plan)?;
    answer(&name, network, request, journal)
}

/// The result of ADD, with the link as it is now.
pub fn answer(
    name: &IfName,
    network: ResolvedNetwork,
    request: &Request,
    journal: &mut Journal<'_>,
) -> Result<CniResult, Error> {
    let link = verify::present(Ns::Container, name, journal.host())?;
    Ok(CniResult { interfaces: vec![described(&link, request.netns().unwrap_or_default())], ..network.result })
}
