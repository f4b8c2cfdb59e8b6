//! Networks that are drawn at random: what bridge, firewall and portmap can be told, in every combination.

mod draw;
mod setup;

pub use draw::{Chained, setups};
pub use setup::{Setup, Subnet};
