//! Giving the host its link back, wherever it is by now: in the container under any name, or on the host under the
//! container's name, after its namespace has ended.

use cni_core::error::Error;
use cni_core::names::{Attachment, IfName};
use cni_interface::naming::is_pattern;
use cni_plugin::host::{Host, LinkQuery, NetnsError};
use cni_plugin::link::Link;
use cni_plugin::plan::{LinkMove, LinkSetting, Ns, Plan, Step};

use crate::find::find_lost;
use crate::loan::{self, Loan};

/// What is known of an attachment when its link is to be given back.
#[derive(Clone, Debug)]
pub struct Borrower<'a> {
    pub at: Attachment,
    /// `CNI_NETNS`; none for the one of ADD.
    pub netns: Option<&'a str>,
    /// The link's name on the host, as the configuration tells it.
    pub configured: Option<&'a str>,
}

/// Gives the link back, if there is one. It is no failure if the link is gone with its namespace, or back already.
///
/// # Errors
/// When the link's name is taken on the host, or the kernel refuses; then the link stays where it is.
pub fn give_back(borrower: &Borrower<'_>, host: &mut dyn Host) -> Result<(), Error> {
    let recorded = Loan::read(&borrower.at, host)?;
    let found = match find_inside(borrower, recorded.as_ref(), host)? {
        Some(found) => Some(found),
        None => find_on_host(borrower, recorded.as_ref(), host)?,
    };
    let is_away = found.is_none() && is_away(recorded.as_ref(), host)?;
    if let Some(Stray { ns, link, loan }) = found {
        let master = host_master(&loan, host)?;
        host.carry_out(&plan(ns, &link, &loan, master.as_ref())?)?;
    } else if let Some(loan) = &recorded {
        restore(loan, host)?;
    }
    if recorded.is_some() && !is_away {
        host.apply(&Step::RemoveRecord { key: loan::key(&borrower.at) })?;
    }
    Ok(())
}

/// Gives a link that is on the host its bridge and its state of before: an ADD was killed before it moved the link, or a
/// DEL after it did.
fn restore(loan: &Loan, host: &mut dyn Host) -> Result<(), Error> {
    let own = IfName::parse(&loan.name)?;
    let Some(link) = host.link(Ns::Host, &own)?.filter(|link| loan.is(link)) else { return Ok(()) };
    let master = if link.master.is_none() { host_master(loan, host)? } else { None };
    let mut plan = Plan::default();
    settle(&mut plan, &own, master.as_ref(), loan.up && !link.up);
    host.carry_out(&plan)
}

/// Whether the kernel may still give a link back: hardware that is nowhere comes when its namespace has ended.
fn is_away(recorded: Option<&Loan>, host: &mut dyn Host) -> Result<bool, Error> {
    match recorded.filter(|loan| loan.is_hardware()) {
        Some(loan) => Ok(host.links(Ns::Host, LinkQuery::Called(&loan.name))?.is_empty()),
        None => Ok(false),
    }
}

/// A link that is not where it belongs.
struct Stray {
    ns: Ns,
    link: Link,
    loan: Loan,
}

/// In the namespace that the runtime names, and else in the one of ADD: the path may lead to another container by now.
fn find_inside(borrower: &Borrower<'_>, recorded: Option<&Loan>, host: &mut dyn Host) -> Result<Option<Stray>, Error> {
    let told = borrower.netns.or(recorded.map(|loan| loan.netns.as_str())).unwrap_or_default();
    if let Some(found) = find_in(told, borrower, recorded, host)? {
        return Ok(Some(found));
    }
    let Some(loan) = recorded.filter(|loan| loan.netns != told) else { return Ok(None) };
    find_in(&loan.netns, borrower, recorded, host)
}

