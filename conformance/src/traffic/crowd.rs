//! A host with many tracked connections.

use std::net::UdpSocket;

use crate::Sandbox;

/// Lets a host track this many UDP connections more, for as long as a test takes: of its own 127.0.0.3 to
/// ports from 10 000 to 40 000. It tracks none before it has a rule that asks for the state of one.
///
/// # Panics
/// When that fails, such as for want of room in the kernel's table.
pub fn crowd(sandbox: &Sandbox, count: usize) {
    const PORTS: usize = 30_000;
    sandbox.set_sysctl("net/netfilter/nf_conntrack_udp_timeout", "3600");
    let send = || {
        for (source, first) in (40_000..).zip((0..count).step_by(PORTS)) {
            let client = UdpSocket::bind(("127.0.0.3", source)).expect("bound");
            for port in (10_000..).take(PORTS.min(count - first)) {
                client.send_to(b"?", ("127.0.0.4", port)).expect("sent");
            }
        }
    };
    sandbox.host().run(send);
    let tracked: usize = sandbox.sysctl("net/netfilter/nf_conntrack_count").parse().expect("a number");
    assert!(tracked >= count, "the host tracks {tracked} connections and not {count}");
}
