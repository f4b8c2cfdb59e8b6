//! How threads share what is looked at.

use std::num::NonZero;
use std::thread;

use cni_core::family::Family;
use cni_netfilter::iptables::IptablesTable;

/// More threads would wait for each other in the kernel.
const MOST_THREADS: usize = 4;

/// Fewer attachments than this are not worth a thread.
pub const LEAST_SHARE: usize = 16;

/// The tables that nearly all attachments have rules in. One thread reads them in this order, and another from the end.
pub const TABLES: [(Family, IptablesTable); 2] =
    [(Family::V4, IptablesTable::Nat), (Family::V4, IptablesTable::Filter)];

/// How many threads share the work.
pub fn threads() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get).min(MOST_THREADS)
}

/// How many of some attachments each thread looks at.
pub fn share_of(attachments: usize) -> usize {
    attachments.div_ceil(threads()).max(LEAST_SHARE)
}
