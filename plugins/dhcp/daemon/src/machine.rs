//! The effects of the daemon on Linux.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

use crate::packet::PacketSocket;
use cni_core::error::Error;
use cni_core::family::Family;
use cni_dhcp::client::Moment;
use cni_dhcp::client::OutgoingPacket;
use cni_dhcp::daemon::{ConnectionId, DaemonHost};
use cni_dhcp::protocol::{DaemonAnswer, DaemonRefusal, LeaseRequest, Reason};
use cni_dhcp::record::LeaseRecord;
use cni_dhcp::record::{InterfaceLocation, LeaseKey};
use cni_dhcp::wire::{Datagram, Hardware};
use cni_kernel::netlink::Socket;
use cni_kernel::netns::Netns;
use cni_linux::ledger::{identity, since_boot};
use cni_model::link::Link;
use cni_model::netns::NetnsError;

use crate::connection::{Connection, ReadEvent};
use crate::records::LeaseRecords;

/// The time limit for a plugin to send its question.
const SILENCE: Duration = Duration::from_secs(10);
/// The largest number of open connections: more wait in the queue of the socket.
const MOST_CONNECTIONS: usize = 1000;
/// The pause after a connection could not be accepted, for example for lack of descriptors.
const PAUSE: Duration = Duration::from_secs(1);
/// How many packets are read at a time, so that a flood on one interface does not block the others.
const MOST_PACKETS: usize = 32;

pub struct LinuxDaemonHost {
    host_prefix: String,
    records: LeaseRecords,
    connections: BTreeMap<ConnectionId, Connection>,
    wires: BTreeMap<LeaseKey, PacketSocket>,
    asked: ConnectionId,
    last: Moment,
    /// Until when no plugin is listened to, since the last one could not be.
    deaf_until: Option<Moment>,
}

impl LinuxDaemonHost {
    pub fn new(host_prefix: String, leases: &Path) -> Self {
        Self {
            host_prefix,
            records: LeaseRecords::new(leases),
            connections: BTreeMap::new(),
            wires: BTreeMap::new(),
            asked: 0,
            last: Moment::default(),
            deaf_until: None,
        }
    }

    /// The stored leases whose namespaces still exist.
    pub fn kept(&self) -> Vec<LeaseRecord> {
        let mut found = self.records.all();
        found.retain(|record| match open_place(&record.place) {
            Ok(_) => true,
            Err(DaemonRefusal { about: Reason::Namespace, text }) => {
                log::info!("the lease of {} is not gone on with: {text}", record.key);
                self.records.forget(&record.key);
                false
            }
            Err(error) => {
                log::warn!("the namespace of {}: {}", record.key, error.text);
                true
            }
        });
        found
    }

    /// Whether another connection can be accepted.
    pub fn has_room(&self) -> bool {
        self.deaf_until.is_none_or(|until| until <= self.last) && self.connections.len() < MOST_CONNECTIONS
    }

    /// When plugins are listened to again.
    pub fn deaf_until(&self) -> Option<Moment> {
        self.deaf_until.filter(|until| *until > self.last)
    }

