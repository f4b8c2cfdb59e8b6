//! The sbr plugin: the rules and tables that it makes, the ways of packets, and what becomes of it all.
//!
//! Most tests call it alone, behind an interface that no plugin has made.

mod again;
mod check;
mod interchange;
mod property;
mod refused;
mod removal;
mod routed;
mod routes;
mod runtimes;
mod traffic;
