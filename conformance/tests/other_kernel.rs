//! Tests of plugins that need something of the kernel which the machine's own may not have: they run on one that has it, in one
//! boot for all of them. `cni_conformance::uml` tells how.

#[path = "bridge/vlan/mod.rs"]
mod bridge_vlan;
mod dummy;
mod ipvlan;
mod macvlan;
#[path = "host_device/network_card.rs"]
mod network_card;
mod on_a_master;
mod vlan;
mod vrf;
