//! Requests to the kernel: netlink messages for links, addresses, routes, rules and traffic control, for nf_tables and
//! for tracked connections; network namespaces, tap devices and kernel parameters.
//!
//! Nothing here decides: each function is one request. `cni-linux` builds the steps and questions of plugins from
//! them.

pub mod conntrack;
pub mod echo;
pub mod netlink;
pub mod netns;
pub mod nftables;
pub mod sysctl;
pub mod tun;
