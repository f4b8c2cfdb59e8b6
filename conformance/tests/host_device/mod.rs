//! The host-device plugin: an interface of the host goes into a container and comes back as it was.

mod add;
mod check;
mod del;
mod devices;
mod impostor;
mod property;
mod setup;
mod traffic;
