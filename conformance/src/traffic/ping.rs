//! Echo requests by the program `ping`.
//!
//! One process sends one request, so the time of an answer is known to some milliseconds.

use std::net::IpAddr;
use std::thread;
use std::time::{Duration, Instant};

use crate::namespace::Namespace;

/// Sends one echo request from inside a namespace and returns whether it was answered in time.
pub fn ping(from: &Namespace, target: IpAddr, time: Duration) -> bool {
    let wait = format!("{:.3}", time.as_secs_f64());
    from.exec(&["ping", "-n", "-q", "-c", "1", "-W", &wait, &target.to_string()]).code == Some(0)
}

/// Sends echo requests until one is answered and returns how long that took.
///
/// # Panics
/// When none is answered within `time`.
#[track_caller]
pub fn ping_until_answered(from: &Namespace, target: IpAddr, time: Duration) -> Duration {
    let started = Instant::now();
    loop {
        if ping(from, target, Duration::from_millis(50)) {
            return started.elapsed();
        }
        assert!(started.elapsed() < time, "{} got no answer from {target} within {time:?}", from.name());
        thread::sleep(Duration::from_millis(5));
    }
}