    pub fn accept(&mut self, listener: &UnixListener) {
        while self.has_room() {
            match listener.accept() {
                Ok((stream, _)) => {
                    if let Err(error) = stream.set_nonblocking(true) {
                        log::warn!("a plugin is not listened to: {error}");
                        continue;
                    }
                    self.asked += 1;
                    let until = self.now() + SILENCE;
                    self.connections.insert(self.asked, Connection::new(stream, until));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => {
                    self.deaf_until = Some(self.now() + PAUSE);
                    return log::warn!("plugins wait, since one cannot be listened to: {error}");
                }
            }
        }
    }

    pub fn connections(&self) -> impl Iterator<Item = (ConnectionId, BorrowedFd<'_>)> {
        self.connections.iter().map(|(asker, connection)| (*asker, connection.stream.as_fd()))
    }

    pub fn wires(&self) -> impl Iterator<Item = (&LeaseKey, BorrowedFd<'_>)> {
        self.wires.iter().map(|(key, wire)| (key, wire.as_fd()))
    }

    /// The time limit of the first connection without a question.
    pub fn silent_until(&self) -> Option<Moment> {
        self.connections.values().filter_map(|connection| connection.silent_until).min()
    }

    /// Closes the connections without a question in time, and returns them.
    pub fn broken(&mut self) -> Vec<ConnectionId> {
        let now = self.now();
        let is_late = |connection: &Connection| connection.silent_until.is_some_and(|until| until <= now);
        let late: Vec<ConnectionId> =
            self.connections.iter().filter(|(_, connection)| is_late(connection)).map(|(asker, _)| *asker).collect();
        late.iter().for_each(|asker| self.hang_up(*asker));
        late
    }

    pub fn read(&mut self, asker: ConnectionId) -> ReadEvent {
        self.connections.get_mut(&asker).map_or(ReadEvent::Nothing, Connection::read)
    }

    pub fn hang_up(&mut self, asker: ConnectionId) {
        self.connections.remove(&asker);
    }

    /// The packets that have come for a container.
    pub fn receive(&self, key: &LeaseKey) -> Vec<(Vec<u8>, Hardware)> {
        let mut packets = Vec::new();
        let Some(wire) = self.wires.get(key) else { return packets };
        while packets.len() < MOST_PACKETS {
            match wire.receive() {
                Ok(Some(packet)) => packets.push(packet),
                Ok(None) => break,
                Err(error) => {
                    // Each error is told once: the next read comes to what is behind it.
                    log::debug!("the interface of {key}: {error}");
                    break;
                }
            }
        }
        packets
    }

    fn netns_of(&self, asker: Option<ConnectionId>) -> Option<&Netns> {
        self.connections.get(&asker?)?.netns.as_ref()
    }
}

impl DaemonHost for LinuxDaemonHost {
    fn now(&mut self) -> Moment {
        match since_boot() {
            Ok(time) => self.last = Moment::at(time),
            Err(error) => log::error!("the clock does not answer: {error}"),
        }
        self.last
    }

    fn seed(&mut self) -> u64 {
        let mut bytes = [0; 8];
        match File::open("/dev/urandom").and_then(|mut source| source.read_exact(&mut bytes)) {
            Ok(()) => u64::from_le_bytes(bytes),
            Err(error) => {
                log::warn!("transaction ids can be guessed: /dev/urandom: {error}");
                since_boot().map_or(0, |time| time.subsec_nanos().into())
            }
        }
    }

    fn place(&mut self, asker: ConnectionId, request: &LeaseRequest) -> Result<InterfaceLocation, DaemonRefusal> {
        let netns = format!("{}{}", self.host_prefix, request.netns);
        let identity = match self.netns_of(Some(asker)) {
            Some(passed) => identity_of(passed)?,
            None => identity_of(&Netns::open(&netns).map_err(not_open)?)?,
        };
        Ok(InterfaceLocation { netns, ifname: request.key.ifname.clone(), identity })
    }

    fn listen(
        &mut self,
        key: &LeaseKey,
        place: &InterfaceLocation,
        asker: Option<ConnectionId>,
    ) -> Result<Hardware, DaemonRefusal> {
        let (wire, hardware) = match self.netns_of(asker) {
            Some(netns) => open_wire(netns, &place.ifname)?,
            None => open_wire(&open_place(place)?, &place.ifname)?,
        };
        self.wires.insert(key.clone(), wire);
        Ok(hardware)
    }

    fn set_up(&mut self, place: &InterfaceLocation, asker: ConnectionId) -> Result<(), DaemonRefusal> {
        let set_up = |socket: &mut Socket, link: &Link| {
            if link.up { Ok(()) } else { socket.set_link_up(link.index).map_err(reported) }
        };
        match self.netns_of(Some(asker)) {
            Some(netns) => on_link(netns, &place.ifname, set_up),
            None => on_link(&open_place(place)?, &place.ifname, set_up),
        }
    }

    fn close(&mut self, key: &LeaseKey) {
        self.wires.remove(key);
    }

    fn send(&mut self, key: &LeaseKey, sending: &OutgoingPacket) {
        let Some(wire) = self.wires.get(key) else { return };
        let OutgoingPacket { source, destination, neighbour, message } = sending;
        let datagram = Datagram { source: *source, destination: *destination, payload: message.bytes() };
        // It is sent again if nobody answers.
        if let Err(error) = wire.send(&datagram.bytes(), *neighbour) {
            log::info!("{:?} of {key} was not sent: {error}", message.kind);
        }
    }

