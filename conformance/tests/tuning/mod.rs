//! The tuning plugin: the effect of every key on the kernel, its files, and the cleanup.
//!
//! Most tests call it alone, after a veth that no plugin has made.

mod backup;
mod check;
mod del;
mod examples;
mod gc;
mod keys;
mod reference;
mod refused;
mod setup;
