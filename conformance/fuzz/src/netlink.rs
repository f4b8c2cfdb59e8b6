//! Answers of route netlink: a byte that selects the question, and a datagram of the kernel.
//!
//! Addresses of IPv4 come first, and each VLAN has a number that a tag can hold.

use std::fmt::Debug;
use std::net::IpAddr;

use cni_core::family::Family;
use cni_kernel::netlink::{NetlinkError, Socket, played};
use cni_model::link::Link;

/// Length of a message's header.
const HEADER: usize = 16;

pub fn run(input: &[u8]) -> Option<()> {
    let [question, datagram @ ..] = input else { return None };
    let reported = ask(*question, answered(datagram));
    reported.starts_with("Ok").then_some(())
}

/// How many questions there are.
const QUESTIONS: u8 = 11;

/// What comes of a question to a kernel that answers with a datagram, as text.
fn ask(question: u8, datagram: Vec<u8>) -> String {
    let address = IpAddr::from([10, 1, 2, 3]);
    let (mut socket, _kernel) = played(&[datagram]);
    match question % QUESTIONS {
        0 => reported(socket.link("eth0")),
        1 => reported(socket.link_by_index(7)),
        2 => reported(socket.links_of_kind("veth")),
        3 => reported(sorted(socket.addresses(None, None))),
        4 => reported(socket.addresses(7, Some(Family::V6))),
        5 => reported(socket.routes(Family::V4, None)),
        6 => reported(socket.routes(Family::V6, Some(254))),
        7 => reported(socket.route_to(address)),
        8 => reported(socket.is_local(address, None)),
        9 => reported(socket.local_networks(Family::V4)),
        _ => reported(vlans(&mut socket)),
    }
}

fn reported<T: Debug>(answer: Result<T, NetlinkError>) -> String {
    if let Err(error) = &answer {
        assert!(!error.to_string().is_empty(), "{error:?}");
    }
    format!("{answer:?}")
}

/// IPv4 comes first.
fn sorted(
    addresses: Result<Vec<cni_model::link::Address>, NetlinkError>,
) -> Result<Vec<cni_model::link::Address>, NetlinkError> {
    let addresses = addresses?;
    assert!(addresses.is_sorted_by_key(|address| address.cidr.family()), "{addresses:?}");
    Ok(addresses)
}

fn vlans(socket: &mut Socket) -> Result<String, NetlinkError> {
    let vlans = socket.bridge_vlans(7)?;
    assert!(vlans.iter().all(|vlan| (1..=4094).contains(&vlan.id.number())), "{vlans:?}");
    let peer = socket.peer_addresses(&Link { peer: Some(7), peer_netns: Some(1), ..Link::default() });
    Ok(format!("{vlans:?} {}", peer.is_ok()))
}

/// The datagram as the answer to the first request.
pub fn answered(datagram: &[u8]) -> Vec<u8> {
    let mut bytes = datagram.to_vec();
    for start in starts(datagram) {
        bytes[start + 8..start + 12].copy_from_slice(&1_u32.to_ne_bytes());
    }
    bytes
}

/// Where the messages of a datagram begin, as far as they are sound.
fn starts(datagram: &[u8]) -> Vec<usize> {
    let (mut starts, mut at) = (Vec::new(), 0);
    while datagram.len().saturating_sub(at) >= HEADER {
        let length = length(datagram, at);
        if length < HEADER || length > datagram.len() - at {
            break;
        }
        starts.push(at);
        at = at.saturating_add(length.next_multiple_of(4));
    }
    starts
}

fn length(datagram: &[u8], at: usize) -> usize {
    let bytes = [datagram[at], datagram[at + 1], datagram[at + 2], datagram[at + 3]];
    usize::try_from(u32::from_ne_bytes(bytes)).unwrap_or(usize::MAX)
}
