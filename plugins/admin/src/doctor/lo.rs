//! Running containers whose `lo` is down: most runtimes set it up, Nomad leaves it to the plugin loopback.

use std::collections::BTreeSet;

use cni_core::error::Error;
use cni_core::names::IfName;
use cni_linux::host::LinuxHost;
use cni_model::plan::Ns;
use cni_plugin::host::Host;
use cni_plugin::namespace::Life;

use super::finding::Finding;
use crate::inventory::Attached;
use crate::life::neutral_request;

/// Looks into the namespace of each container. One that cannot be entered has no finding.
pub fn findings<'a>(attached: impl Iterator<Item = &'a Attached>) -> Vec<Finding> {
    let (mut seen, mut found) = (BTreeSet::new(), Vec::new());
    for one in attached.filter(|one| one.life == Life::Alive) {
        let Some(netns) = one.cached.netns.as_deref().filter(|netns| seen.insert(*netns)) else { continue };
        if is_down(netns).unwrap_or(false) {
            let says =
                format!("container {}: lo is down, so it does not reach its own addresses", one.cached.at.container);
            let cure = format!(
                "nsenter --net={netns} ip link set lo up; for new containers begin the list of network {} with {{\"type\": \"loopback\"}}",
                one.cached.at.network
            );
            found.push(Finding::note("loopback", says, cure));
        }
    }
    found
}

/// Whether `lo` is down in a namespace with a process. Without one, nobody has had the time to set it up.
fn is_down(netns: &str) -> Result<bool, Error> {
    let mut host = LinuxHost::new(&neutral_request()?);
    let host: &mut dyn Host = &mut host;
    host.enter(netns)?;
    if host.link(Ns::Container, &IfName::lo())?.is_none_or(|lo| lo.up) {
        return Ok(false);
    }
    let identity = host.namespaces().identity(Ns::Container)?;
    Ok(identity.map_or(Ok(None), |identity| host.namespaces().path_by_process(&identity))?.is_some())
}
