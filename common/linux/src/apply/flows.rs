//! Deletes tracked connections that still lead to an old address.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::IpAddr;

use cni_core::error::Error;
use cni_core::family::Family;
use cni_model::plan::{Ns, Sysctl};
use cni_netfilter::flows::{Flow, FlowFilter, StaleFlows};

use crate::machine::LinuxHost;
use cni_kernel::conntrack::Conntrack;
use cni_kernel::netlink::{NetlinkError, Socket};
use cni_kernel::sysctl;

/// The kernel goes through its whole table for each filter, and once for a listing, in which it also locks every bucket. So many filters take
/// about as long.
const FEW_FILTERS: usize = 128;

/// For each filter the kernel looks at every connection. So many looks take about as long as a listing.
const FEW_LOOKS: u64 = 40_000;

impl LinuxHost {
    /// Deletes the tracked connections that are stale by the changes of several containers' ports. The kernel's table is
    /// listed at most once for each family, which looks at every bucket of it. The kernel drops stale entries by itself
    /// when a client falls silent, so a failure is logged, with the reference's text.
    pub fn forget_flows(&mut self, all: &[StaleFlows]) {
        if let Err(error) = delete(self, all) {
            let containers: Vec<String> = all.iter().map(|stale| stale.container().to_string()).collect();
            let (containers, details) = (containers.join(", "), error.details());
            log::warn!("failed to delete stale UDP conntrack entries for {containers}: {error}: {details}");
        }
    }
}

fn delete(host: &mut LinuxHost, all: &[StaleFlows]) -> Result<(), Error> {
    let count = connections();
    if count == Some(0) {
        return Ok(());
    }
    let (mut conntrack, socket) = (Conntrack::open()?, host.socket(Ns::Host)?);
    let mut listed = Vec::new();
    for stale in all {
        let is_deleted = delete_unseen(&mut conntrack, socket, stale, count)?;
        listed.extend((!is_deleted).then_some(stale));
    }
    for family in Family::ALL {
        let of_family: Vec<_> = listed.iter().copied().filter(|stale| stale.family() == family).collect();
        if let Some(filter) = StaleFlows::common_filter(&of_family) {
            delete_listed(&mut conntrack, socket, &filter, &of_family)?;
        }
    }
    Ok(())
}

/// The number of connections of the namespace; `None` if it cannot be read.
fn connections() -> Option<u64> {
    let read = sysctl::read(&Sysctl::fixed(&["net", "netfilter", "nf_conntrack_count"]));
    read.inspect_err(|error| log::debug!("failed to read the number of connections: {error}")).ok()??.parse().ok()
}

/// Deletes by filters, if the kernel's filters can express what is stale, and it has few connections to look at.
fn delete_unseen(
    conntrack: &mut Conntrack,
    socket: &mut Socket,
    stale: &StaleFlows,
    count: Option<u64>,
) -> Result<bool, Error> {
    let looks = |filters: usize| u64::try_from(filters).ok()?.checked_mul(count?);
    match stale.filters(|| socket.local_networks(stale.family()))? {
        Some(filters)
            if filters.len() <= FEW_FILTERS && looks(filters.len()).is_some_and(|looks| looks <= FEW_LOOKS) =>
        {
            Ok(conntrack.delete_all(&filters)?)
        }
        Some(_) | None => Ok(false),
    }
}

/// Lists the entries for all ports at once; each destination address is looked up once.
fn delete_listed(
    conntrack: &mut Conntrack,
    socket: &mut Socket,
    filter: &FlowFilter,
    all: &[&StaleFlows],
) -> Result<(), Error> {
    let may_be_stale =
        |flow: &Flow| all.iter().any(|stale| stale.contain(flow, |_| Ok::<_, Infallible>(true)) == Ok(true));
    let possible = conntrack.udp(filter, may_be_stale)?;
    let mut known: BTreeMap<IpAddr, bool> = BTreeMap::new();
    let mut unwanted = Vec::new();
    for entry in possible {
        let mut is_local = |address| {
            if let Some(local) = known.get(&address) {
                return Ok(*local);
            }
            let local = socket.is_local(address, None)?;
            known.insert(address, local);
            Ok::<_, NetlinkError>(local)
        };
        for stale in all {
            if stale.contain(&entry.flow, &mut is_local)? {
                unwanted.push(entry);
                break;
            }
        }
    }
    conntrack.delete(&unwanted)?;
    log::debug!("deleted {} stale UDP conntrack entries", unwanted.len());
    Ok(())
}
