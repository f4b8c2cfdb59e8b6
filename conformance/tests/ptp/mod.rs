//! The ptp plugin: what no case can say: how soon it is reached, kills, drawn configurations.

mod del;
mod property;
mod setup;
mod traffic;
