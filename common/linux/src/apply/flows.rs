//! Lets the kernel forget connections that lead where they should not any more.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::IpAddr;

use cni_core::error::{Error, Failures};
use cni_core::flows::StaleFlows;
use cni_core::plan::{Ns, Sysctl};

use crate::conntrack::{Conntrack, Filter};
use crate::host::LinuxHost;
use crate::netlink::NetlinkError;
use crate::sysctl;

/// Deletes what is stale. The kernel does so by itself when a client falls silent, and a container is of
/// more use with a connection astray than not at all: a failure is logged, in the words of the reference.
pub(super) fn forget(host: &mut LinuxHost, stale: &StaleFlows) {
    let container = stale.container();
    match delete(host, stale) {
        Ok(count) => log::debug!("deleted {count} stale UDP conntrack entries for {container}"),
        Err(error) => {
            let details = error.details();
            log::warn!("failed to delete stale UDP conntrack entries for {container}: {error}: {details}");
        }
    }
}

/// One dump, whatever the number of ports; whose an address is is asked once for each.
fn delete(host: &mut LinuxHost, stale: &StaleFlows) -> Result<usize, Error> {
    if nothing_is_tracked() {
        return Ok(0);
    }
    let mut conntrack = Conntrack::open()?;
    let filter = Filter { family: stale.family(), port: stale.only_port(), answered_by: stale.only_answered_by() };
    let possible = conntrack.udp(&filter, |flow| stale.contain(flow, |_| Ok::<_, Infallible>(true)) == Ok(true))?;
    let socket = host.socket(Ns::Host)?;
    let mut known: BTreeMap<IpAddr, bool> = BTreeMap::new();
    let (mut deleted, mut failures) = (0, Failures::default());
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
            deleted += usize::from(failures.keep(conntrack.delete(&entry)).is_some());
        }
    }
    failures.into_result().map(|()| deleted)
}

/// Whether the kernel tracks no connection at all. It says so at once, while a dump takes it milliseconds
/// to find nothing in its table, which is as large as there is memory.
fn nothing_is_tracked() -> bool {
    let count = sysctl::read(&Sysctl::fixed(&["net", "netfilter", "nf_conntrack_count"]));
    matches!(count, Ok(Some(count)) if count == "0")
}
