use std::process::Command;

use cni_core::error::{Code, Failure};
use netlink_packet_core::{NLMSG_DONE, NLMSG_ERROR, NetlinkBuffer};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::LinkMessage;
use nix::sched::{CloneFlags, unshare};

use crate::netlink::attribute::attributes;

use super::*;

const DATA: u16 = 16;

fn message(kind: u16, flags: u16, sequence: u32, payload: &[u8; 4]) -> Vec<u8> {
    let mut bytes = vec![0; 20];
    let mut message = NetlinkBuffer::new(&mut bytes);
    message.set_length(20);
    message.set_message_type(kind);
    message.set_flags(flags);
    message.set_sequence_number(sequence);
    message.payload_mut().copy_from_slice(payload);
    bytes
}

fn dumped(sequence: u32, flags: u16) -> Vec<u8> {
    let data = message(DATA, NLM_F_MULTIPART | flags, sequence, &sequence.to_ne_bytes());
    [data, message(NLMSG_DONE, NLM_F_MULTIPART | flags, sequence, &[0; 4])].concat()
}

fn question() -> RouteNetlinkMessage {
    RouteNetlinkMessage::GetLink(LinkMessage::default())
}

fn number(payload: &[u8]) -> Option<u32> {
    payload.try_into().map(u32::from_ne_bytes).ok()
}

#[test]
fn a_dump_that_is_interrupted_every_time_is_not_used() {
    let answers: Vec<_> = (1..=51).map(|sequence| dumped(sequence, NLM_F_DUMP_INTR)).collect();
    let (mut socket, _kernel) = played(&answers);
    assert_eq!(socket.dump(&question(), number), Err(Cause::Interrupted));
    assert_eq!(during(|| "list the links".to_owned())(Cause::Interrupted).code(), Code::TryAgain);
}

#[test]
fn a_dump_that_is_asked_for_once_is_not_repeated() {
    let (mut socket, _kernel) = played(&[dumped(1, NLM_F_DUMP_INTR), dumped(2, 0)]);
    assert_eq!(socket.dump_once(&question(), number), Ok(Dump::Interrupted(vec![1])));
    assert_eq!(socket.dump_once(&question(), number), Ok(Dump::Whole(vec![2])));
}

#[test]
fn a_dump_may_come_in_pieces() {
    let data = |payload: u32| message(DATA, NLM_F_MULTIPART, 1, &payload.to_ne_bytes());
    let answers = [[data(1), data(2)].concat(), data(3), message(NLMSG_DONE, NLM_F_MULTIPART, 1, &[0; 4])];
    let (mut socket, _kernel) = played(&answers);
    assert_eq!(socket.dump(&question(), number), Ok(vec![1, 2, 3]));
}

fn answered(sequence: u32, errno: i32) -> Vec<u8> {
    message(NLMSG_ERROR, 0, sequence, &(-errno).to_ne_bytes())
}

#[test]
fn of_a_series_each_refusal_is_reported_and_keeps_none_of_the_others() {
    let answers = [
        answered(3, libc::ENOENT),
        answered(64, 0),
        [answered(127, libc::EPERM), answered(128, libc::EBUSY)].concat(),
        answered(150, 0),
    ];
    let (mut socket, kernel) = played(&answers);
    let things: Vec<u32> = (1..=150).collect();
    let mut refused = Vec::new();
    let tell = |thing: &u32, cause: Cause| refused.push((*thing, cause.errno()));
    assert_eq!(socket.series(&things, |_| question(), tell), Ok(()));
    let want = [(3, libc::ENOENT), (127, libc::EPERM), (128, libc::EBUSY)];
    assert_eq!(refused, want.map(|(thing, errno)| (thing, Some(errno))));
    let mut datagram = vec![0; 1 << 16];
    for (first, length) in [(1_u32, 64), (65, 64), (129, 22)] {
        let size = kernel.recv(&mut datagram).expect("a datagram");
        let sent: Vec<_> = Messages::new(&datagram[..size]).map(|message| message.expect("sound")).collect();
        assert_eq!((sent.len(), sent[0].sequence), (length, first));
        let asks = |message: &crate::netlink::reply::Message<'_>| message.flags & NLM_F_ACK != 0;
        assert_eq!(sent.iter().position(asks), Some(length - 1), "the last alone is acknowledged");
    }
}

