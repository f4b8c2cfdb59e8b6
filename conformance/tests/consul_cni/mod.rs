//! The consul-cni plugin: the rules that it makes in a container, byte for byte, and what they do to connections.
//!
//! Most tests call it alone, behind a veth that no plugin has made.

mod add;
mod check;
mod del;
mod nomad;
mod proxy;
mod refused;
mod rules;
mod setup;
mod traffic;
