//! Moves a link back to the host, wherever it is: in the container under any name, on the host under the container's name,
//! after the namespace has ended, or in a network namespace that the container has made itself.

use cni_core::error::Error;
use cni_core::fail;
use cni_core::names::{Attachment, IfName};
use cni_core::request::Request;
use cni_interface::leftovers::may_be_in_result;
use cni_interface::naming::is_pattern;
use cni_model::link::Link;
use cni_model::netns::NetnsView;
use cni_model::plan::{LinkMove, LinkSetting, Ns, Plan, Step};
use cni_plugin::attachment_record::{AttachmentRecord, is_entered_by_another, is_of_another};
use cni_plugin::host::{Host, LinkQuery};
use cni_plugin::json_part::JsonPart as _;
use cni_plugin::namespace::Life;

use crate::config::configured_name;
use crate::find::find_lost;
use crate::moved_link::{FormerEnd, LinkIdentity, MovedLink, Proof, takes_ports};

/// A link to be moved back, and the proof that it is the one that ADD moved.
struct LinkToReturn {
    ns: Ns,
    link: Link,
    loan: MovedLink,
    verdict: Proof,
}

/// Moves the link of an attachment back, if there is one. A link that was deleted with its namespace, or moved back already, is success.
///
/// # Errors
/// If the link's name is taken on the host, or the kernel refuses; then the link stays where it is.
pub fn give_back(at: &Attachment, request: Option<&Request>, host: &mut dyn Host) -> Result<(), Error> {
    let recorded = MovedLink::read(at, host)?;
    let mut found = match find_inside(at, request, recorded.as_ref(), host)? {
        Some(found) => Some(found),
        None => find_on_host(request, recorded.as_ref(), host)?,
    };
    if let Some(loan) = recorded.as_ref().filter(|_| found.is_none()) {
        found = find_moved_on(at, loan, host)?;
    }
    let is_away = found.is_none() && is_away(recorded.as_ref(), host)?;
    if let Some(found) = found {
        move_back(found, host)?;
    } else if let Some(loan) = &recorded {
        restore(loan, host)?;
    }
    let ended = recorded.filter(|_| !is_away);
    ended.map_or(Ok(()), |_| host.apply(&MovedLink::remove(at)).map(drop))
}

/// Moves a link to the host, under its recorded name. A link that the container may have made itself is not set up, and gets
/// no bridge.
fn move_back(LinkToReturn { ns, link, loan, verdict }: LinkToReturn, host: &mut dyn Host) -> Result<(), Error> {
    let own = IfName::parse(&loan.name)?;
    let (alias, new_name) = (loan.alias.clone().unwrap_or_default(), own.clone());
    let moved = LinkMove { from: ns, index: link.index, name: link.name.clone(), to: Ns::Host, new_name, alias };
    let way_back = host.apply(&Step::MoveLink(moved))?;
    if verdict != Proof::Proven {
        let place = loan.master.map_or_else(String::new, |master| format!(" and not in {master}"));
        log::warn!("{own} is down{place}: nothing proves that it is the interface that the container was given");
        return Ok(());
    }
    if !is_recorded(&own, &loan, host)? {
        way_back.map(|step| host.apply(&step)).transpose()?;
        // Another link was moved in place of the one that was proven, and is back.
        let text = format!("{} stays in the {ns} namespace", loan.name);
        return Err(fail!(TryAgain, "{text}: another link took its place while it was moved to the host"));
    }
    // The kernel sets a link down that it moves, and takes it from its bridge.
    set_back(&loan, &Link { master: None, up: false, ..link }, &own, host)
}

/// Whether a link that was moved to the host is the recorded one. Its index was the proof before: root in the container may
/// have deleted the link since then, and made another one with this index. On the host it can do that no longer.
fn is_recorded(own: &IfName, loan: &MovedLink, host: &mut dyn Host) -> Result<bool, Error> {
    let Some(link) = host.link(Ns::Host, own)? else { return Ok(false) };
    let found = LinkIdentity::observe(Ns::Host, &link, host)?;
    Ok(loan.evidence.as_ref() == Some(&found))
}

/// Gives a link that is on the host its bridge and its state of before: an ADD was killed before it moved the link, or a
/// DEL after it did.
fn restore(loan: &MovedLink, host: &mut dyn Host) -> Result<(), Error> {
    let own = IfName::parse(&loan.name)?;
    let Some(link) = host.link(Ns::Host, &own)?.filter(|link| loan.is(link)) else { return Ok(()) };
    if loan.verdict(Ns::Host, &link, host)? != Proof::Proven {
        return Ok(());
    }
    set_back(loan, &link, &own, host)
}

