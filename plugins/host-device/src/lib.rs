//! The host-device plugin: moves an interface of the host into the container, and back.
//!
//! `config.rs` says which device, `find.rs` finds its link, `moved_link.rs` records the properties that it had on the host, and tells
//! whether another link is the same one; `give_back.rs` moves it back and restores them.

use std::time::Duration;

use cni_core::error::Error;
use cni_core::fail;
use cni_core::names::{Attachment, IfName};
use cni_core::request::{Command, Request};
use cni_core::result::{CniResult, Interface};
use cni_core::valid::ValidAttachments;
use cni_interface::network::{HostGateway, ResolvedNetwork, described, layer_two};
use cni_interface::{addressing, ipam, naming, verify};
use cni_model::plan::{Dad, LinkMove, LinkSetting, Ns, Plan, Step, Until};
use cni_plugin::attachment_record::AttachmentRecord;
use cni_plugin::host::{Host, LinkQuery};
use cni_plugin::journal::Journal;
use cni_plugin::json_part::JsonPart as _;
use cni_plugin::namespace::{self, Life, OnHost as _};
use cni_plugin::removal::Removal;
use cni_plugin::run::Plugin;
use cni_plugin::share::Share;

use crate::config::Config;
use crate::find::FoundLink;
use crate::give_back::give_back;
use crate::moved_link::{LinkIdentity, MovedLink, master_of};

mod config;
mod find;
mod give_back;
mod moved_link;

/// The plugin.
pub struct HostDevice;

impl Plugin for HostDevice {
    fn kind(&self) -> &'static str {
        "host-device"
    }

    fn share(&self) -> Share {
        Share::Interface
    }

    /// Finds the link, records its properties, moves it, and then calls the IPAM plugin: one that asks the network for
    /// addresses needs the interface.
    fn add(&self, request: &Request, journal: &mut Journal<'_>) -> Result<CniResult, Error> {
        let config = Config::load(request)?;
        let at = request.attachment()?;
        let netns = request.netns().unwrap_or_default();
        journal.host().enter(netns)?;
        let Some(target) = find::resolve(&config, journal.host().devices())? else {
            let interface =
                Interface { name: at.ifname.to_string(), sandbox: netns.to_owned(), ..Interface::default() };
            let network = ask_for_addresses(&config, request, journal)?;
            return Ok(answer(&config, network, interface));
        };
        let found = find::find(&target, journal.host())?;
        naming::refuse_pattern(MAKING, &at.ifname)?;
        naming::refuse_taken(MAKING, &at.ifname, journal.host())?;
        return_earlier(&found, &at, netns, journal)?;
        take(&found, &at, netns, journal)?;
        let network = ask_for_addresses(&config, request, journal)?;
        if let Some(network) = &network {
            let mut plan = Plan::default();
            addressing::assign(&mut plan, &at.ifname, network, Dad::Perform, &[]);
            for cidr in network.addresses() {
                journal.undo_first(Step::RemoveAddress { ns: Ns::Container, name: at.ifname.clone(), cidr });
            }
            journal.apply(&plan)?;
        }
        let link = verify::present(Ns::Container, &at.ifname, journal.host())?;
        Ok(answer(&config, network, described(&link, netns)))
    }

    /// Moves the link back to the host before its addresses are released, which stay reserved if that fails. The configured
    /// device does not matter: it may be unplugged.
    fn del(&self, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
        let at = request.attachment()?;
        let mut removal = Removal::new(host);
        // The configuration may no longer ask for the link that is recorded.
        let recorded = removal.attempt(|host| MovedLink::read(&at, host)).flatten();
        let has_link =
            recorded.is_some() || removal.attempt(|host| Ok(may_have_link(request, host))).unwrap_or_default();
        ipam::del_with(request, &mut removal, |removal| {
            if has_link { removal.attempt(|host| give_back(&at, Some(request), host)) } else { Some(()) }
        });
        removal.finish()
    }

    /// Verifies that the link is in the container as ADD left it.
    fn check(&self, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
        let config = Config::load(request)?;
        let netns = request.netns().unwrap_or_default();
        host.enter(netns)?;
        let target = find::resolve(&config, host.devices())?;
        ipam::delegate(config.ipam.as_deref(), Command::Check, host)?;
        let result = verify::prev_result(request)?;
        if target.is_none() {
            return Ok(());
        }
        let name = request.attachment()?.ifname;
        let reported = verify::interface_of_result(&result, &name, netns)?;
        let link = verify::present(Ns::Container, &name, host)?;
        verify::mac(&link, reported)?;
        verify::up(Ns::Container, &link)?;
        verify::addresses_and_routes(&result, &link, host)
    }

    /// Checks the configuration, and asks the IPAM plugin. The device may be in a container at the moment.
    fn status(&self, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
        let config = Config::load(request)?;
        ipam::delegate(config.ipam.as_deref(), Command::Status, host)
    }

    /// Moves the links of attachments that are not valid back to the host, and runs GC of the IPAM plugin if none of them stays.
    fn gc(&self, request: &Request, valid: &ValidAttachments, host: &mut dyn Host) -> Result<(), Error> {
        let mut removal = Removal::new(host);
        ipam::gc_with(request, &mut removal, |removal| {
            removal.attempt(|host| give_all_back(request, valid, host)).map(|()| Vec::new())
        });
        removal.finish()
    }
}

