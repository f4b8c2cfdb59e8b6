//! The effects of the CNI plugins: access to the kernel, files and processes of the machine.
//!
//! Plugins use [`host::LinuxHost`] through the trait `cni_plugin::host::Host`.

mod apply;
pub mod delegate;
mod firewalld;
pub mod host;
pub mod inhabitants;
pub mod iptables;
pub mod ledger;
mod locks;
mod machine;
pub mod netns_survey;
pub mod nftables;
mod observe;
pub mod output;
pub mod process;
mod side;
pub mod unix;
