//! For any valid configuration, DEL removes exactly what ADD made: the life of two containers in drawn networks, as cases.
//!
//! Configurations are random, but the same in every run; `CNI_PROPERTY_SEED` (a number up to 255) gives others,
//! `CNI_PROPERTY_CASES` more of them. A failing one is made smaller and printed.

use cni_conformance::case::{Case, variants};
use cni_conformance::drawn::{holds, setups};

/// How many networks are drawn; most are carried out with both flavours of iptables.
const CASES: u32 = 24;

#[test]
fn del_removes_exactly_what_add_made_whatever_the_network() {
    holds(1, CASES, &setups(), |setup| {
        let case = Case::parse("drawn", &setup.case_text()).unwrap_or_else(|error| panic!("{error}"));
        for variant in variants(vec![case], &[]) {
            variant.run().unwrap_or_else(|failure| panic!("{}: {failure}", variant.name()));
        }
    });
}