    fn withdraw(&mut self, place: &InterfaceLocation, address: Ipv4Addr) {
        let withdraw = |socket: &mut Socket, link: &Link| {
            for found in socket.addresses(link.index, Some(Family::V4)).map_err(reported)? {
                if found.cidr.address() == IpAddr::V4(address) {
                    socket.remove_address(link.index, found.cidr).map_err(reported)?;
                }
            }
            Ok(())
        };
        let done = open_place(place).and_then(|netns| on_link(&netns, &place.ifname, withdraw));
        done.unwrap_or_else(|error| log::debug!("{address} was not taken from {}: {}", place.netns, error.text));
    }

    fn set_down(&mut self, place: &InterfaceLocation) {
        let set_down = |socket: &mut Socket, link: &Link| socket.set_link_down(link.index).map_err(reported);
        let done = open_place(place).and_then(|netns| on_link(&netns, &place.ifname, set_down));
        done.unwrap_or_else(|error| log::warn!("{} of {} was not set down: {}", place.ifname, place.netns, error.text));
    }

    fn answer(&mut self, asker: ConnectionId, answer: &DaemonAnswer) {
        if let Some(connection) = self.connections.get(&asker) {
            connection.answer(answer);
        }
        if !matches!(answer, DaemonAnswer::Wait { .. }) {
            self.hang_up(asker);
        }
    }

    fn save(&mut self, record: &LeaseRecord) {
        self.records.save(record);
    }

    fn forget(&mut self, key: &LeaseKey) {
        self.records.forget(key);
    }
}

fn reported(error: impl Into<Error>) -> DaemonRefusal {
    DaemonRefusal::of_interface(error.into().in_full())
}

fn not_open(error: NetnsError) -> DaemonRefusal {
    match error {
        NetnsError::Gone { .. } => DaemonRefusal::of_namespace(Error::from(error).in_full()),
        NetnsError::Failed { .. } => DaemonRefusal::of_interface(Error::from(error).in_full()),
    }
}

fn closed(error: io::Error) -> DaemonRefusal {
    DaemonRefusal::of_interface(format!("the network namespace cannot be entered: {error}"))
}

/// A unique identifier of a namespace; on kernels without cookies, the boot and the inode.
fn identity_of(netns: &Netns) -> Result<String, DaemonRefusal> {
    match netns.inside(identity).map_err(closed)?.map_err(reported)? {
        Some(identity) => Ok(identity),
        None => {
            let file = netns.file_identity().map_err(closed)?;
            Ok(format!("{}:{file}", cni_files::boot_id().map_err(reported)?))
        }
    }
}

/// Opens the namespace of a location, if the path still leads to it.
fn open_place(place: &InterfaceLocation) -> Result<Netns, DaemonRefusal> {
    let netns = Netns::open(&place.netns).map_err(not_open)?;
    if identity_of(&netns)? == place.identity {
        Ok(netns)
    } else {
        Err(DaemonRefusal::of_namespace(format!("another network namespace is at {}", place.netns)))
    }
}

fn open_wire(netns: &Netns, ifname: &str) -> Result<(PacketSocket, Hardware), DaemonRefusal> {
    netns
        .inside(|| {
            let mut socket = Socket::open().map_err(reported)?;
            let link = socket.link(ifname).map_err(reported)?;
            let absent = || DaemonRefusal::of_interface(format!("error looking up {ifname:?}: Link not found"));
            let link = link.ok_or_else(absent)?;
            let hardware = link.mac.as_ref().and_then(|mac| Hardware::try_from(mac.bytes()).ok());
            let no_ethernet = || DaemonRefusal::of_interface(format!("{ifname} has no MAC address of Ethernet"));
            let hardware = hardware.ok_or_else(no_ethernet)?;
            let failed = |error| DaemonRefusal::of_interface(format!("{ifname} cannot be listened on: {error}"));
            Ok((PacketSocket::open(link.index).map_err(failed)?, hardware))
        })
        .map_err(closed)?
}

/// Does something with a link, by a socket of its namespace.
fn on_link(
    netns: &Netns,
    ifname: &str,
    work: impl FnOnce(&mut Socket, &Link) -> Result<(), DaemonRefusal>,
) -> Result<(), DaemonRefusal> {
    let mut socket = netns.inside(Socket::open).map_err(closed)?.map_err(reported)?;
    match socket.link(ifname).map_err(reported)? {
        Some(link) => work(&mut socket, &link),
        None => Ok(()),
    }
}
