//! A network with a DHCP server, and the daemon of the dhcp plugin.

use std::fs;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use cni_conformance::binaries;

use super::host::PrivateHost;

/// The server that is run, and Debian's package of it.
pub const SERVER: (&str, &str) = ("/usr/sbin/dnsmasq", "dnsmasq-base");

/// The first address that it gives.
pub const FIRST: &str = "10.1.2.50/24";

const LOG: &str = "/run/conformance/server.log";
const SOCKET: &str = "/run/cni/dhcp.sock";

/// The time limit for server and daemon to get ready, or to do something.
const PATIENCE: Duration = Duration::from_secs(60);

/// A program that ends with this value.
#[derive(Debug)]
pub struct ChildGuard(Child);

impl ChildGuard {
    fn start(command: &mut Command) -> Self {
        let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().unwrap_or_else(|error| panic!("start {command:?}: {error}")))
    }
}

impl Drop for ChildGuard {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Connects `ctr1` to a server, without the plugin's daemon.
///
/// # Panics
/// When the server does not get ready.
pub fn serve(host: &PrivateHost) -> ChildGuard {
    let there = host.sandbox.container("server");
    host.sandbox.sh("ip link add srv0 netns server type veth peer name eth0 netns ctr1");
    host.guest.container.sh("ip link set eth0 up");
    there.sh("ip link set srv0 up");
    there.sh("ip address add 10.1.2.1/24 dev srv0");
    let mut command = Command::new("/bin/ip");
    command.args(["netns", "exec", "server", SERVER.0, "--keep-in-foreground", "--conf-file=/dev/null", "--port=0"]);
    command.args(["--interface=srv0", "--bind-interfaces", "--user=root", "--pid-file=", "--dhcp-authoritative"]);
    command.args(["--dhcp-leasefile=/run/conformance/leases", "--log-dhcp", "--no-ping", "--dhcp-sequential-ip"]);
    command.args(["--dhcp-range=10.1.2.50,10.1.2.60,255.255.255.0,2m", "--dhcp-option=3,10.1.2.1"]);
    let server = ChildGuard::start(command.arg(format!("--log-facility={LOG}")));
    assert!(has_logged("DHCP, IP range"), "the server does not get ready: {}", log());
    server
}

/// Starts the plugin's daemon.
///
/// # Panics If nothing answers at its socket.
pub fn daemon() -> ChildGuard {
    let daemon = ChildGuard::start(Command::new(binaries::under_test().join("dhcp")).arg("daemon"));
    assert!(until(|| UnixStream::connect(SOCKET).is_ok()), "nobody answers at {SOCKET}");
    daemon
}

/// Tells whether the server writes these words into its log, sooner or later.
pub fn has_logged(words: &str) -> bool {
    until(|| log().contains(words))
}

/// Returns the server's log.
pub fn log() -> String {
    fs::read_to_string(LOG).unwrap_or_default()
}

fn until(holds: impl Fn() -> bool) -> bool {
    let started = Instant::now();
    while !holds() {
        if started.elapsed() > PATIENCE {
            return false;
        }
        thread::sleep(Duration::from_millis(20));
    }
    true
}
