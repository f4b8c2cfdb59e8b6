//! The kernel's table of connections: how full it is, and in how many walks it is looked through.
//!
//! The kernel finds nothing in it but by walking through all of it, and filters by one port at most. One
//! walk for each port leaves it to pass by all else; a single walk for all ports makes it write, and us
//! read, each connection to any port. Which one is cheaper depends on how many these are.

use cni_plugin::plan::Sysctl;

use crate::sysctl;

/// How many buckets the kernel passes in the time in which it passes by a connection. Measured with Linux
/// 6.18, as is the other cost: 18 ns for a bucket, 0.14 µs to pass by a connection, 0.85 µs to write one and
/// to read it. Other machines have other times, and much the same ratios.
const BUCKETS: u64 = 8;
/// How many connections the kernel passes by in the time in which one is written and read.
const WRITTEN: u64 = 6;

/// How much a walk has to pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table {
    /// Where the kernel looks for connections; as many as there is memory for.
    pub buckets: u64,
    /// The connections of the namespace of the calling thread.
    pub entries: u64,
}

impl Table {
    /// What the kernel tells; `None` if it does not.
    pub fn observe() -> Option<Self> {
        Some(Self { buckets: observe("nf_conntrack_buckets")?, entries: observe("nf_conntrack_count")? })
    }

    /// Whether one walk for each of some ports is cheaper than one for all, which has `written` connections
    /// written.
    pub fn is_walked_for_each(self, ports: usize, written: u64) -> bool {
        let Self { buckets, entries } = self;
        let further = u64::try_from(ports.saturating_sub(1)).unwrap_or(u64::MAX);
        further.saturating_mul(entries.saturating_add(buckets / BUCKETS)) < written.saturating_mul(WRITTEN)
    }
}

fn observe(name: &'static str) -> Option<u64> {
    let key = Sysctl::fixed(&["net", "netfilter", name]);
    match sysctl::read(&key) {
        Ok(value) => value?.parse().ok(),
        Err(error) => {
            log::debug!("the size of the connection table is unknown: {}: {error}", sysctl::path(&key));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The most ports for which the table is walked for each.
    fn most(entries: u64, written: u64) -> usize {
        let table = Table { buckets: 262_144, entries };
        (2..100).take_while(|ports| table.is_walked_for_each(*ports, written)).last().unwrap_or(1)
    }

    #[test]
    fn the_fuller_the_table_is_of_what_would_be_written_the_more_ports_get_a_walk_of_their_own() {
        for (entries, written, want) in [
            (0, 0, 1),
            (1_000, 1_000, 1),
            (10_000, 10_000, 2),
            (50_000, 50_000, 4),
            (200_000, 200_000, 6),
            (200_000, 100_000, 3),
            (200_000, 10_000, 1),
            (u64::MAX, u64::MAX, 1),
        ] {
            assert_eq!(most(entries, written), want, "{written} of {entries}");
        }
    }
}
