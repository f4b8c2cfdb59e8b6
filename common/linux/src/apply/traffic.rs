//! Limits and redirects packets.

use cni_core::error::Error;
use cni_core::fail;
use cni_core::names::IfName;
use cni_model::plan::{Ns, Step};
use cni_model::traffic::{FilterRank, RootQdisc, Shaper};

use super::answer::{accept_absent, index, refusal};
use crate::machine::LinuxHost;
use crate::observe::traffic_control;
use cni_kernel::netlink::{FilterPlace, FilterSlot, NetlinkError, ReceiveFilter, Socket};

/// Limits what a link sends; returns the step that takes it back.
pub(super) fn set_shaper(host: &mut LinuxHost, ns: Ns, name: &IfName, shaper: &Shaper) -> Result<Option<Step>, Error> {
    let link = index(host, ns, name)?;
    let socket = host.socket(ns)?;
    let before = match socket.root_qdisc(link)? {
        None => None,
        Some(RootQdisc::Shaper(before)) => Some(before),
        Some(RootQdisc::Other { kind }) => {
            return Err(fail!(
                Conflict,
                "create qdisc: file exists",
                details: "{name} has a root qdisc of kind {kind} that no CNI plugin makes; remove it: tc qdisc del dev {name} root"
            ));
        }
    };
    if before == Some(*shaper) {
        return Ok(None);
    }
    if let Err(refused) = socket.set_shaper(link, shaper) {
        return Err(without_shaper(socket, link, shaper, before, refused));
    }
    let name = name.clone();
    Ok(Some(match before {
        Some(shaper) => Step::SetShaper { ns, name, shaper },
        None => Step::RemoveShaper { ns, name },
    }))
}

/// Removes the limit if it was set although the kernel's answer was lost.
fn without_shaper(
    socket: &mut Socket,
    link: u32,
    shaper: &Shaper,
    before: Option<Shaper>,
    refused: NetlinkError,
) -> Error {
    let is_set = socket.root_qdisc(link).is_ok_and(|root| root == Some(RootQdisc::Shaper(*shaper)));
    let undone = match before {
        _ if !is_set => Ok(()),
        Some(before) => socket.set_shaper(link, &before),
        None => accept_absent(socket.remove_root_qdisc(link)),
    };
    refusal(refused, undone)
}

/// Removes a limit; a missing link has none.
pub(super) fn remove_shaper(host: &mut LinuxHost, ns: Ns, name: &IfName) -> Result<(), Error> {
    let socket = host.socket(ns)?;
    let Some(link) = socket.link(name.as_str())? else { return Ok(()) };
    if let Some(RootQdisc::Shaper(_)) = socket.root_qdisc(link.index)? {
        accept_absent(socket.remove_root_qdisc(link.index))?;
    }
    Ok(())
}

/// Leads what a link receives elsewhere, unless it is so; returns the step that ends it.
pub(super) fn add_redirect(
    host: &mut LinuxHost,
    ns: Ns,
    (name, to): (&IfName, &IfName),
    rank: FilterRank,
) -> Result<Option<Step>, Error> {
    let (link, target) = (index(host, ns, name)?, index(host, ns, to)?);
    let socket = host.socket(ns)?;
    if traffic_control(socket, link)?.redirects.contains(&target) {
        return Ok(None);
    }
    let place = socket.filter_place(link)?;
    if let Err(refused) = redirect(socket, link, target, (place, rank)) {
        let undone = match (place, rank) {
            (Some(_), FilterRank::Last) => remove_filters(socket, link, |filter| filter.redirect == Some(target)),
            (None, _) | (_, FilterRank::First) => end_redirects(socket, link, Some(target)),
        };
        return Err(refusal(refused, undone));
    }
    Ok(Some(Step::RemoveRedirect { ns, name: name.clone(), to: to.clone() }))
}

fn redirect(
    socket: &mut Socket,
    link: u32,
    to: u32,
    (earlier, rank): (Option<FilterPlace>, FilterRank),
) -> Result<(), NetlinkError> {
    if earlier.is_none() {
        socket.add_filter_place(link)?;
    }
    remove_filters(socket, link, is_dead)?;
    let others = socket.receive_filters(link)?;
    let slot = match (rank, earlier) {
        (FilterRank::First, _) => FilterSlot::First,
        (FilterRank::Last, None) => FilterSlot::Last,
        (FilterRank::Last, Some(_)) => FilterSlot::LastInForeignPlace,
    };
    socket.add_redirect(link, (earlier.unwrap_or(FilterPlace::Ingress), slot), &others, to)
}

/// Removes the redirect; a missing link has none.
pub(super) fn remove_redirect(host: &mut LinuxHost, ns: Ns, name: &IfName, to: &IfName) -> Result<(), Error> {
    let socket = host.socket(ns)?;
    let Some(link) = socket.link(name.as_str())? else { return Ok(()) };
    let target = socket.link(to.as_str())?.map(|link| link.index);
    Ok(end_redirects(socket, link.index, target)?)
}

/// Removes redirects, and with the last of them the ingress qdisc. One request removes both: if a second request failed, no later DEL
/// would remove the qdisc. It stays if the priority of a filter shows that it existed before (`FilterSlot::LastInForeignPlace`). A
/// `clsact` stays, since eBPF programs need it.
fn end_redirects(socket: &mut Socket, link: u32, target: Option<u32>) -> Result<(), NetlinkError> {
    let Some(place) = socket.filter_place(link)? else { return Ok(()) };
    let is_unwanted = |filter: &ReceiveFilter| is_dead(filter) || (target.is_some() && filter.redirect == target);
    let all = socket.receive_filters(link)?;
    let (own, others): (Vec<ReceiveFilter>, Vec<ReceiveFilter>) = all.iter().partition(|filter| is_unwanted(filter));
    let is_own_table = |other: &ReceiveFilter| own.iter().any(|filter| other.is_table_of(*filter));
    let was_before = own.iter().any(|filter| filter.is_in_foreign_place());
    if place == FilterPlace::Ingress && !was_before && others.iter().all(is_own_table) {
        return accept_absent(socket.remove_filter_place(link));
    }
    own.into_iter().try_for_each(|filter| accept_absent(socket.remove_receive_filter(link, filter, &all)))
}

/// Whether a filter redirects to a link that no longer exists, so that every packet is lost.
fn is_dead(filter: &ReceiveFilter) -> bool {
    filter.redirect == Some(0)
}

fn remove_filters(
    socket: &mut Socket,
    link: u32,
    condition: impl Fn(&ReceiveFilter) -> bool,
) -> Result<(), NetlinkError> {
    let all = socket.receive_filters(link)?;
    let mut unwanted = all.iter().filter(|filter| condition(filter));
    unwanted.try_for_each(|filter| accept_absent(socket.remove_receive_filter(link, *filter, &all)))
}
