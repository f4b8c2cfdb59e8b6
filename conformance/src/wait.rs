//! Waits for what the kernel, or another process, does a little later.

use std::thread;
use std::time::{Duration, Instant};

/// Waits until something is so.
///
/// # Panics
/// After a minute.
#[track_caller]
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < Duration::from_secs(60), "waited for: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}