#[test]
fn silence_and_what_is_torn_or_comes_too_late_are_errors() {
    let (mut silent, _kernel) = played(&[]);
    assert_eq!(silent.series(&[], |_: &u32| question(), |_, cause| panic!("{cause}")), Ok(()), "it asks nothing");
    assert_eq!(silent.ask(question(), number), Err(Cause::Timeout));
    let (mut torn, _kernel) = played(&[vec![1; 20]]);
    assert_eq!(torn.ask(question(), number), Err(Cause::Malformed));
    let (mut late, _kernel) = played(&[dumped(1, 0)]);
    late.set_deadline(Some(Instant::now()));
    assert_eq!(late.dump(&question(), number), Err(Cause::Timeout));
}

#[test]
fn only_a_whole_answer_with_what_was_asked_for_counts_and_an_earlier_one_is_skipped() {
    let about = |index: u32| {
        let mut message = LinkMessage::default();
        message.header.index = index;
        RouteNetlinkMessage::GetLink(message)
    };
    let mut socket = Socket::open().expect("a netlink socket");
    socket.send(about(0x7fff_fff0), 0).expect("sent, its answer never read");
    let length = socket.ask(about(1), |all| Some(all.len())).expect("lo");
    assert!((256..CAPACITY).contains(&length), "{length}");
    assert_eq!(socket.ask(about(1), |_| None::<()>), Err(Cause::Malformed));
    socket.buffer = Vec::with_capacity(length / 2);
    assert_eq!(socket.ask(about(1), |all| Some(all.len())), Err(Cause::Malformed));
}

/// A socket that can receive no message of the kernel's, as a process without memory.
fn without_room(socket: &mut Socket) -> Vec<u8> {
    std::mem::replace(&mut socket.buffer, Vec::with_capacity(16))
}

fn names_of_links(socket: &mut Socket) -> Result<Vec<String>, Cause> {
    let links = socket.dump(&question(), |payload| {
        let name = attributes(payload.get(16..)?).find(|attribute| attribute.kind == libc::IFLA_IFNAME)?;
        Some(name.text())
    });
    links.map(|mut names| {
        names.sort();
        names
    })
}

/// There are more links than fit in two datagrams: otherwise the kernel has ended the dump when the first one is received.
#[test]
fn a_dump_that_failed_half_way_does_not_keep_the_next_one_from_its_namespace() {
    unshare(CloneFlags::CLONE_NEWNET).expect("a namespace; this test needs root");
    let mut socket = Socket::open().expect("a netlink socket");
    let mut links: Vec<String> = (10..50).map(|number| format!("br{number}")).collect();
    links.iter().for_each(|name| run(&format!("ip link add {name} type bridge")));
    links.push("lo".to_owned());
    unshare(CloneFlags::CLONE_NEWNET).expect("another namespace");
    let buffer = without_room(&mut socket);
    assert_eq!(names_of_links(&mut socket), Err(Cause::Malformed));
    socket.buffer = buffer;
    for _ in 0..2 {
        assert_eq!(names_of_links(&mut socket).as_ref(), Ok(&links));
    }
    let own = Netns::own().and_then(|own| own.is_same(&Netns::of_socket(&socket.inner)?)).expect("namespaces");
    assert!(!own, "the thread is where it was");
    let buffer = without_room(&mut socket);
    assert_eq!(names_of_links(&mut socket), Err(Cause::Malformed));
    socket.buffer = buffer;
    socket.set_link_up(1).expect("a change is made all the same");
}

fn run(command: &str) {
    let mut words = command.split(' ');
    let status = Command::new(words.next().expect("a program")).args(words).status().expect("iproute2 is installed");
    assert!(status.success(), "{command}");
}
