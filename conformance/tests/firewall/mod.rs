//! The firewall plugin, by its back ends. Every feature on every back end is in `host/backends`.

mod firewalld;
mod nftables;
mod owners;
mod rules;
