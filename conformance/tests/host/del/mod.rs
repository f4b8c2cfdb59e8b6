//! DEL takes away all that ADD made, whatever happened in between, and nothing of anybody else's.
//!
//! A runtime that lost the namespace, the result or the port mappings still has the name of the
//! network and the container's ID, and that must do. What stays is what containers share, to the
//! letter as [`cni_conformance::Skeleton`] lists it.

mod again;
mod broken;
mod client;
mod interrupted;
mod matrix;
mod neighbours;
mod owners;
mod unidentified;
