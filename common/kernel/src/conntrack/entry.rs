//! An entry of the kernel's connection table.

use cni_netfilter::flows::Flow;

/// A UDP connection that the kernel tracks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrackedConnection {
    /// The connection.
    pub flow: Flow,
    /// The tuple of its first packet, as the kernel wrote it.
    pub(super) tuple: Vec<u8>,
    /// The kernel's number for it.
    pub(super) id: [u8; 4],
    /// Its zone, if not the default one.
    pub(super) zone: Option<[u8; 2]>,
}
