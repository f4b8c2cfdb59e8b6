//! The consul-cni plugin: its rules in a container, byte for byte, and their effect on connections.
//!
//! Most tests call it alone, after a veth that no plugin has made.

mod add;
mod check;
mod del;
mod nomad;
mod proxy;
mod refused;
mod rules;
mod setup;
mod traffic;