/// Whether the kernel may still move the link back: hardware that is not found appears when its namespace has ended.
fn is_away(recorded: Option<&MovedLink>, host: &mut dyn Host) -> Result<bool, Error> {
    match recorded.filter(|loan| loan.is_hardware()) {
        Some(loan) => Ok(host.links(Ns::Host, LinkQuery::Called(&loan.name))?.is_empty()),
        None => Ok(false),
    }
}

/// Finds the link in the namespace that the runtime names, or else in the one of ADD: the path may lead to another
/// container by now.
fn find_inside(
    at: &Attachment,
    request: Option<&Request>,
    recorded: Option<&MovedLink>,
    host: &mut dyn Host,
) -> Result<Option<LinkToReturn>, Error> {
    let reported = request.and_then(Request::netns).or(recorded.map(|loan| loan.netns.as_str())).unwrap_or_default();
    if let Some(found) = find_in(reported, at, request, recorded, host)? {
        return Ok(Some(found));
    }
    let Some(loan) = recorded.filter(|loan| loan.netns != reported) else { return Ok(None) };
    find_in(&loan.netns, at, request, recorded, host)
}

fn find_in(
    netns: &str,
    at: &Attachment,
    request: Option<&Request>,
    recorded: Option<&MovedLink>,
    host: &mut dyn Host,
) -> Result<Option<LinkToReturn>, Error> {
    if !host.enter_if_exists(netns)? {
        return Ok(None);
    }
    if request.and_then(Request::netns) != Some(netns) && is_entered_by_another(at, host)? {
        return Ok(None);
    }
    let of_name = host.link(Ns::Container, &at.ifname)?;
    let Some(loan) = recorded else { return by_alias(of_name, at, request, host) };
    let of_index = host.link_by_index(Ns::Container, loan.index)?;
    let is_by_place = |link: &Link| netns == loan.netns && of_name.as_ref() == Some(link);
    let ours = of_index.filter(|link| loan.is(link) || is_by_place(link));
    let found = ours.or(of_name.filter(|link| loan.is(link)));
    found.map_or(Ok(None), |link| judged(Ns::Container, link, loan.clone(), host))
}

/// The link, unless it is another one, which stays where it is.
fn judged(ns: Ns, link: Link, loan: MovedLink, host: &mut dyn Host) -> Result<Option<LinkToReturn>, Error> {
    let verdict = loan.verdict(ns, &link, host)?;
    if verdict == Proof::Refuted {
        let (link, name) = (&link.name, &loan.name);
        log::warn!("{link} stays in the {ns} namespace: it is not {name}, which the container was given");
        return Ok(None);
    }
    Ok(Some(LinkToReturn { ns, link, loan, verdict }))
}

/// A link without a record is one that the reference has moved, if its alias is a name, the result of ADD does not speak against it, and no
/// other attachment has it.
fn by_alias(
    link: Option<Link>,
    at: &Attachment,
    request: Option<&Request>,
    host: &mut dyn Host,
) -> Result<Option<LinkToReturn>, Error> {
    let Some(link) = link else { return Ok(None) };
    let Some(name) = link.alias.as_deref().and_then(parse_alias) else { return Ok(None) };
    // The VLANs of one link have one MAC address, and keep their indices.
    let is_of = |loan: &MovedLink| loan.is(&link) && (link.kind.is_none() || loan.index == link.index);
    if MovedLink::all(host)?.iter().any(|(_, loan)| is_of(loan)) {
        return Ok(None);
    }
    // The container cannot change the permanent address; hardware alone has one.
    let with_own_mac = Link { mac: link.permanent_mac.clone(), ..link.clone() };
    let mut is_in_result = |link: &Link| request.map_or(Ok(true), |request| may_be_in_result(link, request, at, host));
    if !(is_in_result(&link)? || link.permanent_mac.is_some() && is_in_result(&with_own_mac)?) {
        log::warn!("{} stays in the container: the result of ADD speaks of another interface", link.name);
        return Ok(None);
    }
    let loan = MovedLink::by_alias(&link, name.as_str());
    judged(Ns::Container, link, loan, host)
}

/// The interface name in an alias; a container may have set any text.
fn parse_alias(alias: &str) -> Option<IfName> {
    IfName::parse(alias).ok().filter(|name| !is_pattern(name) && *name != IfName::lo())
}

/// Finds the link on the host. The kernel moves hardware back under the name that it had in the container.
fn find_on_host(
    request: Option<&Request>,
    recorded: Option<&MovedLink>,
    host: &mut dyn Host,
) -> Result<Option<LinkToReturn>, Error> {
    let configured = || request.and_then(configured_name);
    let Some(name) = recorded.map(|loan| loan.name.clone()).or_else(configured) else { return Ok(None) };
    let may_be_here = recorded.is_none_or(MovedLink::is_hardware);
    let Some(own) = parse_alias(&name).filter(|_| may_be_here) else { return Ok(None) };
    if host.link(Ns::Host, &own)?.is_some() {
        return Ok(None);
    }
    let Some(link) = find_lost(&name, host)? else { return Ok(None) };
    let loan = recorded.cloned().unwrap_or_else(|| MovedLink::by_alias(&link, own.as_str()));
    if loan.is(&link) { judged(Ns::Host, link, loan, host) } else { Ok(None) }
}

