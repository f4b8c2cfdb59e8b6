//! Many containers come and go at once, on a host that has nothing before the first of them.
//!
//! The bridge, the chains, the tables, forwarding and the folders of leases and records are made by the container that comes
//! first, while others of them look. Some of the containers are the reference's, and administrators repair and collect
//! garbage meanwhile. In rounds without the reference nothing may be there twice; in rounds with it, no more than what
//! all containers share, which its check before insertion doubles, and the rules of containers that it has failed to add.
//!
//! `CNI_PARALLEL_ROUNDS` and `CNI_PARALLEL_CONTAINERS` make it larger.

mod calls;
mod host;
mod repeated_calls;
mod round;
mod tally;
mod traces;

use std::env;
use std::sync::Mutex;

use cni_conformance::reference;

use host::{Backend, Sides};
use round::Round;

/// As many processes at once as one round starts are enough.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// So many rounds unless the environment says otherwise.
const ROUNDS: usize = 2;
/// So many containers in each of them.
const CONTAINERS: usize = 10;

fn from_environment(variable: &str, otherwise: usize) -> usize {
    let Ok(text) = env::var(variable) else { return otherwise };
    text.parse().unwrap_or_else(|error| panic!("{variable}={text}: {error}"))
}

/// Every other round is without the reference.
fn rounds(backend: Backend) {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let reference = reference::find("containers of both at once on a fresh host");
    let containers = from_environment("CNI_PARALLEL_CONTAINERS", CONTAINERS);
    for number in 0..from_environment("CNI_PARALLEL_ROUNDS", ROUNDS) {
        let sides = match &reference {
            Some(reference) if number.is_multiple_of(2) => Sides::Both(reference.folder.clone()),
            Some(_) | None => Sides::Ours,
        };
        let reported = Round::new(backend, sides, containers).run();
        reference::say(&format!("{}, round {}: {reported}", backend.name(), number + 1));
    }
}

#[test]
fn all_at_once_where_iptables_keeps_its_tables_in_nf_tables() {
    rounds(Backend::IptablesNft);
}

#[test]
fn all_at_once_where_the_programs_of_iptables_are_scripts() {
    rounds(Backend::IptablesScripts);
}

#[test]
fn all_at_once_where_iptables_is_legacy() {
    rounds(Backend::IptablesLegacy);
}

#[test]
fn all_at_once_without_iptables() {
    rounds(Backend::Nftables);
}

#[test]
fn all_at_once_beside_firewalld() {
    rounds(Backend::Firewalld);
}
