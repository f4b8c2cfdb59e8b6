//! The pure half of the CNI plugins: what a request, a configuration, a result and a rule are, and what
//! a plugin decides. Nothing here reads a file, starts a process or talks to the kernel; all of that
//! stands behind [`host::Host`], which `cni-linux` implements.
#![forbid(unsafe_code)]

pub mod cidr;
pub mod error;
pub mod family;
pub mod firewall;
pub mod firewalld;
pub mod flows;
pub mod host;
pub mod journal;
pub mod json;
pub mod keeper;
pub mod link;
pub mod names;
pub mod nftables;
pub mod plan;
pub mod repair;
pub mod request;
pub mod result;
pub mod run;
pub mod valid;
pub mod version;
pub mod vlan;
