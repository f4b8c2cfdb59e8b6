//! The tc-redirect-tap plugin: a tap device for a virtual machine, crossed with an interface of the container.

mod add;
mod check;
mod del;
mod property;
mod reference;
mod refused;
mod repair;
mod setup;
mod status;
mod traffic;
