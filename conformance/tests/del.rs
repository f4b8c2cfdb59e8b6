//! DEL takes away all that ADD made, whatever happened in between, and nothing of anybody else's.
//!
//! A runtime that lost the namespace, the result or the port mappings still has the name of the
//! network and the container's ID, and that must do. What stays is what containers share, to the
//! letter as [`cni_conformance::Skeleton`] lists it.

#[path = "del/again.rs"]
mod again;
#[path = "del/broken.rs"]
mod broken;
#[path = "del/client.rs"]
mod client;
#[path = "del/interrupted.rs"]
mod interrupted;
#[path = "del/matrix.rs"]
mod matrix;
#[path = "del/neighbours.rs"]
mod neighbours;
#[path = "del/owners.rs"]
mod owners;
#[path = "del/unidentified.rs"]
mod unidentified;
