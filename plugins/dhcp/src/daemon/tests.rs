//! The daemon on a machine that is played, with a server on its wire.

use std::collections::BTreeMap;
use std::time::Duration;

use super::*;
use crate::wire::{DhcpOptions, MessageType, Outgoing, code};

const MAC: Hardware = [2, 0, 0, 0, 0, 9];
const SERVER_MAC: Hardware = [2, 0, 0, 0, 0, 1];
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 1, 2, 1);

/// A machine: namespaces by their paths, what was sent and answered, and what is kept.
#[derive(Default)]
struct Machine {
    seconds: f64,
    mac: Hardware,
    is_busy: bool,
    ups: Vec<String>,
    namespaces: BTreeMap<String, String>,
    open: Vec<LeaseKey>,
    sent: Vec<(LeaseKey, OutgoingPacket)>,
    answers: Vec<(ConnectionId, DaemonAnswer)>,
    records: BTreeMap<LeaseKey, LeaseRecord>,
    done: Vec<String>,
}

impl DaemonHost for Machine {
    fn now(&mut self) -> Moment {
        Moment::at(Duration::from_secs_f64(self.seconds))
    }

    fn seed(&mut self) -> u64 {
        7
    }

    fn place(&mut self, _: ConnectionId, request: &LeaseRequest) -> Result<InterfaceLocation, DaemonRefusal> {
        let found = self.namespaces.get(&request.netns).cloned();
        let identity = found.ok_or_else(|| DaemonRefusal::of_namespace(format!("no netns {}", request.netns)))?;
        Ok(InterfaceLocation { netns: request.netns.clone(), ifname: request.key.ifname.clone(), identity })
    }

    fn listen(
        &mut self,
        key: &LeaseKey,
        place: &InterfaceLocation,
        _: Option<ConnectionId>,
    ) -> Result<Hardware, DaemonRefusal> {
        if self.namespaces.get(&place.netns) != Some(&place.identity) {
            return Err(DaemonRefusal::of_namespace("the namespace has ended".to_owned()));
        }
        if self.is_busy {
            return Err(DaemonRefusal::of_interface("too many open files".to_owned()));
        }
        if place.ifname != "eth0" {
            return Err(DaemonRefusal::of_interface(format!("error looking up {:?}: Link not found", place.ifname)));
        }
        assert!(!self.open.contains(key), "{key} is listened on already");
        self.open.push(key.clone());
        Ok(self.mac)
    }

    fn set_up(&mut self, place: &InterfaceLocation, _: ConnectionId) -> Result<(), DaemonRefusal> {
        self.ups.push(place.netns.clone());
        Ok(())
    }

    fn close(&mut self, key: &LeaseKey) {
        self.open.retain(|open| open != key);
    }

    fn send(&mut self, key: &LeaseKey, sending: &OutgoingPacket) {
        assert!(self.open.contains(key), "{key} is not listened on");
        self.sent.push((key.clone(), sending.clone()));
    }

    fn withdraw(&mut self, place: &InterfaceLocation, address: Ipv4Addr) {
        self.done.push(format!("withdraw {address} from {}", place.netns));
    }

    fn set_down(&mut self, place: &InterfaceLocation) {
        self.done.push(format!("set {} down", place.netns));
    }

    fn answer(&mut self, asker: ConnectionId, answer: &DaemonAnswer) {
        if let DaemonAnswer::Leased(grant) = answer {
            let is_kept = |record: &LeaseRecord| record.lease.grant.address == grant.address;
            assert!(self.records.values().any(is_kept), "{} would be lost with the daemon", grant.address);
        }
        if !matches!(answer, DaemonAnswer::Wait { .. }) {
            self.answers.push((asker, answer.clone()));
        }
    }

    fn save(&mut self, record: &LeaseRecord) {
        self.records.insert(record.key.clone(), record.clone());
    }

    fn forget(&mut self, key: &LeaseKey) {
        self.records.remove(key);
    }
}

