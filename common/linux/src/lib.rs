//! The effects of the CNI plugins: the machine with its kernel, files and processes.
//!
//! [`host::LinuxHost`] is what plugins get to see of it, behind `cni_plugin::host::Host`.

pub mod answer;
mod apply;
pub mod clock;
pub mod delegate;
mod devices;
pub mod firewalld;
pub mod host;
pub mod identity;
pub mod inhabitants;
pub mod iptables;
mod latecomer;
mod locks;
pub mod nftables;
pub mod packet;
pub mod plugin_calls;
pub mod process;
pub mod records;
pub mod result_cache;
pub mod service;
pub mod survey;
pub mod unix;
