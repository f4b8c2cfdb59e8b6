//! Prints the results of both sides as tables.

use std::time::Duration;

/// The one in the middle.
pub fn median<T: Ord + Copy + Default>(mut values: Vec<T>) -> T {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// How many times as much the reference takes.
pub fn ratio(ours: Duration, reference: Duration) -> f64 {
    reference.as_secs_f64() / ours.as_secs_f64()
}

pub fn head(what: &str, load: &str) {
    println!("\n{what:<22} {load:>10} {:>11} {:>11} {:>7}", "ours", "reference", "ratio");
}

pub fn row(operation: &str, load: usize, ours: Duration, reference: Duration) {
    println!("{operation:<22} {load:>10} {ours:>11.1?} {reference:>11.1?} {:>7.1}", ratio(ours, reference));
}

/// What one side takes beside others, as a multiple of what it takes alone.
pub fn growth(operation: &str, load: usize, time: Duration, alone: Duration) {
    println!("{operation:<22} {load:>10} {time:>11.1?} {:>19.1} times", time.as_secs_f64() / alone.as_secs_f64());
}
