//! Two sets of plugins beside each other: both live through the same histories, each on a private host, and whatever one
//! prints or leaves that the other does not is a difference.
//!
//! A [`History`] is networks, containers and what happens to them; [`draw`] makes them at random, [`replay`] lets a set live
//! through one, [`difference`] finds where two lives part, [`again`] whether they part again, and [`minimise`] makes a history that
//! shows a difference small, with one of the same [`kind`].
//! What may differ stands in tables with the reason: lines in [`accepted`], steps in [`situations`].

pub mod accepted;
pub mod again;
pub mod difference;
pub mod draw;
pub mod history;
pub mod kind;
pub mod look;
pub mod minimise;
pub mod normal;
mod records;
pub mod replay;
pub mod row;
pub mod sets;
pub mod situations;
pub mod walk;

pub use difference::{Comparison, Difference, Pair};
pub use history::{History, HistoryStep, Member};
pub use sets::{Maker, PluginSet};
