//! In which order containers get a port of the host that several of them ask for, by the records of portmap.

use std::collections::{BTreeMap, BTreeSet};

use cni_core::names::Attachment;

use crate::cache::{Cached, PublishedPort};

/// For each number of a port that several attachments ask for, those that portmap has recorded, in the order in which they get it.
pub type PortOrder = BTreeMap<u16, Vec<Attachment>>;

/// The order of the ports that several of these ask for; `recorded` reads that of one.
pub fn order<'a>(all: impl Iterator<Item = &'a Cached>, mut recorded: impl FnMut(u16) -> Vec<Attachment>) -> PortOrder {
    let mut asking: BTreeMap<u16, usize> = BTreeMap::new();
    for cached in all {
        let ports: BTreeSet<u16> = published(cached).map(|port| port.host_port).collect();
        ports.into_iter().for_each(|port| *asking.entry(port).or_default() += 1);
    }
    let several = asking.into_iter().filter(|(_, attachments)| *attachments > 1);
    several.map(|(port, _)| (port, recorded(port))).collect()
}

/// The ports of the host that portmap publishes for an attachment. It ignores a mapping of port 0.
pub fn published(cached: &Cached) -> impl Iterator<Item = &PublishedPort> {
    cached.ports.iter().filter(|port| port.host_port != 0 && has_portmap(cached))
}

/// Whether portmap publishes the ports of an attachment.
pub fn has_portmap(cached: &Cached) -> bool {
    cached.plugins.iter().any(|plugin| plugin.kind == "portmap")
}
