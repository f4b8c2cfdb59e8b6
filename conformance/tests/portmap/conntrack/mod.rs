//! UDP clients that keep their port are not sent to containers that are no more.
//!
//! The kernel asks the rules for the first packet of a connection alone, and UDP knows no end of
//! one. What must be forgotten is what leads elsewhere by exactly the affected mappings: by
//! protocol, port and address of the host. Anything else keeps the way it has, which shows in
//! connections whose own rule is gone. Clients hold one socket each, so they keep their port.

mod own;
mod setup;
mod stale;
