//! Runs tests with random configurations.

use std::env;
use std::fmt::Debug;

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

/// How often a failing configuration is made smaller.
const SHRINKS: u32 = 60;

/// Tries so many configurations, the same ones in every run, and shows the smallest one that fails.
/// `CNI_PROPERTY_SEED` (a number up to 255) draws others, `CNI_PROPERTY_CASES` more of them.
///
/// # Panics
/// When one fails.
pub fn holds<S: Strategy>(seed: u8, cases: u32, drawn: &S, live: impl Fn(S::Value))
where
    S::Value: Debug,
{
    let seed = number("CNI_PROPERTY_SEED").map_or(seed, |given| u8::try_from(given).expect("a seed up to 255"));
    let cases = number("CNI_PROPERTY_CASES").unwrap_or(cases);
    let config = Config { cases, max_shrink_iters: SHRINKS, failure_persistence: None, ..Config::default() };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]);
    let tried = TestRunner::new_with_rng(config, rng).run(drawn, |drawn| {
        live(drawn);
        Ok::<(), TestCaseError>(())
    });
    match tried {
        Ok(()) => {}
        Err(TestError::Fail(why, drawn)) => panic!("{why}\nseed {seed}:\n{drawn:#?}"),
        Err(TestError::Abort(why)) => panic!("no configurations can be drawn: {why}"),
    }
}

fn number(variable: &str) -> Option<u32> {
    let text = env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|error| panic!("{variable}={text}: {error}")))
}
