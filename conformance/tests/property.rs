//! Whatever a valid configuration says, DEL removes exactly what ADD made.
//!
//! Configurations are drawn at random, the same ones in every run; `CNI_PROPERTY_SEED` (a number up to
//! 255) draws others, `CNI_PROPERTY_CASES` more of them. One that fails is made smaller and printed.

#[path = "property/life.rs"]
mod life;

use std::env;

use cni_conformance::Flavour;
use cni_conformance::drawn::{Chained, Setup, setups};
use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use life::live;

/// How many configurations a test draws.
const CASES: u32 = 12;

/// How often a configuration that fails is made smaller.
const SHRINKS: u32 = 60;

#[test]
fn del_removes_exactly_what_add_made_behind_bridge_alone() {
    holds(1, &setups(Flavour::Nft, &[]));
}

#[test]
fn del_removes_exactly_what_add_made_behind_bridge_and_firewall() {
    holds(2, &setups(Flavour::Nft, &[Chained::Firewall]));
}

#[test]
fn del_removes_exactly_what_add_made_behind_bridge_and_portmap() {
    holds(3, &setups(Flavour::Nft, &[Chained::Portmap]));
}

#[test]
fn del_removes_exactly_what_add_made_behind_all_plugins_on_legacy_iptables() {
    holds(4, &setups(Flavour::Legacy, &[Chained::Firewall, Chained::Portmap]));
}

/// Tries configurations, and shows the smallest one that fails.
fn holds(seed: u8, setups: &impl Strategy<Value = Setup>) {
    let seed = number("CNI_PROPERTY_SEED").map_or(seed, |given| u8::try_from(given).expect("a seed up to 255"));
    let cases = number("CNI_PROPERTY_CASES").unwrap_or(CASES);
    let config = Config { cases, max_shrink_iters: SHRINKS, failure_persistence: None, ..Config::default() };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]);
    let tried = TestRunner::new_with_rng(config, rng).run(setups, |setup| {
        live(&setup);
        Ok::<(), TestCaseError>(())
    });
    match tried {
        Ok(()) => {}
        Err(TestError::Fail(why, setup)) => {
            panic!("{why}\nseed {seed}, on {:?}, container {:?}:\n{:#}", setup.flavour, setup.id, setup.list())
        }
        Err(TestError::Abort(why)) => panic!("no configurations can be drawn: {why}"),
    }
}

fn number(variable: &str) -> Option<u32> {
    let text = env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|error| panic!("{variable}={text}: {error}")))
}
