//! The rules in the packet filter are the reference's, byte for byte.
//!
//! Operators, Nomad's clean-up and the Go plugins find rules by their text, so chains, order,
//! comments and marks are compared as `iptables -S` and `ip6tables -S` print them, on both
//! flavours of iptables. What the reference adds to a table is written down here as golden text.

mod cleanup;
mod lock;
mod nomad;
mod shared;
