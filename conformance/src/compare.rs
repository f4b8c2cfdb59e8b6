//! Compares plugins with the reference: both run the same row of a table, and every difference in their output and in
//! what they leave is reported. Accepted differences are in [`accepted`], with their reason.

pub mod accepted;
pub mod look;
pub mod normal;
pub mod row;
pub mod walk;
