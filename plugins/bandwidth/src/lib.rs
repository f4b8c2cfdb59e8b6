//! The bandwidth plugin: limits how fast a container receives and sends, at the host's end of its veth.
//!
//! Packets to the container wait in a token bucket of that link. Packets from the container are redirected to an ifb,
//! a link with its own token bucket. If the runtime decides about limits, most containers have none; then ADD only looks
//! for the ifb of an earlier ADD, by its names.

use std::collections::BTreeSet;

use cni_core::error::Error;
use cni_core::fail;
use cni_core::names::{Attachment, IfName};
use cni_core::request::Request;
use cni_core::result::{CniResult, Interface};
use cni_core::valid::ValidAttachments;
use cni_core::version::Version;
use cni_interface::{alias, naming, verify};
use cni_model::link::Link;
use cni_model::plan::{IfPresent, LinkKind, LinkSetting, NewLink, Ns, Plan, Step};
use cni_model::traffic::{FilterRank, RootQdisc, Shaper};
use cni_plugin::attachment_record::AttachmentRecord;
use cni_plugin::host::{Host, LinkQuery};
use cni_plugin::journal::Journal;
use cni_plugin::namespace::Life;
use cni_plugin::removal::Removal;
use cni_plugin::run::Plugin;
use cni_plugin::share::Share;

use crate::config::{Config, RateLimit, frame};
use crate::links::{IFB, Port};

mod config;
mod links;

/// The plugin.
pub struct Bandwidth;

impl Plugin for Bandwidth {
    fn kind(&self) -> &'static str {
        "bandwidth"
    }

    fn versions(&self) -> &'static [Version] {
        Version::SINCE_0_3_0
    }

    fn share(&self) -> Share {
        Share::Properties
    }

    fn examine(&self, request: &Request) -> Result<(), Error> {
        Config::load(request).map(|_| ())
    }

    /// Limits what the container receives, then what it sends.
    fn add(&self, request: &Request, journal: &mut Journal<'_>) -> Result<CniResult, Error> {
        let config = Config::load(request)?;
        let mut result = links::prev_result(request)?;
        let at = request.attachment()?;
        if config.is_empty() {
            if !links::labelled_ifbs(&at, journal.host())?.is_empty() {
                self.del(request, journal.host())?;
            }
            return Ok(result);
        }
        journal.host().enter(request.netns().unwrap_or_default())?;
        let port = links::require_port(&at.ifname, &result, journal.host())?;
        let mut plan = Plan::default();
        if let Some(limit) = config.ingress {
            plan.owned(set_shaper(&port.name, checked("ingress", limit, port.link.mtu)?));
        }
        let planned = config.egress.map(|limit| {
            let shaper = checked("egress", limit, port.link.mtu)?;
            plan_egress(&mut plan, &at, &port, shaper, journal.host())
        });
        let ifb = planned.transpose()?;
        journal.apply(&plan)?;
        end_unwanted(&config, &at, &port, journal.host())?;
        if let Some(name) = ifb {
            // As the reference lists it.
            let link = verify::present(Ns::Host, &name, journal.host())?;
            let mac = link.mac.map(|mac| mac.to_string()).unwrap_or_default();
            result.interfaces.push(Interface { name: link.name, mac, ..Interface::default() });
        }
        Ok(result)
    }

    /// Removes the limits. It needs neither the configured limits nor the result of ADD, and the namespace may be missing.
    ///
    /// The veth usually still exists, since DEL of its plugin runs later. So the redirect to the ifb is removed before the
    /// ifb: packets would be lost otherwise. The limit on the veth itself is deleted with the veth. DEL removes it earlier
    /// only if the veth is known to be this attachment's: otherwise it may be another container's, or the limit may be the
    /// administrator's.
    fn del(&self, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
        let at = request.attachment()?;
        let mut removal = Removal::new(host);
        let port = removal.attempt(|host| links::find_port(request, &at, host)).flatten();
        for ifb in removal.attempt(|host| links::ifbs_of(&at, port.as_ref(), host)).unwrap_or_default() {
            removal.attempt(|host| links::remove_ifb(&ifb, port.as_ref(), host));
        }
        if let Some(port) = port.filter(|port| port.is_of(&at)) {
            removal.step(&Step::RemoveShaper { ns: Ns::Host, name: port.name });
        }
        removal.finish()
    }

    /// Compares the limits, and verifies that packets pass through them.
    fn check(&self, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
        let config = Config::load(request)?;
        if config.is_empty() {
            return Ok(());
        }
        let result = links::prev_result(request)?;
        let at = request.attachment()?;
        host.enter(request.netns().unwrap_or_default())?;
        let port = links::require_port(&at.ifname, &result, host)?;
        if let Some(limit) = &config.ingress {
            verify_limit(&port.link, limit, port.link.mtu, host)?;
        }
        if let Some(limit) = &config.egress {
            let Some(ifb) = links::ifbs_of(&at, Some(&port), host)?.pop() else {
                let [shared, own] = links::ifb_names(&at)?;
                let details = format!("the host has neither {shared} nor {own}");
                return Err(fail!(CheckFailed, "get ifb device: Link not found", details: "{details}"));
            };
            verify_redirect(&port.link, &ifb, host)?;
            verify::up(Ns::Host, &ifb)?;
            verify_limit(&ifb, limit, port.link.mtu, host)?;
        }
        Ok(())
    }

    /// Checks whether this kernel can carry out the limits. Limits that come from the runtime are not known yet.
    fn status(&self, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
        Config::load(request)?.egress.map_or(Ok(()), |_| verify::known_kind(IFB, host))
    }

    /// Removes the ifbs of attachments that are not valid. The limits of what containers receive are deleted with their
    /// veths.
    fn gc(&self, request: &Request, valid: &ValidAttachments, host: &mut dyn Host) -> Result<(), Error> {
        let kept: Vec<Attachment> = valid.of_network(&request.network).collect();
        let links = host.links(Ns::Host, LinkQuery::Kind(IFB))?;
        let (mut stale, unlabelled): (Vec<Link>, Vec<Link>) = links.into_iter().partition(|link| link.alias.is_some());
        let is_stale = |alias: &String| alias::is_stale(alias, &request.network, &kept);
        stale.retain(|link| link.alias.as_ref().is_some_and(is_stale));
        stale.extend(stale_without_alias(unlabelled, request, kept, host)?);
        let mut removal = Removal::new(host);
        for ifb in stale {
            removal.attempt(|host| links::remove_ifb(&ifb, None, host));
        }
        removal.finish()
    }
}

