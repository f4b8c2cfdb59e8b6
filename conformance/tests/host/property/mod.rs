//! For any valid configuration, DEL removes exactly what ADD made.
//!
//! Configurations are random, but the same in every run; `CNI_PROPERTY_SEED` (a number up to 255) gives others,
//! `CNI_PROPERTY_CASES` more of them. A failing one is made smaller and printed.

mod life;

use cni_conformance::Flavour;
use cni_conformance::drawn::{Chained, holds, setups};

use life::live;

/// How many configurations a test draws.
const CASES: u32 = 12;

#[test]
fn del_removes_exactly_what_add_made_behind_bridge_alone() {
    holds(1, CASES, &setups(Flavour::Nft, &[]), |setup| live(&setup));
}

#[test]
fn del_removes_exactly_what_add_made_behind_bridge_and_firewall() {
    holds(2, CASES, &setups(Flavour::Nft, &[Chained::Firewall]), |setup| live(&setup));
}

#[test]
fn del_removes_exactly_what_add_made_behind_bridge_and_portmap() {
    holds(3, CASES, &setups(Flavour::Nft, &[Chained::Portmap]), |setup| live(&setup));
}

#[test]
fn del_removes_exactly_what_add_made_behind_all_plugins_on_legacy_iptables() {
    holds(4, CASES, &setups(Flavour::Legacy, &[Chained::Firewall, Chained::Portmap]), |setup| live(&setup));
}
