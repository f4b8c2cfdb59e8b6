//! The tap plugin: a device in the container by which a program sends and receives Ethernet frames.

mod add;
mod check;
mod del;
mod keys;
mod property;
mod refused;
mod setup;
mod traffic;
