//! Steps and questions on the kernel, each test in namespaces of its own.

mod iptables;
mod netns;
mod nftables;
mod steps;
mod traffic;
mod vlan;
