//! What the kernel is asked and told, and in which form: netlink messages for links, addresses, routes, rules and traffic
//! control, for nf_tables and for tracked connections; network namespaces, tap devices and kernel parameters.
//!
//! Nothing here decides: each function is one request. `cni-linux` makes steps and questions of plugins out of them.

pub mod conntrack;
pub mod netlink;
pub mod netns;
pub mod nftables;
pub mod sysctl;
pub mod tun;
