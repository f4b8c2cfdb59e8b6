//! Containers that are virtual machines: what `tc-redirect-tap` needs of the plugins before and after it.
//!
//! It redirects every frame of the container's interface to a device, adds the device and the machine to the result,
//! and the machine's monitor (firecracker) configures the guest from that. In `boot.rs` the guest is a virtual
//! machine; elsewhere it is a namespace behind a program that has the device open, so that tests can run commands in
//! it.

mod boot;
mod chains;
mod machine;
mod obligations;
mod tables;
