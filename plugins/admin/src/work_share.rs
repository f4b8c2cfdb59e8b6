//! How threads share what is looked at.

use std::num::NonZero;
use std::thread::{self, Scope};

use cni_core::family::Family;
use cni_linux::nftables::KeptTables;
use cni_netfilter::iptables::IptablesTable;

/// More threads would wait for each other in the kernel.
const MOST_THREADS: usize = 4;

/// Fewer attachments than this are not worth a thread.
pub const LEAST_SHARE: usize = 16;

/// The tables that nearly all attachments have rules in.
const TABLES: [(Family, IptablesTable); 2] = [(Family::V4, IptablesTable::Nat), (Family::V4, IptablesTable::Filter)];

/// Starts two threads that read these tables, one from the first on and one from the last on. Where no thread can be made, a table is
/// read when it is asked for.
pub fn read_ahead<'scope>(tables: &'scope KeptTables, scope: &'scope Scope<'scope, '_>) {
    for is_reversed in [false, true] {
        let order = move || if is_reversed { TABLES.into_iter().rev().collect() } else { TABLES.to_vec() };
        if let Err(error) = thread::Builder::new().spawn_scoped(scope, move || tables.read_ahead(order())) {
            log::debug!("tables are not read ahead: {error}");
        }
    }
}

/// How many threads share the work.
pub fn threads() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get).min(MOST_THREADS)
}

/// How many of some items each thread works on: [`LEAST_SHARE`] at least, so there may be fewer threads.
pub fn share_of(items: usize, threads: usize) -> usize {
    items.div_ceil(threads).max(LEAST_SHARE)
}
