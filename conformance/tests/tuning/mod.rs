//! The tuning plugin: every key by what it makes of the kernel, the files it keeps, and what becomes of both.
//!
//! Most tests call it alone, behind a veth that no plugin has made.

mod backup;
mod check;
mod del;
mod examples;
mod gc;
mod keys;
mod reference;
mod refused;
mod setup;
