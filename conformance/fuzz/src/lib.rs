//! Fuzz targets of everything that plugins read and others have written: configurations, results, arguments, files,
//! the kernel's answers, iptables rules.
//!
//! Each target is a function of bytes that panics if a property does not hold. `scripts/fuzz.sh` passes random input
//! to it with libFuzzer; `cargo test` passes the seeds, which are real documents of runtimes and answers of a kernel, and inputs
//! that are made of them.
#![forbid(unsafe_code)]

mod arguments;
mod cache;
mod call;
mod config;
mod connections;
mod consul;
mod dhcp;
mod host;
mod input;
mod iptables;
mod leases;
mod life;
mod netlink;
mod nftables;
mod plugins;
mod records;
mod results;
pub mod rows;
mod spelling;
mod tuning;

/// What is fuzzed at a time.
pub struct FuzzTarget {
    /// The name, which is also that of the folder of its seeds.
    pub name: &'static str,
    /// Panics when a property does not hold for an input; `None` for one that was refused before there was much to hold.
    pub run: fn(&[u8]) -> Option<()>,
}

/// Every target.
pub const TARGETS: [FuzzTarget; 15] = [
    FuzzTarget { name: "arguments", run: arguments::run },
    FuzzTarget { name: "cache", run: cache::run },
    FuzzTarget { name: "call", run: call::run },
    FuzzTarget { name: "config", run: config::run },
    FuzzTarget { name: "connections", run: connections::run },
    FuzzTarget { name: "consul", run: consul::run },
    FuzzTarget { name: "dhcp", run: dhcp::run },
    FuzzTarget { name: "iptables_bytes", run: iptables::run_bytes },
    FuzzTarget { name: "iptables_text", run: iptables::run_text },
    FuzzTarget { name: "leases", run: leases::run },
    FuzzTarget { name: "netlink", run: netlink::run },
    FuzzTarget { name: "nftables", run: nftables::run },
    FuzzTarget { name: "records", run: records::run },
    FuzzTarget { name: "results", run: results::run },
    FuzzTarget { name: "tuning", run: tuning::run },
];

/// The target of a name.
#[must_use]
pub fn target(name: &str) -> Option<&'static FuzzTarget> {
    TARGETS.iter().find(|target| target.name == name)
}
