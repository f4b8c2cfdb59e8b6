//! Route netlink on a blocking socket: links, addresses, routes and bridge ports.
//!
//! Requests are built from the message types of `netlink-packet-route`. Answers are not decoded by that crate: their
//! attributes are walked and only the known ones read, so that nothing a newer kernel adds can fail a request. Objects
//! are requested by name or index wherever the kernel allows that; every change is acknowledged. A [`Socket`] belongs
//! to the network namespace that its thread was in when it was opened, and stays there.

mod address;
pub mod attribute;
mod bridge;
mod create;
pub(crate) mod error;
mod full_route;
mod link;
mod netns_id;
pub(crate) mod reply;
mod route;
mod rule;
mod socket;
mod traffic;

pub(crate) use error::accept;
pub use error::{Cause, Errno, KernelText, NetlinkError, during};
pub use link::LinkWatch;
pub use route::{RouteAnswer, RouteQuestion};
pub use socket::batch::{PackedMessage, RefusedChange};
#[cfg(any(test, feature = "fuzz"))]
pub use socket::played;
pub use socket::{Dump, Socket, netns_cookie};
pub use traffic::{FilterPlace, FilterSlot, ReceiveFilter};
