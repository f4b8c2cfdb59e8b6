//! DEL removes everything that ADD made, whatever happened in between, and nothing of others.
//!
//! A runtime that lost the namespace, the result or the port mappings still has the name of the network and the
//! container's ID, and these must be enough. What containers share stays, exactly as [`cni_conformance::Skeleton`]
//! lists it.

mod again;
mod broken;
mod del_host;
mod interrupted;
mod matrix;
mod neighbours;
mod owners;
mod unidentified;
