//! Calls of methods over D-Bus, on a blocking socket that gives up in time.
//!
//! The crate zbus knows how values are written; connecting, and waiting for one answer after the other, is
//! done here, without the threads and the event loop of a complete client. Each call is one question of the
//! D-Bus specification, "Message Protocol"; signals are passed over.

mod address;
mod bus;
mod message;
mod stream;

pub use address::Endpoint;
pub use bus::{Bus, BusError};
pub use message::{Answer, Call, MessageError, Start, Value};

#[cfg(test)]
pub(crate) mod fake;
#[cfg(test)]
mod tests;
