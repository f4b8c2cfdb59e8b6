//! Packets of UDP clients that keep their port are not sent to containers that no longer exist.
//!
//! The kernel matches only the first packet of a connection against the rules, and UDP connections have no end. The
//! connections to be deleted are those that lead elsewhere by exactly the affected mappings: by protocol, port and
//! address of the host. All others keep their translation, which the tests see in connections whose own rule was
//! deleted. Senders hold one socket each, so they keep their port.

mod own;
mod setup;
mod stale;
