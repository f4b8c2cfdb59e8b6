//! The trace of nf_tables: the kernel sends a message for each rule that a marked packet matches.
//!
//! [`TraceTable`] marks packets, in a table that the kernel deletes with its socket. [`TraceSocket`] receives the messages,
//! [`event`] decodes them, and [`chains`] lists the chains and rules that they name.

pub mod chains;
pub mod event;
pub mod mark;
mod socket;
mod table;

pub use socket::{Received, TraceSocket};
pub use table::{Keeper, PREFIX, TraceTable, leftovers};
