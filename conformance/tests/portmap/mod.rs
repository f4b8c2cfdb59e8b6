//! The portmap plugin, by its back ends, and what becomes of connections. Every feature on every back end is in `host/backends`.

mod conntrack;
mod contested_ports;
mod localnet;
mod many_ports;
mod nftables;
mod rules;