/// A bucket that a frame fits into: another one would let no large packet pass, and small ones as if all were well.
fn checked(direction: &str, limit: RateLimit, mtu: u32) -> Result<Shaper, Error> {
    let (shaper, frame) = (limit.shaper(mtu), frame(mtu));
    let RateLimit { rate, burst } = limit;
    match shaper.bucket() >= frame {
        true => Ok(shaper),
        false if u64::from(burst) < frame => {
            let (burst, least) = (u64::from(burst) * 8, frame * 8);
            let text = format!("{burst} bits cannot pass a frame of {frame} bytes");
            Err(fail!(InvalidConfig, "{direction}Burst of {text}: {least} bits are needed"))
        }
        false => {
            let rate = u128::from(rate) * 8;
            let text = format!("{rate} bits per second is too low for a frame of {frame} bytes");
            Err(fail!(InvalidConfig, "{direction}Rate of {text}"))
        }
    }
}

/// Plans the limit of sending. The ifb is complete before the first packet is redirected to it.
fn plan_egress(
    plan: &mut Plan,
    at: &Attachment,
    port: &Port,
    shaper: Shaper,
    host: &mut dyn Host,
) -> Result<IfName, Error> {
    let (name, found) = links::choose_ifb(at, port, host)?;
    let mtu = port.link.mtu;
    let alias = alias::of(at);
    if found.is_none() {
        let (mac, kind) = (Some(naming::random_mac(host)), LinkKind::Ifb);
        let link = NewLink { name: name.clone(), mac, mtu: Some(mtu), if_present: IfPresent::Refuse, kind };
        plan.owned(Step::CreateLink { ns: Ns::Host, link });
    }
    let settings = [LinkSetting::Alias(alias), LinkSetting::TxQueueLength(0), LinkSetting::Mtu(mtu), LinkSetting::Up];
    let before = found.unwrap_or_else(|| Link { mtu, tx_queue_length: 1, ..Link::default() });
    for setting in settings.into_iter().filter(|setting| setting.undo(&before, None).is_some()) {
        plan.owned(Step::set_link(Ns::Host, &name, setting));
    }
    plan.owned(set_shaper(&name, shaper));
    plan.owned(Step::AddRedirect { ns: Ns::Host, name: port.name.clone(), to: name.clone(), rank: FilterRank::First });
    Ok(name)
}

