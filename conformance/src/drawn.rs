//! Networks that are drawn at random: what bridge, firewall and portmap can be told, in every combination.

mod draw;
mod holds;
mod setup;

pub use draw::{Chained, setups};
pub use holds::holds;
pub use setup::{DrawnSubnet, Setup};
