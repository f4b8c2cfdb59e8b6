//! Two sets of plugins beside each other: both live through the same histories, each on a private host, and whatever one
//! prints or leaves that the other does not is a difference.
//!
//! A [`History`] is networks, containers and what happens to them; [`draw`] makes them at random, [`replay`] lets a set live
//! through one, [`difference`] finds where two lives part, [`again`] whether they part again, and [`minimise`] makes a history that
//! shows a difference small, with one of the same [`kind`].
//! What may differ stands in tables with the reason: lines in [`cni_conformance::compare::accepted`], steps in [`situations`].

pub mod again;
pub mod difference;
pub mod draw;
pub mod history;
pub mod kind;
pub mod minimise;
mod records;
pub mod replay;
pub mod sets;
pub mod situations;

pub use difference::{ComparedSets, Comparison, Difference};
pub use history::{History, HistoryStep, NetworkMember};
pub use sets::{PluginOrigin, PluginSet};
