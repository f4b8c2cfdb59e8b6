//! Fuzz targets of everything that plugins read and somebody else has written: configurations, results, arguments, files, the
//! kernel's answers, rules of iptables.
//!
//! Each target is a function from bytes to nothing that panics when a property does not hold. `scripts/fuzz.sh` gives them to
//! libFuzzer; `cargo test` gives them the seeds, which are real documents of runtimes and answers of a kernel.
#![forbid(unsafe_code)]

mod arguments;
mod cache;
mod call;
mod config;
mod connections;
mod consul;
mod dhcp;
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
pub struct Target {
    /// The name, which is also that of the folder of its seeds.
    pub name: &'static str,
    /// Panics when a property does not hold for an input; `None` for one that was refused before there was much to hold.
    pub run: fn(&[u8]) -> Option<()>,
}

/// Every target.
pub const TARGETS: [Target; 15] = [
    Target { name: "arguments", run: arguments::run },
    Target { name: "cache", run: cache::run },
    Target { name: "call", run: call::run },
    Target { name: "config", run: config::run },
    Target { name: "connections", run: connections::run },
    Target { name: "consul", run: consul::run },
    Target { name: "dhcp", run: dhcp::run },
    Target { name: "iptables_bytes", run: iptables::run_bytes },
    Target { name: "iptables_text", run: iptables::run_text },
    Target { name: "leases", run: leases::run },
    Target { name: "netlink", run: netlink::run },
    Target { name: "nftables", run: nftables::run },
    Target { name: "records", run: records::run },
    Target { name: "results", run: results::run },
    Target { name: "tuning", run: tuning::run },
];

/// The target of a name.
#[must_use]
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
