//! What is on the wire: DHCP messages (RFC 2131) in UDP in IPv4.
//!
//! The codec is our own, since no crate is both light and sound: dhcproto brings 49 crates, and stops reading where the
//! length of an option is odd; edge-dhcp panics on a list of routers whose length is odd.

mod datagram;
mod hardware;
mod message;
mod options;

pub use datagram::{Datagram, to_client};
pub use hardware::Hardware;
pub use message::{Incoming, Kind, Outgoing};
pub use options::{Options, code};
