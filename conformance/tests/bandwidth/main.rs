//! The bandwidth plugin: what it makes of the kernel's traffic control, how fast packets go, and what becomes of it all.
//!
//! Most tests call it alone, behind a veth that no plugin has made.

mod again;
mod check;
mod gc;
mod interchange;
mod limited;
mod numbers;
mod property;
mod refused;
mod removal;
mod runtimes;
mod second;
mod speed;
