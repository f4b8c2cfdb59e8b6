//! The tuning plugin: every key by what it makes of the kernel, the files it keeps, and what becomes of both.
//!
//! Most tests call it alone, behind a veth that no plugin has made.

mod allow_list;
mod backup;
mod check;
mod gc;
mod interchange;
mod interface;
mod mac;
mod parameters;
mod refused;
mod removal;
mod runtimes;
mod tuned;
