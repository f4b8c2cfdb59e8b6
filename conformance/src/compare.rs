//! A row of the table that compares with the reference: both sides live through it, and what one prints or leaves that the other
//! does not is a difference. Lines that may differ stand in [`accepted`] with the reason.

pub mod accepted;
pub mod look;
pub mod normal;
pub mod row;
pub mod walk;
