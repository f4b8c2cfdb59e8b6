//! The sbr plugin: the rules and tables that it makes, the ways of packets, and what becomes of it all.
//!
//! Most tests call it alone, behind an interface that no plugin has made.

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
