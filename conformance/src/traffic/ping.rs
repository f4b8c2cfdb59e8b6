//! Echo requests by the program `ping`.
//!
//! One process sends one request, so the time of an answer is known to some milliseconds.

use std::net::IpAddr;
use std::thread;
use std::time::{Duration, Instant};

use crate::namespace::Namespace;

/// Sends one echo request from inside a namespace and returns whether it was answered in time. Sends another one if nobody says whose the
/// address is: the kernel makes a container listen for that question in the background (`addrconf_dad_work`), on a busy machine seconds
/// after ADD. A request that went to a wrong place is not repeated.
pub fn ping(from: &Namespace, target: IpAddr, time: Duration) -> bool {
    let started = Instant::now();
    loop {
        let left = time.saturating_sub(started.elapsed()).max(Duration::from_millis(10));
        let wait = format!("{:.3}", left.as_secs_f64());
        if from.exec(&["ping", "-n", "-q", "-c", "1", "-W", &wait, &target.to_string()]).code == Some(0) {
            return true;
        }
        if started.elapsed() >= time {
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
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
