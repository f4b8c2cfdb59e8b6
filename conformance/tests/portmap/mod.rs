//! The portmap plugin, by its back ends, and its tracked connections. `host/backends` tests every feature on every
//! back end.

mod conntrack;
mod contested_ports;
mod localnet;
mod many_ports;
mod nftables;
