//! ADDs that are killed on their way, each a moment later than the one before.

use std::thread::sleep;
use std::time::Duration;

use crate::Invocation;

/// How long the processes that a killed plugin has started may still be at work.
const REST: Duration = Duration::from_millis(50);

/// Runs an ADD to its end once to see how long it takes, then kills as many as are asked for, on a new host each, at moments
/// spread over that time. What `before` has told of a host goes to `then`, which is to delete and compare.
///
/// # Panics
/// When less than a quarter of them were killed before they ended.
#[track_caller]
pub fn at_each_moment<H, B>(
    rounds: u32,
    host: impl Fn() -> H,
    add: impl Fn(&H) -> Invocation,
    before: impl Fn(&H) -> B,
    then: impl Fn(&H, &B),
) {
    let outcome = add(&host()).run();
    outcome.expect_success();
    let whole = outcome.elapsed();
    let mut hits = 0;
    for round in 0..rounds {
        let host = host();
        let told = before(&host);
        let after = whole * (round + 1) / (rounds + 1);
        hits += u32::from(add(&host).killed_after(after).run().code().is_none());
        sleep(REST);
        then(&host, &told);
    }
    assert!(hits >= rounds / 4, "only {hits} of {rounds} processes were killed before they ended");
}