fn set_shaper(name: &IfName, shaper: Shaper) -> Step {
    Step::SetShaper { ns: Ns::Host, name: name.clone(), shaper }
}

/// Ends what an earlier ADD of the attachment has limited and this one does not. Nothing takes that back, so it comes last.
fn end_unwanted(config: &Config, at: &Attachment, port: &Port, host: &mut dyn Host) -> Result<(), Error> {
    if config.egress.is_none() {
        for ifb in links::labelled_ifbs(at, host)? {
            links::remove_ifb(&ifb, Some(port), host)?;
        }
    }
    if config.ingress.is_none() && port.is_of(at) {
        host.apply(&Step::RemoveShaper { ns: Ns::Host, name: port.name.clone() })?;
    }
    Ok(())
}

fn verify_redirect(port: &Link, ifb: &Link, host: &mut dyn Host) -> Result<(), Error> {
    if host.devices().traffic_control(Ns::Host, port.index)?.redirects.contains(&ifb.index) {
        return Ok(());
    }
    let (port, ifb) = (&port.name, &ifb.name);
    Err(fail!(CheckFailed, "what the container sends is not limited: nothing leads from {port} to {ifb}"))
}

/// The reference may have made it, so its numbers are fine as well.
fn verify_limit(link: &Link, limit: &RateLimit, mtu: u32, host: &mut dyn Host) -> Result<(), Error> {
    let name = &link.name;
    let found = match host.devices().traffic_control(Ns::Host, link.index)?.root {
        Some(RootQdisc::Shaper(found)) => found,
        // Such as what release 1.5 of the reference made.
        Some(RootQdisc::Other { kind }) => {
            let text = format!("{name} sends by a qdisc of kind {kind}, and not by tbf");
            return Err(fail!(CheckFailed, "Failed to find qdisc: {text}"));
        }
        None => return Err(fail!(CheckFailed, "Failed to find qdisc: {name} sends without a limit")),
    };
    if found == limit.wrapped_shaper() {
        return Ok(());
    }
    verify_numbers(name, &found, &limit.shaper(mtu))
}

fn verify_numbers(link: &str, found: &Shaper, wanted: &Shaper) -> Result<(), Error> {
    for (what, found, wanted) in [
        ("Rate", found.rate, wanted.rate),
        ("Limit", found.limit.into(), wanted.limit.into()),
        ("Buffer", found.buffer.into(), wanted.buffer.into()),
    ] {
        if found != wanted {
            let text = format!("{link} has {found}, and {wanted} was configured");
            return Err(fail!(CheckFailed, "{what} doesn't match: {text}"));
        }
    }
    Ok(())
}

/// The ifbs of the reference that no packets are redirected to. The reference sets no alias, so their network is
/// unknown; but an ifb with such a name and without packets from any veth is of use to no network, unless an ADD in another network has
/// just made it.
fn stale_without_alias(
    mut links: Vec<Link>,
    request: &Request,
    mut kept: Vec<Attachment>,
    host: &mut dyn Host,
) -> Result<Vec<Link>, Error> {
    links.retain(links::has_ifb_name);
    if links.is_empty() {
        return Ok(links);
    }
    let used: BTreeSet<u32> = links::redirects(host)?.into_iter().flat_map(|(_, targets)| targets).collect();
    for record in AttachmentRecord::all(host.ledger())? {
        if record.at.network != request.network && record.life(host) != Life::Dead {
            kept.push(record.at);
        }
    }
    let names = kept.iter().map(links::ifb_names).collect::<Result<Vec<_>, _>>()?.concat();
    links.retain(|link| !used.contains(&link.index) && names.iter().all(|name| name.as_str() != link.name));
    Ok(links)
}
