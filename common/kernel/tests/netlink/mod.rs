//! The netlink layer against the real kernel. Every test makes its own network namespaces, which ends
//! with its thread; `ip` is the independent witness where the layer itself cannot see what it changed.

use std::fs::File;
use std::net::IpAddr;
use std::process::Command;
use std::rc::Rc;

use cni_core::cidr::Cidr;
use cni_core::mac::Mac;
use cni_core::names::IfName;
use cni_kernel::netlink::{NetlinkError, Socket};
use cni_model::link::Link;
use cni_model::plan::{IfPresent, LinkKind, NewLink, NewRoute, Ns, VethPeer};
use nix::sched::{CloneFlags, setns, unshare};

mod addresses;
mod links;
mod numbers;
mod routes;

/// A network namespace and a socket in it.
struct Namespace {
    netns: Rc<File>,
    socket: Socket,
}

impl Namespace {
    /// Moves the thread of the test into a new namespace, with `lo` up.
    fn enter() -> Self {
        unshare(CloneFlags::CLONE_NEWNET).expect("a new network namespace; this test needs root");
        let netns = File::open("/proc/thread-self/ns/net").expect("the namespace of the thread");
        let mut namespace = Self { netns: Rc::new(netns), socket: Socket::open().expect("a socket") };
        namespace.socket.set_link_up(1).expect("lo up");
        namespace
    }

    /// Runs `ip` (or another program of iproute2) in the namespace and returns what it prints.
    fn run(&self, command: &str) -> String {
        setns(&*self.netns, CloneFlags::CLONE_NEWNET).expect("back into the namespace");
        let mut words = command.split(' ');
        let output =
            Command::new(words.next().expect("a program")).args(words).output().expect("iproute2 is installed");
        assert!(output.status.success(), "{command}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    }

    fn link(&mut self, name: &str) -> Link {
        self.socket.link(name).expect("an answer").unwrap_or_else(|| panic!("there is no link {name}"))
    }

    fn bridge(&mut self, name: &str) -> Link {
        self.socket.create_link(&bridge(name, 1), None).expect("a bridge");
        self.link(name)
    }

    /// Makes a veth with both ends here, both up.
    fn veth(&mut self, name: &str, peer_name: &str) -> Link {
        self.socket.create_link(&veth(name, peer_name), None).expect("a veth");
        for name in [peer_name, name] {
            let index = self.link(name).index;
            self.socket.set_link_up(index).expect("up");
        }
        self.link(name)
    }
}

fn mac(last: u8) -> Mac {
    Mac::local([2, 0, 0, 0, 0, last])
}

fn cidr(text: &str) -> Cidr {
    text.parse().expect("a CIDR")
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn route(dst: &str, gw: Option<&str>) -> NewRoute {
    NewRoute { gw: gw.map(ip), ..NewRoute::to(cidr(dst)) }
}

fn name(name: &str) -> IfName {
    IfName::parse(name).expect("a name")
}

fn link(new: &str, kind: LinkKind) -> NewLink {
    NewLink { name: name(new), mac: None, mtu: None, if_present: IfPresent::Refuse, kind }
}

fn bridge(new: &str, last: u8) -> NewLink {
    NewLink { mac: Some(mac(last)), ..link(new, LinkKind::Bridge { vlan_filtering: false }) }
}

/// A pair whose first end is in the namespace of the socket that makes it.
fn veth(new: &str, peer: &str) -> NewLink {
    let peer = VethPeer { ns: Ns::Host, name: name(peer), mac: mac(5) };
    NewLink { mac: Some(mac(4)), ..link(new, LinkKind::Veth { peer }) }
}

fn errno<T: std::fmt::Debug>(result: Result<T, NetlinkError>) -> Option<i32> {
    result.expect_err("refused").errno()
}
