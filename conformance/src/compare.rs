//! Two sets of plugins beside each other: what both print and leave, without what is random, and what may differ.

pub mod accepted;
pub mod normal;
