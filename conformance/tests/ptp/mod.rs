//! The ptp plugin: what it makes on both ends, who reaches whom, and what is left when it goes.

mod add;
mod check;
mod del;
mod occupied;
mod property;
mod refused;
mod setup;
mod traffic;
