//! The packet filter's trace: the kernel tells of each rule that a marked packet meets.
//!
//! [`TraceTable`] marks packets, in a table that goes with its socket. [`TraceSocket`] hears of them. [`event`] decodes
//! what the kernel says, and [`chains`] what it takes to understand it.

pub mod chains;
pub mod event;
pub mod mark;
mod socket;
mod table;

pub use socket::{Heard, TraceSocket};
pub use table::{Keeper, PREFIX, TraceTable, leftovers};
