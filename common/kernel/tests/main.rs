//! Messages that the kernel answers.

mod conntrack;
mod netlink;
