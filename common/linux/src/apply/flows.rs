//! Deletes tracked connections that still lead to an old address.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::IpAddr;

use cni_core::error::Error;
use cni_model::plan::Ns;
use cni_netfilter::flows::StaleFlows;

use crate::machine::LinuxHost;
use cni_kernel::conntrack::Conntrack;
use cni_kernel::netlink::{NetlinkError, Socket};

mod size;

use size::TableSize;

/// Deletes stale entries. The kernel drops them by itself when a client falls silent, so a failure is logged, with the
/// reference's text, and does not fail the step.
pub(super) fn forget(host: &mut LinuxHost, stale: &StaleFlows) {
    let container = stale.container();
    if let Err(error) = delete(host, stale) {
        let details = error.details();
        log::warn!("failed to delete stale UDP conntrack entries for {container}: {error}: {details}");
    }
}

fn delete(host: &mut LinuxHost, stale: &StaleFlows) -> Result<(), Error> {
    let (mut conntrack, socket) = (Conntrack::open()?, host.socket(Ns::Host)?);
    match TableSize::observe() {
        Some(TableSize { entries: 0, .. }) => Ok(()),
        Some(size) if delete_unseen(&mut conntrack, socket, stale, size)? => Ok(()),
        Some(_) | None => delete_listed(&mut conntrack, socket, stale),
    }
}

/// Deletes by filters, if the kernel's filters can express what is stale and that is less work than listing all.
fn delete_unseen(
    conntrack: &mut Conntrack,
    socket: &mut Socket,
    stale: &StaleFlows,
    size: TableSize,
) -> Result<bool, Error> {
    match stale.filters(|| socket.local_networks(stale.family()))? {
        Some(filters) if size.favours_deletions(filters.len()) => Ok(conntrack.delete_all(&filters)?),
        Some(_) | None => Ok(false),
    }
}

/// Lists the entries for all ports at once; each destination address is looked up once.
fn delete_listed(conntrack: &mut Conntrack, socket: &mut Socket, stale: &StaleFlows) -> Result<(), Error> {
    let possible =
        conntrack.udp(&stale.filter(), |flow| stale.contain(flow, |_| Ok::<_, Infallible>(true)) == Ok(true))?;
    let mut known: BTreeMap<IpAddr, bool> = BTreeMap::new();
    let mut unwanted = Vec::new();
    for entry in possible {
        let is_local = |address| {
            if let Some(local) = known.get(&address) {
                return Ok(*local);
            }
            let local = socket.is_local(address)?;
            known.insert(address, local);
            Ok::<_, NetlinkError>(local)
        };
        if stale.contain(&entry.flow, is_local)? {
            unwanted.push(entry);
        }
    }
    conntrack.delete(&unwanted)?;
    log::debug!("deleted {} stale UDP conntrack entries for {}", unwanted.len(), stale.container());
    Ok(())
}
