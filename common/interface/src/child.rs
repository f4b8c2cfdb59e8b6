//! A link on a master, inside the container: the shared part of macvlan, vlan and ipvlan.
//!
//! The link is created before the IPAM plugin is called, since dhcp sends its messages through it. If ADD fails, and
//! on DEL, the link is removed before its addresses are released. The dhcp plugin itself takes the addresses from the
//! link.

use cni_core::error::Error;
use cni_core::family::Family;
use cni_core::mac::Mac;
use cni_core::request::{Command, Request};
use cni_core::result::{CniResult, Dns};
use cni_core::valid::ValidAttachments;
use cni_model::link::Link;
use cni_model::plan::{ChildKind, Dad, IfPresent, LinkKind, LinkSetting, MasterLink, NewLink, Ns, Plan, Step};
use cni_plugin::host::Host;
use cni_plugin::journal::Journal;
use cni_plugin::removal::Removal;

use crate::addressing::InterfaceParameter;
use crate::network::{HostGateway, ResolvedNetwork};
use crate::result::{described, layer_two};
use crate::{addressing, ipam, kinds, leftovers, naming, verify};

mod default_route;
mod master;
mod mtu;
mod status;

pub use master::MasterChoice;
pub use mtu::within_master;

/// Parameters by which neighbours that know an address by another MAC address learn of the new one.
pub const NOTIFY: &[InterfaceParameter] = &[
    InterfaceParameter { family: Family::V4, parameter: "arp_notify", value: "1" },
    InterfaceParameter { family: Family::V6, parameter: "ndisc_notify", value: "1" },
];

/// The place of the link in the result, which has no other.
pub const INTERFACE: i64 = 0;

/// A link on a master to be created, except its name and master.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewChild {
    /// The kind of the link.
    pub kind: ChildKind,
    /// Its MAC address; what the kernel decides if none.
    pub mac: Option<Mac>,
    /// Its MTU; that of the master if none.
    pub mtu: Option<u32>,
}

/// Makes a child of a master in the container, under the name that the runtime wants. `making` names it in messages,
/// such as `create macvlan`.
///
/// # Errors
/// For a name that it cannot have, or when the kernel refuses.
pub fn make(
    making: &'static str,
    child: &NewChild,
    master: &MasterLink,
    request: &Request,
    journal: &mut Journal<'_>,
) -> Result<(), Error> {
    let name = request.attachment()?.ifname;
    naming::refuse_pattern(making, &name)?;
    naming::refuse_taken(making, &name, journal.host())?;
    let NewChild { kind, mac, mtu } = child.clone();
    let kind = LinkKind::Child { master: master.clone(), kind };
    let mut plan = Plan::default();
    plan.owned(Step::CreateLink {
        ns: Ns::Container,
        link: NewLink { name, mac, mtu, if_present: IfPresent::Refuse, kind },
    });
    journal.apply(&plan)
}

/// Asks the IPAM plugin for the addresses of an existing link.
///
/// # Errors
/// Those of the IPAM plugin, and for an answer that cannot be applied.
pub fn ask_ipam(
    plugin: &str,
    dns: &Dns,
    request: &Request,
    journal: &mut Journal<'_>,
) -> Result<ResolvedNetwork, Error> {
    let link = verify::present(Ns::Container, &request.attachment()?.ifname, journal.host())?;
    let answer = ipam::add(plugin, request, journal);
    if !ipam::speaks_by_link(plugin) {
        journal.undo_first(Step::RemoveLinkByIndex { ns: Ns::Container, index: link.index });
    }
    ResolvedNetwork::decide(answer?, HostGateway::None, INTERFACE, dns)
}

/// The addresses of a new link.
#[derive(Clone, Debug, PartialEq)]
pub enum Addressing {
    /// Addresses and routes, with these parameters of the interface set before.
    Network(ResolvedNetwork, &'static [InterfaceParameter]),
    /// None, for a network without IPAM.
    None(Dns),
}

/// Gives a link its addresses, sets it up, and answers. Neighbours are on the wire of the master, so an IPv6 address of one
/// of them is found out.
///
/// # Errors
/// When the kernel refuses, or another host has an address.
pub fn finish(addressing: Addressing, request: &Request, journal: &mut Journal<'_>) -> Result<CniResult, Error> {
    let name = request.attachment()?.ifname;
    let mut plan = Plan::default();
    let reported = match addressing {
        Addressing::Network(network, settings) => {
            addressing::assign(&mut plan, &name, &network, Dad::Perform, settings);
            network.result
        }
        Addressing::None(dns) => {
            plan.within(Step::set_link(Ns::Container, &name, LinkSetting::Up));
            layer_two(&dns)
        }
    };
    journal.apply(&plan)?;
    let link = verify::present(Ns::Container, &name, journal.host())?;
    Ok(CniResult { interfaces: vec![described(&link, request.netns().unwrap_or_default())], ..reported })
}

/// CHECK of a child: asks the IPAM plugin, and compares the link with the result of ADD, and by `compare` with the
/// configuration. The master is not looked at: a child without one does not exist.
///
/// # Errors
/// When the IPAM plugin or `compare` fails, or something differs from what ADD made.
pub fn check(
    kind: &'static str,
    ipam: Option<&str>,
    request: &Request,
    host: &mut dyn Host,
    compare: impl FnOnce(&Link) -> Result<(), Error>,
) -> Result<(), Error> {
    let netns = request.netns().unwrap_or_default();
    host.enter(netns)?;
    ipam::delegate(ipam, Command::Check, host)?;
    let result = verify::prev_result(request)?;
    let name = request.attachment()?.ifname;
    let reported = verify::interface_of_result(&result, &name, netns)?;
    let link = verify::present(Ns::Container, &name, host)?;
    verify::kind(&link, kind)?;
    compare(&link)?;
    verify::mac(&link, reported)?;
    verify::up(Ns::Container, &link)?;
    verify::addresses_and_routes(&result, &link, host)
}

/// Carries out STATUS: checks that the kernel can create the link and that the master exists, and asks the IPAM plugin.
pub fn status(kind: &'static str, master: &MasterChoice, ipam: Option<&str>, host: &mut dyn Host) -> Result<(), Error> {
    kinds::require(kind, host)?;
    status::require(master, host)?;
    ipam::delegate(ipam, Command::Status, host)
}

/// Carries out DEL: removes the link, then has the IPAM plugin release its addresses. It needs no key but `ipam`, and a
/// missing object is success.
///
/// # Errors
/// The first failure. Then the addresses are not released, unless the IPAM plugin speaks by the link.
pub fn del(kind: &'static str, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let mut removal = Removal::new(host);
    ipam::del_with(request, &mut removal, |removal| {
        removal.attempt(|host| leftovers::remove_child(kind, request, host))
    });
    removal.finish()
}

/// Carries out GC: removes the links of attachments that are not valid, then has the IPAM plugin release their addresses.
/// A link that cannot be removed keeps its address.
///
/// # Errors
/// The first failure; all is tried.
pub fn gc(kind: &'static str, request: &Request, valid: &ValidAttachments, host: &mut dyn Host) -> Result<(), Error> {
    let mut removal = Removal::new(host);
    ipam::gc_with(request, &mut removal, |removal| leftovers::remove_invalid_children(kind, request, valid, removal));
    removal.finish()
}

#[cfg(test)]
mod tests;
