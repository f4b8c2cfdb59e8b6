//! The route-override plugin: which routes it changes in the kernel and in the result, and what DEL restores.

mod add;
mod check;
mod del;
mod examples;
mod gc;
mod refused;
mod setup;
mod traffic;
