//! The ptp plugin: what it makes on both ends, which machines reach each other, and what is left after DEL.

mod add;
mod check;
mod del;
mod occupied;
mod property;
mod refused;
mod setup;
mod traffic;
