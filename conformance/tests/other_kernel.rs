//! Tests that need a kernel feature which the machine's kernel may lack: they run on a kernel that has it, in one boot
//! for all of them. `cni_conformance::uml` explains how.

#[path = "bridge/vlan.rs"]
mod bridge_vlan;
#[path = "host_device/network_card.rs"]
mod network_card;
mod on_a_master;
