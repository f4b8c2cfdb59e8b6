//! Random networks: every combination of the keys of bridge, firewall and portmap.

mod draw;
mod holds;
mod setup;

pub use draw::setups;
pub use holds::holds;
pub use setup::{DrawnSubnet, Setup};