/// The operation in error messages.
const MAKING: &str = "move link";

/// The place of the interface in the result, which has no other.
const INTERFACE: i64 = 0;

fn ask_for_addresses(
    config: &Config,
    request: &Request,
    journal: &mut Journal<'_>,
) -> Result<Option<ResolvedNetwork>, Error> {
    let Some(plugin) = &config.ipam else { return Ok(None) };
    let answer = ipam::add(plugin, request, journal)?;
    Ok(Some(ResolvedNetwork::decide(answer, HostGateway::None, INTERFACE, &config.dns)?))
}

fn answer(config: &Config, network: Option<ResolvedNetwork>, interface: Interface) -> CniResult {
    let reported = network.map_or_else(|| layer_two(&config.dns), |network| network.result);
    CniResult { interfaces: vec![interface], ..reported }
}

/// How long an earlier namespace of the container is waited for: the kernel ends it, and gives hardware back, in the background. A socket of
/// the daemon of `dhcp`, which prolongs a lease, keeps it for up to five seconds.
const PATIENCE: Duration = Duration::from_secs(8);

/// Moves another link back that an earlier ADD of the attachment has moved: its record is about to be replaced. The record of the attachment
/// names this ADD's namespace afterwards, so that DEL looks for the new link there if this ADD is killed.
fn return_earlier(found: &FoundLink, at: &Attachment, netns: &str, journal: &mut Journal<'_>) -> Result<(), Error> {
    let host = journal.host();
    let Some(loan) = MovedLink::read(at, host)?.filter(|loan| !loan.is(&found.link)) else { return Ok(()) };
    // Where the earlier namespace has ended, the record is that of this ADD.
    let mut earlier = AttachmentRecord::find(at, host);
    if let Some(record) = &earlier
        && record.link.is_none()
        && record.namespace.is_entered(host)?
    {
        earlier = None;
    }
    host.elsewhere(|host| {
        await_end(&loan, earlier.as_ref(), at, host)?;
        give_back(at, None, host)
    })?;
    let Some(AttachmentRecord { maker, .. }) = earlier else { return Ok(()) };
    let Some(namespace) = namespace::of_entered(netns, journal.host())? else { return Ok(()) };
    let written = journal.host().ledger().now();
    let record = AttachmentRecord { at: at.clone(), maker, namespace, link: None, is_again: true, written };
    journal.apply(&Plan::of_owned([record.write()]))
}

