//! What plugins that make interfaces share. It asks and decides; only the steps of a plan change the machine.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod addressing;
pub mod alias;
pub mod child;
pub mod earlier;
pub mod ipam;
pub mod keys;
pub mod leftovers;
pub mod masquerade;
mod moved_on;
pub mod naming;
pub mod network;
pub mod next_holder;
pub mod tables;
pub mod verify;
pub mod veth;

/// The Rust of the page for authors of plugins.
#[cfg(doctest)]
#[doc = include_str!("../../../plugins/README.md")]
pub struct AddAPlugin;
