//! The effects of the CNI plugins: access to the kernel, files and processes of the machine.
//!
//! Plugins use [`host::LinuxHost`] through the trait `cni_plugin::host::Host`.

pub mod answer;
mod apply;
pub mod clock;
pub mod contained;
pub mod delegate;
mod devices;
pub mod firewalld;
pub mod hidden_processes;
pub mod host;
mod host_veths;
pub mod identity;
pub mod inhabitants;
pub mod iptables;
mod locks;
pub mod logger;
mod machine;
pub mod netns_survey;
pub mod nftables;
mod observe;
pub mod output;
pub mod process;
pub mod records;
mod retry_lock;
mod side;
pub mod unix;
