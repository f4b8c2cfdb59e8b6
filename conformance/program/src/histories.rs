//! Compares two sets of plugins: both run the same histories, each on a private host, and every difference in their
//! output and in what they leave is reported.
//!
//! A [`History`] has networks, containers and steps; [`draw`] makes them at random, [`replay`] runs a history with one
//! set, [`difference`] finds the first difference, [`again`] tells whether it is repeatable, and [`minimise`] makes a
//! history with a difference smaller, as long as the difference is of the same [`kind`].
//! Accepted differences are in tables with their reason: lines in [`cni_conformance::compare::accepted`], steps in
//! [`situations`].

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
