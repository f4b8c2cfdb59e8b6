//! Kernel parameters over netlink are those of their files.

use std::fs;
use std::process::Command;

use cni_core::family::Family;
use cni_core::names::IfName;
use cni_kernel::netlink::Socket;
use cni_model::plan::Sysctl;
use nix::sched::{CloneFlags, unshare};

/// What rtnetlink tells, and two values that the kernel takes.
const OF_AN_INTERFACE: [(Family, &str, [&str; 2]); 5] = [
    (Family::V4, "arp_notify", ["1", "0"]),
    (Family::V4, "route_localnet", ["1", "0"]),
    (Family::V6, "accept_ra", ["0", "2"]),
    (Family::V6, "accept_dad", ["0", "2"]),
    (Family::V6, "disable_ipv6", ["1", "0"]),
];

fn assert_reported(socket: &mut Socket, key: &Sysctl, values: [&str; 2]) {
    for value in values {
        fs::write(format!("/proc/sys/{}", key.path()), value).expect("written");
        assert_eq!(socket.parameter(key).as_deref(), Some(value), "{}", key.path());
    }
}

#[test]
fn netlink_tells_what_the_files_say() {
    unshare(CloneFlags::CLONE_NEWNET).expect("a new network namespace; this test needs root");
    let mut socket = Socket::open().expect("a socket");
    let name = IfName::parse("br.0").expect("a name");
    let made = Command::new("ip").args(["link", "add", name.as_str(), "type", "bridge"]).status();
    assert!(made.expect("ip").success());
    for (family, parameter, values) in OF_AN_INTERFACE {
        assert_reported(&mut socket, &Sysctl::interface(family, &name, parameter), values);
    }
    for family in Family::ALL {
        assert_reported(&mut socket, &Sysctl::forwarding(family), ["1", "0"]);
    }
}

#[test]
fn what_netlink_sets_is_in_the_file() {
    unshare(CloneFlags::CLONE_NEWNET).expect("a new network namespace; this test needs root");
    let mut socket = Socket::open().expect("a socket");
    let key = Sysctl::interface(Family::V4, &IfName::lo(), "arp_notify");
    for value in ["1", "0"] {
        assert!(socket.set_parameter(&key, value));
        assert_eq!(fs::read_to_string(format!("/proc/sys/{}", key.path())).expect("read").trim(), value);
    }
    let nobody = IfName::parse("nobody").expect("a name");
    for key in [Sysctl::interface(Family::V4, &nobody, "arp_notify"), Sysctl::forwarding(Family::V4)] {
        assert!(!socket.set_parameter(&key, "1"), "{}", key.path());
    }
}

/// Their files tell then.
#[test]
fn other_parameters_and_those_of_nobody_are_not_told() {
    unshare(CloneFlags::CLONE_NEWNET).expect("a new network namespace; this test needs root");
    let mut socket = Socket::open().expect("a socket");
    let nobody = IfName::parse("nobody").expect("a name");
    for key in [
        Sysctl::interface(Family::V6, &nobody, "accept_ra"),
        Sysctl::interface(Family::V4, &nobody, "rp_filter"),
        Sysctl::fixed(&["net", "core", "somaxconn"]),
    ] {
        assert_eq!(socket.parameter(&key), None, "{}", key.path());
    }
}
