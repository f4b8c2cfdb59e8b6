//! What the kernel of this machine may be unable to show: on one that can, in one boot for all of it.
//!
//! `cni_conformance::uml` tells how.

mod bridge_vlan;
mod differential;
mod dummy;
mod host_device;
mod on_a_master;
mod property;
mod vrf;