impl Machine {
    fn new() -> Self {
        let namespaces = ["c1", "c2"].map(|name| (format!("/run/netns/{name}"), format!("boot:{name}")));
        Self { namespaces: namespaces.into(), mac: MAC, ..Self::default() }
    }

    /// What was said to somebody since it was asked last.
    fn said(&mut self, asker: ConnectionId) -> Option<DaemonAnswer> {
        let at = self.answers.iter().position(|(to, _)| *to == asker)?;
        Some(self.answers.remove(at).1)
    }

    fn refusal(&mut self, asker: ConnectionId) -> (Reason, String) {
        match self.said(asker) {
            Some(DaemonAnswer::Refused(DaemonRefusal { about, text })) => (about, text),
            other => panic!("not refused: {other:?}"),
        }
    }
}

fn key(container: &str) -> LeaseKey {
    LeaseKey { container: container.to_owned(), network: "lan".to_owned(), ifname: "eth0".to_owned() }
}

fn request(container: &str) -> LeaseRequest {
    let netns = format!("/run/netns/{container}");
    LeaseRequest { key: key(container), netns, provided: Vec::new(), requested: vec![3, 1] }
}

fn add(container: &str) -> Operation {
    Operation::Add(request(container))
}

fn check(container: &str, last: u8) -> Operation {
    Operation::Check { request: request(container), address: Some([10, 1, 2, last].into()) }
}

fn daemon() -> Daemon {
    Daemon::new(Limits::default(), false)
}

/// A message of a server, as the wire brings it.
fn packet(kind: MessageType, to: &OutgoingPacket, last: u8) -> Vec<u8> {
    let mut options = DhcpOptions::default();
    options.set(code::SERVER_IDENTIFIER, &SERVER.octets());
    options.set(code::SUBNET_MASK, &[255, 255, 255, 0]);
    options.set(code::LEASE_TIME, &20_u32.to_be_bytes());
    let message = Outgoing { kind, xid: to.message.xid, options, ..to.message.clone() };
    let mut payload = message.bytes();
    payload[0] = 2;
    payload[16..20].copy_from_slice(&[10, 1, 2, last]);
    let mut bytes = crate::wire::Datagram { source: SERVER, destination: Ipv4Addr::BROADCAST, payload }.bytes();
    bytes[20..24].rotate_left(2);
    bytes
}

/// Lets a server answer the last message.
fn serve(daemon: &mut Daemon, host: &mut Machine, last: u8) {
    let (key, sending) = host.sent.last().expect("a message").clone();
    let kind = if sending.message.kind == MessageType::Discover { MessageType::Offer } else { MessageType::Ack };
    daemon.received(&key, &packet(kind, &sending, last), SERVER_MAC, host);
}

/// Leases an address to a container.
fn lease(daemon: &mut Daemon, host: &mut Machine, container: &str, last: u8) {
    daemon.asked(1, add(container), host);
    serve(daemon, host, last);
    serve(daemon, host, last);
    let Some(DaemonAnswer::Leased(grant)) = host.said(1) else { panic!("no lease") };
    assert_eq!(grant.address, Ipv4Addr::new(10, 1, 2, last));
}

fn kinds(host: &Machine) -> Vec<MessageType> {
    host.sent.iter().map(|(_, sending)| sending.message.kind).collect()
}

#[test]
fn an_address_is_leased_repeated_kept_and_released() {
    let (mut daemon, mut host) = (daemon(), Machine::new());
    lease(&mut daemon, &mut host, "c1", 5);
    assert_eq!((host.open.len(), host.records.len()), (0, 1));
    daemon.asked(2, add("c1"), &mut host);
    assert!(matches!(host.said(2), Some(DaemonAnswer::Leased(_))), "at once");
    daemon.asked(3, check("c1", 5), &mut host);
    assert_eq!(host.said(3), Some(DaemonAnswer::Done));
    daemon.asked(4, Operation::Del { key: key("c1") }, &mut host);
    assert_eq!((host.said(4), host.open.len(), host.records.len()), (Some(DaemonAnswer::Done), 0, 0));
    assert_eq!(kinds(&host), [MessageType::Discover, MessageType::Request, MessageType::Release]);
    assert_eq!(host.done, ["withdraw 10.1.2.5 from /run/netns/c1"]);
    daemon.asked(5, Operation::Del { key: key("c1") }, &mut host);
    assert_eq!((host.said(5), kinds(&host).len(), daemon.entries.len()), (Some(DaemonAnswer::Done), 3, 0));
}

