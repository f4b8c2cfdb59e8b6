//! Route netlink on a blocking socket: links, addresses, routes and bridge ports.
//!
//! Requests are built from the message types of `netlink-packet-route`. Answers are not decoded by that crate: their
//! attributes are walked and only the known ones read, so that nothing a newer kernel adds can fail a request. Objects
//! are requested by name or index wherever the kernel allows that; every change is acknowledged. A [`Socket`] belongs
//! to the network namespace that its thread was in when it was opened, and stays there.

mod address;
pub mod attribute;
mod bridge;
mod child;
mod cookie;
mod create;
pub(crate) mod error;
mod full_route;
mod link;
mod link_watch;
mod netns_id;
mod packed;
mod question;
pub(crate) mod reply;
mod route;
mod rule;
mod socket;
mod tap;
mod traffic;
mod vlan;

pub use cookie::netns_cookie;
pub use error::during;
pub use error::{Cause, Errno, KernelText, NetlinkError};
pub use link_watch::LinkWatch;
pub use packed::PackedMessage;
pub use question::{RouteAnswer, RouteQuestion};
pub use socket::batch::RefusedChange;
#[cfg(any(test, feature = "fuzz"))]
pub use socket::played::played;
pub use socket::{Dump, Socket};
pub use traffic::{FilterPlace, FilterSlot, ReceiveFilter};
