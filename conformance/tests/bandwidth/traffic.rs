//! How fast packets go, measured.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::ops::Range;
use std::thread;
use std::time::{Duration, Instant};

use cni_conformance::Namespace;
use cni_conformance::Verb::{Add, Del};
use cni_conformance::cases::within_three_attempts;
use serde_json::json;

use crate::bandwidth::setup::Limited;

/// How much is sent: a second's worth at the rate of the limits.
const BYTES: usize = 1_000_000;

/// How long it takes to send all of it from one namespace to an address in another.
fn time(from: &Namespace, to: &Namespace, address: &str) -> Duration {
    let listener = to.run(|| TcpListener::bind((address, 0))).expect("listen");
    let port = listener.local_addr().expect("an address").port();
    let receiver = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("accept");
        let mut received = Vec::new();
        stream.read_to_end(&mut received).expect("receive");
        assert_eq!(received.len(), BYTES);
        Instant::now()
    });
    let started = Instant::now();
    let mut stream = from.run(|| TcpStream::connect((address, port))).expect("connect");
    stream.write_all(&vec![7; BYTES]).expect("send");
    drop(stream);
    receiver.join().expect("the receiver").duration_since(started)
}

fn addressed() -> Limited {
    let limited = Limited::new();
    limited.sandbox.sh("ip address add 10.90.0.1/24 dev host0");
    limited.container.sh("ip address add 10.90.0.2/24 dev eth0");
    limited
}

/// A second's worth takes a second; without a limit, a few milliseconds.
#[test]
fn each_direction_is_as_fast_as_its_limit() {
    let limited = addressed();
    let host = limited.sandbox.host();
    let to_container = || time(host, &limited.container, "10.90.0.2");
    let from_container = || time(&limited.container, host, "10.90.0.1");
    let slow = Duration::from_millis(700)..Duration::from_secs(60);
    let fast = Duration::ZERO..Duration::from_millis(500);
    let take = |receives: &Range<Duration>, sends: &Range<Duration>, case: &str| {
        within_three_attempts(|| {
            let times = [to_container(), from_container()];
            let is_right = receives.contains(&times[0]) && sends.contains(&times[1]);
            if is_right { Ok(()) } else { Err(format!("{case}: {times:?}")) }
        });
    };
    let (rate, burst) = (8 * BYTES, 400_000);
    for (keys, receives, sends) in [
        (json!({}), &fast, &fast),
        (json!({"ingressRate": rate, "ingressBurst": burst}), &slow, &fast),
        (json!({"egressRate": rate, "egressBurst": burst}), &fast, &slow),
    ] {
        limited.succeeds(&[Add], &keys);
        take(receives, sends, &keys.to_string());
        limited.succeeds(&[Del], &keys);
    }
    take(&fast, &fast, "after DEL");
}
