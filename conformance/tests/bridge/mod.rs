//! Every key of the bridge plugin, by what it makes of the kernel.
//!
//! Each test says what a key is for, sets it, and reads links, addresses, routes and rules back with
//! the harness's own reader. A value that is refused is named with its key, and leaves nothing.
//! The keys for VLANs have tests of their own.

mod add;
mod keys;
mod setup;
