//! Kills ADDs half-way, each a moment later than the one before.

use std::thread::sleep;
use std::time::Duration;

use crate::Invocation;

/// How long the processes that a killed plugin has started may still run.
const REST: Duration = Duration::from_millis(50);

/// The largest number of rounds for each requested one: on a busy machine one ADD may take ten times as long as the
/// next.
const PATIENCE: u32 = 4;

/// Runs an ADD to its end once to see how long it takes, then kills as many as are asked for, on a new host each, at moments
/// spread over that time, or over that of a faster one that was not hit. What `before` has told of a host goes to `then`, which is
/// to delete and compare.
///
/// # Panics
/// When so few were killed before they ended that it is less than a quarter of those that are asked for.
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
    let (mut whole, mut hits, enough) = (outcome.elapsed(), 0, rounds / 4);
    for round in 0..PATIENCE * rounds {
        if round >= rounds && hits >= enough {
            break;
        }
        let host = host();
        let reported = before(&host);
        let killed = add(&host).killed_after(whole * (round % rounds + 1) / (rounds + 1)).run();
        match killed.code() {
            None => hits += 1,
            Some(_) => whole = whole.min(killed.elapsed()),
        }
        sleep(REST);
        then(&host, &reported);
    }
    assert!(hits >= enough, "only {hits} processes were killed before they ended, of {rounds} that are asked for");
}
