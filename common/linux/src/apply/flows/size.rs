//! The number of entries and buckets of the kernel's connection table.

use cni_model::plan::Sysctl;

use cni_kernel::sysctl;

/// The largest number of requests to delete by a filter.
const MOST_REQUESTS: usize = 128;

/// The number of empty buckets that the kernel passes in the time that it takes to look at one connection, for a
/// deletion and for a dump: 0.05 µs for a bucket, 0.3 and 0.25 µs for a connection with Linux 6.18. An error of this
/// estimate by a factor of two costs at most that factor.
const BUCKETS_PER_DELETION: u64 = 6;
const BUCKETS_PER_DUMP: u64 = 5;

/// The size of the kernel's table of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableSize {
    /// The number of buckets; the kernel chooses it by the memory of the machine.
    pub buckets: u64,
    /// The connections of the namespace of the calling thread.
    pub entries: u64,
}

impl TableSize {
    /// The kernel's numbers; `None` if they cannot be read.
    pub fn observe() -> Option<Self> {
        Some(Self { buckets: observe("nf_conntrack_buckets")?, entries: observe("nf_conntrack_count")? })
    }

    /// Whether some requests to delete by a filter are less work than a dump. Each looks at every connection; the dump
    /// also locks each bucket, a deletion only those that are not empty.
    pub fn favours_deletions(self, requests: usize) -> bool {
        let Self { buckets, entries } = self;
        let looks = |number: usize, cost: u64| {
            u64::try_from(number).unwrap_or(u64::MAX).saturating_mul(entries).saturating_mul(cost)
        };
        requests <= MOST_REQUESTS
            && looks(requests, BUCKETS_PER_DELETION) <= buckets.saturating_add(looks(1, BUCKETS_PER_DUMP))
    }
}

fn observe(name: &'static str) -> Option<u64> {
    let key = Sysctl::fixed(&["net", "netfilter", name]);
    match sysctl::read(&key) {
        Ok(value) => value?.parse().ok(),
        Err(error) => {
            log::debug!("cannot read the size of the connection table: {}: {error}", sysctl::path(&key));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fewer_connections_there_are_the_more_are_deleted_by_a_filter() {
        for (entries, most) in
            [(0, 128), (100, 128), (1_000, 44), (5_000, 9), (20_000, 3), (60_000, 1), (200_000, 1), (300_000, 0)]
        {
            let size = TableSize { buckets: 262_144, entries };
            let favoured = (1..1000).take_while(|requests| size.favours_deletions(*requests)).count();
            assert_eq!(favoured, most, "{entries} connections");
        }
    }
}
