//! Containers that are virtual machines: what `tc-redirect-tap` needs of the plugins before and behind it.
//!
//! It leads every frame of the container's interface to a tap, adds the tap and the machine to the result, and the
//! machine's monitor (firecracker) configures the guest from that. `machine.rs` does the same with a veth in place of
//! the tap, so that the guest is a namespace that can be asked.

mod chains;
mod machine;
mod obligations;
