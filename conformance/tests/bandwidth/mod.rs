//! The bandwidth plugin: what it makes of the kernel's traffic control, how fast packets go, and what becomes of it all.
//!
//! Most tests call it alone, behind a veth that no plugin has made.

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