#[test]
fn who_asks_for_the_same_container_waits_for_the_same_lease() {
    let (mut daemon, mut host) = (daemon(), Machine::new());
    daemon.asked(1, add("c1"), &mut host);
    daemon.asked(2, add("c1"), &mut host);
    daemon.asked(3, check("c1", 6), &mut host);
    serve(&mut daemon, &mut host, 5);
    serve(&mut daemon, &mut host, 5);
    assert!(matches!((host.said(1), host.said(2)), (Some(DaemonAnswer::Leased(_)), Some(DaemonAnswer::Leased(_)))));
    assert_eq!(host.refusal(3).1, "the lease is of 10.1.2.5, and prevResult tells 10.1.2.6");
    assert_eq!(kinds(&host), [MessageType::Discover, MessageType::Request]);
}

#[test]
fn what_nobody_waits_for_is_not_looked_for() {
    let (mut daemon, mut host) = (daemon(), Machine::new());
    daemon.asked(1, add("c1"), &mut host);
    daemon.asked(2, add("c1"), &mut host);
    daemon.gone(1, &mut host);
    assert_eq!(daemon.entries.len(), 1);
    daemon.gone(2, &mut host);
    assert_eq!((daemon.entries.len(), host.open.len(), daemon.due(Moment::default())), (0, 0, None));
    lease(&mut daemon, &mut host, "c1", 5);
    daemon.gone(1, &mut host);
    assert_eq!(daemon.entries.len(), 1, "a lease stays");
}

