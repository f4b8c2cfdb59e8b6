//! The bandwidth plugin: the kernel's traffic control that it sets, the speed of packets, and the cleanup.
//!
//! Most tests call it alone, after a veth that no plugin has made.

mod add;
mod check;
mod del;
mod examples;
mod gc;
mod keys;
mod property;
mod reference;
mod refused;
mod second_interface;
mod setup;
mod traffic;