/// Waits until the earlier namespace no longer has the link and, for hardware, the kernel has returned it.
fn await_end(
    loan: &MovedLink,
    earlier: Option<&AttachmentRecord>,
    at: &Attachment,
    host: &mut dyn Host,
) -> Result<(), Error> {
    let end = host.ledger().since_boot()? + PATIENCE;
    while host.links(Ns::Host, LinkQuery::Called(&loan.name))?.is_empty() {
        let is_held = match earlier {
            Some(record) => record.life(host) != Life::Dead && (loan.is_hardware() || record.has_interface(host)?),
            None => false,
        };
        let is_late = host.ledger().since_boot()? > end;
        if is_held && is_late {
            let text = format!(
                "{} is still in {}, where an earlier ADD of this container has moved it",
                loan.name, loan.netns
            );
            return Err(fail!(TryAgain, "{text}", details: "DEL moves it back to the host"));
        }
        let is_coming = loan.is_hardware() && find::find_lost(&loan.name, host)?.is_none();
        if is_late || !(is_held || is_coming) {
            break;
        }
        host.apply(&Step::Await { ns: Ns::Host, name: at.ifname.clone(), until: Until::Moment })?;
    }
    Ok(())
}

/// Moves the link into the container, where it may get another index, and sets it up.
fn take(found: &FoundLink, at: &Attachment, netns: &str, journal: &mut Journal<'_>) -> Result<(), Error> {
    let master = master_of(&found.link, journal.host())?;
    let loan = found.earlier.clone().unwrap_or_else(|| MovedLink::of(&found.link, master.as_ref()));
    let evidence = Some(LinkIdentity::observe(Ns::Host, &found.link, journal.host())?);
    let loan = MovedLink { evidence, netns: netns.to_owned(), ..loan };
    let former = loan.former_borrowers(at, journal.host())?;
    journal.apply(&plan(found, &loan, master.as_ref(), (at, &former))?)?;
    let inside = verify::present(Ns::Container, &at.ifname, journal.host())?;
    let mut moved = MovedLink { index: inside.index, ..loan.clone() };
    if found.earlier.is_none() {
        // A bond gives its ports its own address and MTU.
        let MovedLink { mac, mtu, .. } = MovedLink::of(&inside, None);
        (moved.mac, moved.mtu) = (mac, mtu);
    }
    if moved == loan { Ok(()) } else { journal.apply(&Plan::of_owned([moved.write(at)])) }
}

/// The record comes first: an ADD may be killed at any time. Those of former borrowers go, so that their DEL does not take the
/// link from this container. The kernel would take the link from its bridge and set it down by itself, but what a step does
/// is undone.
fn plan(
    found: &FoundLink,
    loan: &MovedLink,
    master: Option<&IfName>,
    (at, former): (&Attachment, &[Attachment]),
) -> Result<Plan, Error> {
    let name = IfName::parse(&found.link.name)?;
    let mut plan = Plan::default();
    plan.owned(loan.write(at));
    former.iter().for_each(|former| plan.owned(MovedLink::remove(former)));
    if found.link.up {
        plan.owned(Step::set_link(Ns::Host, &name, LinkSetting::Down));
    }
    if master.is_some() {
        plan.owned(Step::set_link(Ns::Host, &name, LinkSetting::NoMaster));
    }
    loan.settings_back(&found.link).for_each(|setting| plan.owned(Step::set_link(Ns::Host, &name, setting)));
    let (index, name) = (found.link.index, found.link.name.clone());
    let (alias, new_name) = (loan.name.clone(), at.ifname.clone());
    plan.owned(Step::MoveLink(LinkMove { from: Ns::Host, index, name, to: Ns::Container, new_name, alias }));
    plan.within(Step::set_link(Ns::Container, &at.ifname, LinkSetting::Up));
    Ok(plan)
}

/// Whether ADD may have moved a link, according to the configuration.
fn may_have_link(request: &Request, host: &mut dyn Host) -> bool {
    let target = Config::load(request).and_then(|config| find::resolve(&config, host.devices()));
    let say = |error: &Error| log::debug!("DEL goes by what it finds: {}", error.in_full());
    target.inspect_err(say).map_or(true, |target| target.is_some())
}

fn give_all_back(request: &Request, valid: &ValidAttachments, host: &mut dyn Host) -> Result<(), Error> {
    let loans = MovedLink::invalid(&request.network, valid, host)?;
    let mut removal = Removal::new(host);
    for (at, _) in loans {
        removal.attempt(|host| give_back(&at, None, host));
    }
    removal.finish()
}
