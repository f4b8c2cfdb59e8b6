//! Changes of iptables, on tables in memory.

mod ensure;
mod missing;
mod remove;
mod stale;
