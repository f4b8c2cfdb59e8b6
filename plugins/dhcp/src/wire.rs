//! DHCP messages (RFC 2131) in UDP in IPv4.
//!
//! The codec is our own, since no crate is both small and correct: dhcproto brings 49 crates, and stops reading at an
//! option of unexpected length; edge-dhcp panics on a list of routers of unexpected length.

mod datagram;
mod hardware;
mod message;
mod options;

pub use datagram::{Datagram, to_client};
pub use hardware::Hardware;
pub use message::{Incoming, MessageType, Outgoing};
pub use options::{DhcpOptions, code};
