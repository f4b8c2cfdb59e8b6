//! In which order containers get a port of the host that several of them ask for, by the records of portmap.

use std::collections::BTreeMap;

use cni_core::names::Attachment;

use crate::cache::Cached;

/// For each number of a port that several attachments ask for, those that portmap has recorded, in the order in which they get it.
pub type PortOrder = BTreeMap<u16, Vec<Attachment>>;

/// The order of the ports that several of these ask for; `recorded` reads that of one.
pub fn order<'a>(all: impl Iterator<Item = &'a Cached>, mut recorded: impl FnMut(u16) -> Vec<Attachment>) -> PortOrder {
    let mut asked: Vec<u16> =
        all.filter(|cached| has_portmap(cached)).flat_map(|cached| &cached.ports).map(|port| port.host_port).collect();
    asked.sort_unstable();
    let several = asked.chunk_by(|one, next| one == next).filter(|same| same.len() > 1);
    several.filter_map(|same| same.first()).map(|port| (*port, recorded(*port))).collect()
}

/// Whether portmap publishes the ports of an attachment.
pub fn has_portmap(cached: &Cached) -> bool {
    cached.plugins.iter().any(|plugin| plugin.kind == "portmap")
}