fn find_in(
    netns: &str,
    borrower: &Borrower<'_>,
    recorded: Option<&Loan>,
    host: &mut dyn Host,
) -> Result<Option<Stray>, Error> {
    match host.enter(netns) {
        Ok(()) => {}
        Err(NetnsError::Gone { .. }) => return Ok(None),
        Err(error @ NetnsError::Failed { .. }) => return Err(error.into()),
    }
    let of_name = host.link(Ns::Container, &borrower.at.ifname)?;
    let stray = |(link, loan): (Link, Loan)| Stray { ns: Ns::Container, link, loan };
    let Some(loan) = recorded else { return Ok(by_alias(of_name, host)?.map(stray)) };
    let of_index = host.link_by_index(Ns::Container, loan.index)?;
    let is_by_place = |link: &Link| netns == loan.netns && of_name.as_ref() == Some(link);
    let ours = of_index.filter(|link| loan.is(link) || is_by_place(link));
    Ok(ours.or(of_name.filter(|link| loan.is(link))).map(|link| stray((link, loan.clone()))))
}

/// A link without a record is one that the reference has moved, if its alias is a name, and no other attachment has it.
fn by_alias(link: Option<Link>, host: &mut dyn Host) -> Result<Option<(Link, Loan)>, Error> {
    let Some(link) = link else { return Ok(None) };
    let Some(name) = link.alias.clone().filter(|alias| is_name(alias)) else { return Ok(None) };
    if Loan::all(host)?.iter().any(|(_, loan)| loan.is(&link)) {
        return Ok(None);
    }
    let loan = Loan::by_alias(&link, &name);
    Ok(Some((link, loan)))
}

/// A container may have written anything there.
fn is_name(alias: &str) -> bool {
    IfName::parse(alias).is_ok_and(|name| !is_pattern(&name) && name != IfName::lo())
}

/// The kernel gives hardware back under the name that the container had for it.
fn find_on_host(borrower: &Borrower<'_>, recorded: Option<&Loan>, host: &mut dyn Host) -> Result<Option<Stray>, Error> {
    let Some(name) = recorded.map(|loan| loan.name.as_str()).or(borrower.configured) else { return Ok(None) };
    let known = IfName::parse(name).ok().filter(|_| is_name(name));
    let Some(own) = known.filter(|_| recorded.is_none_or(Loan::is_hardware)) else { return Ok(None) };
    if host.link(Ns::Host, &own)?.is_some() {
        return Ok(None);
    }
    let lost = find_lost(name, host)?.filter(|link| recorded.is_none_or(|loan| loan.is(link)));
    Ok(lost.map(|link| {
        let loan = recorded.cloned().unwrap_or_else(|| Loan::by_alias(&link, name));
        Stray { ns: Ns::Host, link, loan }
    }))
}

/// The bridge or bond that the link was a port of, if it is still there.
fn host_master(loan: &Loan, host: &mut dyn Host) -> Result<Option<IfName>, Error> {
    let Some(name) = loan.master.as_deref().and_then(|name| IfName::parse(name).ok()) else { return Ok(None) };
    Ok(host.link(Ns::Host, &name)?.map(|_| name))
}

/// Gives the link its name, its alias, its bridge and its state of before.
fn plan(ns: Ns, link: &Link, loan: &Loan, master: Option<&IfName>) -> Result<Plan, Error> {
    let (name, own) = (IfName::parse(&link.name)?, IfName::parse(&loan.name)?);
    let mut plan = Plan::default();
    let alias = loan.alias.clone().unwrap_or_default();
    plan.owned(Step::MoveLink(LinkMove { from: ns, name, to: Ns::Host, new_name: own.clone(), alias }));
    settle(&mut plan, &own, master, loan.up);
    Ok(plan)
}

/// Makes a link of the host a port of a bridge or bond, if there is one, and sets it up, if it is to be.
fn settle(plan: &mut Plan, own: &IfName, master: Option<&IfName>, up: bool) {
    if let Some(master) = master {
        plan.owned(Step::set_link(Ns::Host, own, LinkSetting::Master(master.clone())));
    }
    if up {
        plan.owned(Step::set_link(Ns::Host, own, LinkSetting::Up));
    }
}
