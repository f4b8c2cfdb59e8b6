//! Frames reach the program that has the device open, and nothing else does. `host/vm` boots a virtual machine there.

use std::process::{Command, Stdio};
use std::time::Duration;

use cni_conformance::ListHost;
use serde_json::json;

use super::setup::list;

/// Opens the device as a monitor does, answers the first ARP question for an address by a frame, and prints how many frames
/// it has got in the time before.
const MONITOR: &str = r#"
import fcntl, os, select, struct, sys, time
name, seconds = sys.argv[1], float(sys.argv[2])
tap = os.open("/dev/net/tun", os.O_RDWR)
fcntl.ioctl(tap, 0x400454ca, struct.pack("16sH22x", name.encode(), 0x1002 | 0x4000))
end, kinds = time.time() + seconds, []
while (left := end - time.time()) > 0:
    if select.select([tap], [], [], left)[0]:
        frame = os.read(tap, 65536)[10:]
        kinds.append(frame[12:14].hex())
print(" ".join(kinds))
"#;

/// The namespace has an IPv6 address on each other link, and would ask for routers and neighbours there.
#[test]
fn the_device_sends_nothing_of_its_own_into_the_virtual_machine() {
    let host = ListHost::new(list(&json!({})));
    let (container, _) = host.add("id1");
    // The other end of ptp must be silent too.
    host.sandbox.host().must(&["sh", "-c", "for f in /proc/sys/net/ipv6/conf/*/disable_ipv6; do echo 1 > $f; done"]);
    let mut command = Command::new("ip");
    command.args(["netns", "exec", container.name(), "python3", "-c", MONITOR, "tap0", "3"]);
    let output = command.stdin(Stdio::null()).output().expect("python3 is installed");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "");
}

#[test]
fn what_comes_to_the_interface_reaches_the_program_and_not_the_namespace() {
    let host = ListHost::new(list(&json!({})));
    let (container, _) = host.add("id1");
    let mut command = Command::new("ip");
    command.args(["netns", "exec", container.name(), "python3", "-c", MONITOR, "tap0", "3"]);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("python3 is installed");
    std::thread::sleep(Duration::from_millis(500));
    let pinged = host.sandbox.exec(&["ping", "-c", "1", "-W", "1", "10.1.2.2"]);
    assert_ne!(pinged.code, Some(0), "the namespace does not answer for the virtual machine");
    let output = child.wait_with_output().expect("the program ends");
    let kinds = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(kinds.contains("0806") || kinds.contains("0800"), "ARP or IPv4 frames: {kinds:?}");
}
