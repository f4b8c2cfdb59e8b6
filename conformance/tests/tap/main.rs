//! The tap plugin: a device in the container by which a program sends and receives Ethernet frames.

mod add;
mod check;
mod device;
mod host;
mod property;
mod refused;
mod removal;
mod traffic;
