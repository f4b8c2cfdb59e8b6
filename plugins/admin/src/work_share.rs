//! How threads share what is looked at.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
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
fn threads() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get).min(MOST_THREADS)
}

/// Works on some items with several threads, the calling one included, and returns the results in the order of the items. Each thread takes
/// the next few that no other has taken, since one may be slower than others. `tools` makes what a thread works with. Where no thread can be
/// made, the others do its work.
pub fn by_threads<T: Send, R: Send, W>(
    items: impl IntoIterator<Item = T>,
    tools: impl Fn() -> W + Sync,
    work: impl Fn(T, &mut W) -> R + Sync,
) -> Vec<R> {
    by_threads_at_most(threads(), items, tools, work)
}

/// The same with at most so many threads.
fn by_threads_at_most<T: Send, R: Send, W>(
    threads: usize,
    items: impl IntoIterator<Item = T>,
    tools: impl Fn() -> W + Sync,
    work: impl Fn(T, &mut W) -> R + Sync,
) -> Vec<R> {
    let (mut items, mut shares) = (items.into_iter().peekable(), Vec::new());
    while items.peek().is_some() {
        let share: Vec<T> = items.by_ref().take(LEAST_SHARE).collect();
        shares.push(Mutex::new((share, Vec::new())));
    }
    let next = AtomicUsize::new(0);
    let work_on = || {
        let mut tools = tools();
        while let Some(share) = shares.get(next.fetch_add(1, Ordering::Relaxed)) {
            // It is never poisoned: a thread that panics ends the program.
            let (items, results) = &mut *share.lock().unwrap_or_else(PoisonError::into_inner);
            results.extend(std::mem::take(items).into_iter().map(|item| work(item, &mut tools)));
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads.min(shares.len()) {
            if let Err(error) = thread::Builder::new().spawn_scoped(scope, work_on) {
                log::debug!("the work is done with fewer threads: {error}");
            }
        }
        work_on();
    });
    let results = |share: Mutex<(Vec<T>, Vec<R>)>| share.into_inner().unwrap_or_else(PoisonError::into_inner).1;
    shares.into_iter().flat_map(results).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_work_on_all_items_and_keep_their_order() {
        for items in [0, 1, LEAST_SHARE, LEAST_SHARE + 1, 1000] {
            for threads in 1..=4 {
                let done = by_threads_at_most(threads, 0..items, || 1, |item, one| item + *one);
                assert_eq!(done, (1..=items).collect::<Vec<_>>(), "{items} by {threads}");
            }
        }
    }
}
