//! The keys of the tuning plugin.

mod allow_list;
mod interface;
mod mac;
mod sysctl;