/// Looks for a link, which is neither in its container nor on the host, in all namespaces of the machine but those that are
/// recorded for other containers. Only hardware and one end of a veth can be told from the links of others there. Once the
/// container's own namespace has ended, or is no longer recorded since a DEL has succeeded, the link is left where it is: plugins of
/// others may have given it to another container since, and these record nothing. Logs a warning if there is no such link.
fn find_moved_on(at: &Attachment, loan: &MovedLink, host: &mut dyn Host) -> Result<Option<LinkToReturn>, Error> {
    if !host.links(Ns::Host, LinkQuery::Called(&loan.name))?.is_empty() {
        return Ok(None);
    }
    if let Some(evidence) = loan.evidence.as_ref()
        && may_live(at, host)
        && exists(evidence, host)?
    {
        let own = host.namespaces().identity(Ns::Host)?;
        for view in host.namespaces().survey(evidence.kind.as_deref()).iter().filter(|view| view.identity != own) {
            if let Some(found) = find_in_view(view, at, (loan, evidence), host)? {
                return Ok(Some(found));
            }
        }
    }
    let hope = if loan.is_hardware() { "; the kernel gives it back when the namespace that has it ends" } else { "" };
    log::warn!("{} is not given back: it is neither in the container nor on the host{hope}", loan.name);
    Ok(None)
}

/// Whether the namespace in which the container got the link may live.
fn may_live(at: &Attachment, host: &mut dyn Host) -> bool {
    AttachmentRecord::find(at, host).is_some_and(|record| record.life(host) != Life::Dead)
}

/// Whether it is certain that the link exists, and that it can be recognized.
fn exists(evidence: &LinkIdentity, host: &mut dyn Host) -> Result<bool, Error> {
    Ok(match evidence.kind.as_deref() {
        None => evidence.device.is_some() || evidence.permanent_mac.is_some(),
        Some("veth") => evidence.former_end(host)? == FormerEnd::InPlace,
        Some(_) => false,
    })
}

fn find_in_view(
    view: &NetnsView,
    at: &Attachment,
    (loan, evidence): (&MovedLink, &LinkIdentity),
    host: &mut dyn Host,
) -> Result<Option<LinkToReturn>, Error> {
    let index = evidence.other_end.and_then(|end| end.index);
    let may_be = |link: &&Link| {
        let leads_there = link.kind.is_none() || link.peer == index;
        link.kind == evidence.kind && link.parent_device == evidence.device && leads_there
    };
    for seen in view.links.iter().filter(may_be) {
        let Some(path) = host.enter_view(view)? else { return Ok(None) };
        if is_of_another(at, host)? {
            return Ok(None);
        }
        let Some(link) = host.link_by_index(Ns::Container, seen.index)? else { continue };
        let verdict = loan.verdict(Ns::Container, &link, host)?;
        if verdict == Proof::Proven {
            log::warn!("the container has moved {} on: it is given back from {path}", loan.name);
            return Ok(Some(LinkToReturn { ns: Ns::Container, link, loan: loan.clone(), verdict }));
        }
    }
    Ok(None)
}

/// Gives a link of the host, as it is now, its MTU and its address of before, makes it a port of its bridge or bond, if there is one, and
/// sets it up if it was up. Not every driver allows the former, and the link is of use all the same.
fn set_back(loan: &MovedLink, now: &Link, own: &IfName, host: &mut dyn Host) -> Result<(), Error> {
    for setting in loan.settings_back(now) {
        let step = Step::set_link(Ns::Host, own, setting);
        if let Err(error) = host.apply(&step) {
            log::warn!("could not be set back: {step}: {}", error.in_full());
        }
    }
    let master = if now.master.is_none() { host_master(loan, host)? } else { None };
    let up = (loan.up && !now.up).then_some(LinkSetting::Up);
    let settings = master.map(LinkSetting::Master).into_iter().chain(up);
    host.carry_out(&Plan::of_owned(settings.map(|setting| Step::set_link(Ns::Host, own, setting))))
}

/// The bridge or bond that the link was a port of, if it still exists.
fn host_master(loan: &MovedLink, host: &mut dyn Host) -> Result<Option<IfName>, Error> {
    let Some(name) = loan.master.as_deref().and_then(|name| IfName::parse(name).ok()) else { return Ok(None) };
    Ok(host.link(Ns::Host, &name)?.filter(takes_ports).map(|_| name))
}
