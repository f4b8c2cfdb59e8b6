//! Lets the kernel forget connections that lead where they should not any more.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::IpAddr;

use cni_core::error::Error;
use cni_netfilter::flows::StaleFlows;
use cni_plugin::plan::Ns;

use crate::conntrack::{Conntrack, Filter};
use crate::host::LinuxHost;
use crate::netlink::NetlinkError;

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

/// Looks for all ports at once; whose an address is is asked once for each.
fn delete(host: &mut LinuxHost, stale: &StaleFlows) -> Result<usize, Error> {
    let mut conntrack = Conntrack::open()?;
    let (family, ports) = (stale.family(), stale.ports());
    let filter = Filter { family, to: stale.only_host_ip(), ports, led_to: stale.only_led_to() };
    let possible = conntrack.udp(&filter, |flow| stale.contain(flow, |_| Ok::<_, Infallible>(true)) == Ok(true))?;
    let socket = host.socket(Ns::Host)?;
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
    Ok(unwanted.len())
}
