//! The program that has the device open sends and receives its frames.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use cni_conformance::cases::one_of_three_within;
use cni_conformance::traffic::ping_until_answered;
use cni_conformance::{Attachment, ListHost, Network};
use serde_json::json;

use crate::tap::setup::list;

const PATIENCE: Duration = Duration::from_secs(60);

/// Opens a tap device as a virtual machine would, and passes its frames to and from a socket.
const CABLE: &str = r#"
import fcntl, os, select, socket, struct, sys
name, own, other = sys.argv[1:4]
tap = os.open("/dev/net/tun", os.O_RDWR)
fcntl.ioctl(tap, 0x400454ca, struct.pack("16sH22x", name.encode(), 0x1002))
wire = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
wire.bind(own)
while True:
    for ready in select.select([tap, wire], [], [])[0]:
        if ready == tap:
            frame = os.read(tap, 65536)
            try:
                wire.sendto(frame, other)
            except OSError:
                pass
        else:
            os.write(tap, wire.recv(65536))
"#;

/// A program that has a device open, until this is dropped.
struct OpenDevice(Child);

impl OpenDevice {
    fn start(container: &str, own: &str, other: &str) -> Self {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", container, "python3", "-c", CABLE, "eth0", own, other]);
        Self(command.stdin(Stdio::null()).spawn().expect("python3 is installed"))
    }
}

impl Drop for OpenDevice {
    fn drop(&mut self) {
        self.0.kill().and_then(|()| self.0.wait()).map(drop).expect("a child that can be killed");
    }
}

fn addressed(last: u8) -> serde_json::Value {
    let addresses = json!([{"address": format!("10.1.2.{last}/24")}, {"address": format!("fd00:1::{last}/64")}]);
    list(&json!({"ipam": {"type": "static", "addresses": addresses}}))
}

#[test]
fn two_containers_reach_each_other_by_a_cable_between_their_devices() {
    let host = ListHost::new(addressed(1));
    let (one, _) = host.add("one");
    let other = ListHost { list: addressed(2), ..host };
    let (two, _) = other.add("two");
    let [a, b] = ["/run/conformance/a", "/run/conformance/b"];
    assert!(!Network::observe(&one).links.is_empty());
    let _machines = [OpenDevice::start("one", a, b), OpenDevice::start("two", b, a)];
    for (from, target) in [(&one, "10.1.2.2"), (&two, "10.1.2.1"), (&one, "fd00:1::2"), (&two, "fd00:1::1")] {
        ping_until_answered(from, target.parse().expect("an address"), PATIENCE);
    }
}

/// Nobody has it open, so it has no carrier; the reference waits five seconds for an IPv6 address then.
#[test]
fn an_ipv6_address_does_not_wait_for_a_program() {
    let ipam = json!({"type": "static", "addresses": [{"address": "fd00:1::5/64", "gateway": "fd00:1::1"}]});
    one_of_three_within(Duration::from_secs(3), || {
        let host = ListHost::new(list(&json!({"ipam": ipam})));
        let container = host.sandbox.container("id1");
        let mut attachment = Attachment::new("id1", &container);
        let chain = host.runtime().add(&mut attachment);
        chain.expect_success();
        chain.step("tap").elapsed()
    });
}
