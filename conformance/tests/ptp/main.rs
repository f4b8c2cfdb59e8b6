//! The ptp plugin: what it makes on both ends, who reaches whom, and what is left when it goes.

mod add;
mod check;
mod network;
mod occupied;
mod property;
mod refused;
mod removal;
mod traffic;
