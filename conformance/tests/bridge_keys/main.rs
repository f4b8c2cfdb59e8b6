//! Every key of the bridge plugin, by what it makes of the kernel.
//!
//! Each test says what a key is for, sets it, and reads links, addresses, routes and rules back with
//! the harness's own reader. A value that is refused is named with its key, and leaves nothing.
//! The keys for VLANs have tests of their own.

mod dns;
mod duplicates;
mod existing;
mod gateway;
mod ipam;
mod isolation;
mod layer_two;
mod link;
mod mac;
mod masquerade;
mod nftables;
mod port;
mod refused;
mod result;
mod routes;
mod several;
mod spoof;
mod versions;