#[test]
fn what_cannot_be_is_refused() {
    let (mut daemon, mut host) = (daemon(), Machine::new());
    daemon.asked(1, add("gone"), &mut host);
    assert_eq!(host.refusal(1), (Reason::Namespace, "no netns /run/netns/gone".to_owned()));
    let mut odd = request("c1");
    odd.key.ifname = "eth9".to_owned();
    daemon.asked(2, Operation::Add(odd), &mut host);
    assert_eq!(host.refusal(2), (Reason::Interface, r#"error looking up "eth9": Link not found"#.to_owned()));
    assert_eq!((daemon.entries.len(), host.open.len()), (0, 0));
}

#[test]
fn a_namespace_that_has_ended_or_is_another_one_needs_no_address() {
    for now in [None, Some("boot:another")] {
        let (mut daemon, mut host) = (daemon(), Machine::new());
        lease(&mut daemon, &mut host, "c1", 5);
        match now {
            None => drop(host.namespaces.remove("/run/netns/c1")),
            Some(other) => drop(host.namespaces.insert("/run/netns/c1".to_owned(), other.to_owned())),
        }
        host.seconds = 10.0;
        daemon.on_time(&mut host);
        assert_eq!((daemon.entries.len(), host.records.len(), kinds(&host).len()), (0, 0, 2));
    }
}

#[test]
fn a_container_in_a_new_namespace_asks_again() {
    let (mut daemon, mut host) = (daemon(), Machine::new());
    lease(&mut daemon, &mut host, "c1", 5);
    host.namespaces.insert("/run/netns/c1".to_owned(), "boot:again".to_owned());
    lease(&mut daemon, &mut host, "c1", 5);
    assert_eq!((daemon.entries.len(), host.records[&key("c1")].place.identity.as_str()), (1, "boot:again"));
}

/// The reference acquires another lease then, and passes.
#[test]
fn check_of_a_lease_that_is_not_known_asks_for_that_address() {
    let (mut daemon, mut host) = (daemon(), Machine::new());
    daemon.asked(1, check("c1", 5), &mut host);
    assert_eq!(kinds(&host), [MessageType::Request]);
    serve(&mut daemon, &mut host, 5);
    assert_eq!((host.said(1), host.records.len()), (Some(DaemonAnswer::Done), 1));

    let (mut daemon, mut host) = (self::daemon(), Machine::new());
    daemon.asked(1, check("c1", 5), &mut host);
    let (key, sending) = host.sent.last().expect("a message").clone();
    daemon.received(&key, &packet(MessageType::Nak, &sending, 0), SERVER_MAC, &mut host);
    assert_eq!(host.refusal(1), (Reason::Lease, "the DHCP server refuses 10.1.2.5".to_owned()));
    assert_eq!((daemon.entries.len(), host.open.len(), host.records.len()), (0, 0, 0));
}

#[test]
fn a_deleted_container_gets_no_lease_that_was_asked_for_before() {
    let (mut daemon, mut host) = (daemon(), Machine::new());
    daemon.asked(1, add("c1"), &mut host);
    daemon.asked(2, Operation::Del { key: key("c1") }, &mut host);
    assert_eq!(host.refusal(1), (Reason::Lease, "the container was deleted meanwhile".to_owned()));
    assert_eq!((daemon.entries.len(), host.open.len()), (0, 0));
}

/// Lets the time come for whatever is to be done next.
fn wake(daemon: &mut Daemon, host: &mut Machine) {
    let due = daemon.due(host.now()).expect("something is to be done");
    host.seconds = (due - Moment::default()).as_secs_f64();
    daemon.on_time(host);
}

#[test]
fn a_lease_outlives_what_keeps_a_message_from_being_sent_and_another_mac_address() {
    let (mut daemon, mut host) = (daemon(), Machine::new());
    lease(&mut daemon, &mut host, "c1", 5);
    (host.is_busy, host.mac) = (true, [2, 0, 0, 0, 0, 0x77]);
    wake(&mut daemon, &mut host);
    assert_eq!((daemon.entries.len(), host.records.len(), kinds(&host).len()), (1, 1, 2), "nothing was sent");
    host.is_busy = false;
    while kinds(&host).len() == 2 {
        wake(&mut daemon, &mut host);
    }
    let (_, renewal) = host.sent.last().expect("a message").clone();
    assert_eq!(
        (renewal.message.kind, renewal.message.mac),
        (MessageType::Request, MAC),
        "the lease is of the first address"
    );
    serve(&mut daemon, &mut host, 5);
    let now = host.now();
    assert_eq!((host.records[&key("c1")].lease.since, host.seconds < 20.0), (now, true));
}

#[test]
fn check_knows_a_namespace_by_any_path_and_harms_no_lease() {
    let (mut daemon, mut host) = (daemon(), Machine::new());
    lease(&mut daemon, &mut host, "c1", 5);
    host.namespaces.insert("/var/run/netns/c1".to_owned(), "boot:c1".to_owned());
    let by = |netns: &str| {
        let request = LeaseRequest { netns: netns.to_owned(), ..request("c1") };
        Operation::Check { request, address: Some([10, 1, 2, 5].into()) }
    };
    daemon.asked(2, by("/var/run/netns/c1"), &mut host);
    assert_eq!(host.said(2), Some(DaemonAnswer::Done));
    daemon.asked(3, by("/run/netns/c2"), &mut host);
    let says = "the lease is of another namespace, at /run/netns/c1";
    assert_eq!(host.refusal(3), (Reason::Lease, says.to_owned()));
    assert_eq!((host.records.len(), kinds(&host).len()), (1, 2));
}

#[test]
fn only_add_sets_an_interface_up() {
    let (mut daemon, mut host) = (daemon(), Machine::new());
    daemon.asked(1, check("c1", 5), &mut host);
    serve(&mut daemon, &mut host, 5);
    assert_eq!((host.said(1), host.ups.len()), (Some(DaemonAnswer::Done), 0));
    wake(&mut daemon, &mut host);
    assert!(host.ups.is_empty(), "a renewal");
    lease(&mut daemon, &mut host, "c2", 6);
    assert_eq!(host.ups, ["/run/netns/c2"]);
}
