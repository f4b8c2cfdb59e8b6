//! The sbr plugin: the rules and tables that it makes, the paths of packets, and the cleanup.
//!
//! Most tests call it alone, after an interface that no plugin has made.

mod add;
mod check;
mod del;
mod examples;
mod keys;
mod property;
mod reference;
mod refused;
mod setup;
mod traffic;
