//! The daemon: who has which lease, who waits for one, and what to do when. All its effects go through [`DaemonHost`],
//! so it runs in tests as well.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use crate::client::{Action, Client, Identity, LeaseFailure, Limits, OutgoingPacket};
use crate::key::{InterfaceLocation, LeaseKey};
use crate::moment::Moment;
use crate::protocol::{DaemonAnswer, DaemonRefusal, LeaseRequest, Operation, Reason, VERSION};
use crate::record::LeaseRecord;
use crate::wire::{Hardware, Incoming, to_client};

pub mod flags;

pub use flags::{Flags, FlagsError};

/// The number of a plugin's connection.
pub type ConnectionId = u64;

/// Errors of a namespace or its interface.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlaceError {
    /// The namespace has ended, or is not what it was.
    #[error("{0}")]
    Namespace(String),
    /// The interface is missing, or not an Ethernet interface.
    #[error("{0}")]
    Interface(String),
    /// It could not be looked at now, such as for want of descriptors.
    #[error("{0}")]
    Now(String),
}

impl From<PlaceError> for DaemonRefusal {
    fn from(error: PlaceError) -> Self {
        let text = error.to_string();
        match error {
            PlaceError::Namespace(_) => Self { about: Reason::Namespace, text },
            PlaceError::Interface(_) | PlaceError::Now(_) => Self { about: Reason::Interface, text },
        }
    }
}

/// The machine, as the daemon sees it. The implementation logs harmless failures.
pub trait DaemonHost {
    /// The current time.
    fn now(&mut self) -> Moment;

    /// An unpredictable number.
    fn seed(&mut self) -> u64;

    /// The location of a request's interface, in the namespace that was passed with it.
    fn place(&mut self, asker: ConnectionId, request: &LeaseRequest) -> Result<InterfaceLocation, PlaceError>;

    /// Listens on an interface; returns its MAC address. The namespace is the one that came with a request, or the one at
    /// the path of the place, if that is still the same.
    fn listen(
        &mut self,
        key: &LeaseKey,
        place: &InterfaceLocation,
        asker: Option<ConnectionId>,
    ) -> Result<Hardware, PlaceError>;

    /// Sets up the interface of a request, if it is down.
    fn set_up(&mut self, place: &InterfaceLocation, asker: ConnectionId) -> Result<(), PlaceError>;

    /// Listens no more, which lets the namespace end.
    fn close(&mut self, key: &LeaseKey);

    /// Sends a message by the interface that is listened on.
    fn send(&mut self, key: &LeaseKey, sending: &OutgoingPacket);

    /// Removes an address from an interface, if it has it: it must not be used after its release.
    fn withdraw(&mut self, place: &InterfaceLocation, address: Ipv4Addr);

    /// Sets an interface down.
    fn set_down(&mut self, place: &InterfaceLocation);

    /// Answers, and closes the connection unless another answer follows.
    fn answer(&mut self, asker: ConnectionId, answer: &DaemonAnswer);

    /// Keeps a lease over a restart.
    fn save(&mut self, record: &LeaseRecord);

    /// Keeps it no more.
    fn forget(&mut self, key: &LeaseKey);
}

/// What a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WaitReason {
    /// ADD: the lease.
    Lease,
    /// CHECK: that it is one of this address, if any is known.
    Address(Option<Ipv4Addr>),
}

#[derive(Debug)]
struct LeaseEntry {
    place: InterfaceLocation,
    client: Client,
    is_open: bool,
    waiting: Vec<(ConnectionId, WaitReason)>,
    /// Why the lease was lost.
    lost: Option<LeaseFailure>,
}

/// All leases.
#[derive(Debug)]
pub struct Daemon {
    limits: Limits,
    broadcast: bool,
    entries: BTreeMap<LeaseKey, LeaseEntry>,
}

impl Daemon {
    /// A daemon without leases. With `broadcast`, servers are asked to answer by broadcast.
    pub const fn new(limits: Limits, broadcast: bool) -> Self {
        Self { limits, broadcast, entries: BTreeMap::new() }
    }

    /// Continues with a stored lease. Its namespace is checked when it is needed.
    pub fn resume(&mut self, record: LeaseRecord, world: &mut dyn DaemonHost) {
        let LeaseRecord { key, place, identity, lease, .. } = record;
        let client = Client::resume(identity, self.limits, world.seed(), lease);
        self.entries.insert(key, LeaseEntry { place, client, is_open: false, waiting: Vec::new(), lost: None });
    }

    /// The time at which the daemon must be called next.
    pub fn due(&self, now: Moment) -> Option<Moment> {
        self.entries.values().filter_map(|entry| entry.client.due(now)).min()
    }

    /// The number of leases and pending requests.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is neither a lease nor a pending request.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Handles a question.
    pub fn asked(&mut self, asker: ConnectionId, verb: Operation, world: &mut dyn DaemonHost) {
        let seconds = self.limits.whole.as_secs().saturating_add(1);
        world.answer(asker, &DaemonAnswer::Wait { protocol: VERSION, seconds });
        match verb {
            Operation::Add(request) => self.add(asker, request, world),
            Operation::Check { request, address } => self.check(asker, request, address, world),
            Operation::Del { key } => {
                self.remove(&key, world);
                world.answer(asker, &DaemonAnswer::Done);
            }
            Operation::Gc { network, valid } => {
                self.collect(&network, &valid, world);
                world.answer(asker, &DaemonAnswer::Done);
            }
            Operation::Status => world.answer(asker, &DaemonAnswer::Done),
        }
    }

    /// Handles the end of a connection. A lease that no connection waits for any longer is not requested any further.
    pub fn gone(&mut self, asker: ConnectionId, world: &mut dyn DaemonHost) {
        let mut abandoned = Vec::new();
        for (key, entry) in &mut self.entries {
            let before = entry.waiting.len();
            entry.waiting.retain(|(waiting, _)| *waiting != asker);
            let is_alone = entry.waiting.is_empty() && before > 0;
            if is_alone && entry.client.lease().is_none() {
                abandoned.push(key.clone());
            }
        }
        for key in abandoned {
            world.close(&key);
            self.entries.remove(&key);
        }
    }

    /// A packet has come, from a MAC address.
    pub fn received(&mut self, key: &LeaseKey, packet: &[u8], from: Hardware, world: &mut dyn DaemonHost) {
        let Some(message) = to_client(packet).and_then(Incoming::parse) else { return };
        let Some(entry) = self.entries.get_mut(key) else { return };
        let actions = entry.client.on_message(&message, from, world.now());
        self.perform(key, actions, world);
    }

    /// The time has come for some.
    pub fn on_time(&mut self, world: &mut dyn DaemonHost) {
        let now = world.now();
        let is_due = |entry: &LeaseEntry| entry.client.due(now).is_some_and(|due| due <= now);
        let due: Vec<LeaseKey> =
            self.entries.iter().filter(|(_, entry)| is_due(entry)).map(|(key, _)| key.clone()).collect();
        for key in due {
            let Some(entry) = self.entries.get_mut(&key) else { continue };
            let actions = entry.client.on_time(now);
            self.perform(&key, actions, world);
        }
    }

    fn add(&mut self, asker: ConnectionId, request: LeaseRequest, world: &mut dyn DaemonHost) {
        let place = match world.place(asker, &request) {
            Ok(place) => place,
            Err(error) => return world.answer(asker, &DaemonAnswer::Refused(error.into())),
        };
        if self.joins(&request.key, &place, (asker, WaitReason::Lease), world) {
            return;
        }
        self.discard(&request.key, world);
        self.begin(asker, WaitReason::Lease, request, place, world);
    }

    fn check(
        &mut self,
        asker: ConnectionId,
        request: LeaseRequest,
        address: Option<Ipv4Addr>,
        world: &mut dyn DaemonHost,
    ) {
        let wish = WaitReason::Address(address);
        if let Some(why) = self.entries.get(&request.key).and_then(|entry| entry.lost.as_ref()) {
            return world.answer(asker, &no_lease(why.to_string()));
        }
        let place = match world.place(asker, &request) {
            Ok(place) => place,
            Err(error) => return world.answer(asker, &DaemonAnswer::Refused(error.into())),
        };
        if self.joins(&request.key, &place, (asker, wish), world) {
            return;
        }
        if let Some(entry) = self.entries.get(&request.key) {
            return world
                .answer(asker, &no_lease(format!("the lease is of another namespace, at {}", entry.place.netns)));
        }
        match address {
            Some(_) => self.begin(asker, wish, request, place, world),
            None => world.answer(asker, &no_lease("there is no lease, and prevResult tells no address".to_owned())),
        }
    }

    /// Answers from an existing lease, or waits with the other connections for it; returns whether there is an entry.
    fn joins(
        &mut self,
        key: &LeaseKey,
        place: &InterfaceLocation,
        (asker, wish): (ConnectionId, WaitReason),
        world: &mut dyn DaemonHost,
    ) -> bool {
        let known = self.entries.get_mut(key).filter(|entry| entry.place.is_the_same(place) && entry.lost.is_none());
        let Some(entry) = known else { return false };
        match entry.client.lease() {
            Some(lease) => world.answer(asker, &fulfilled(wish, &lease.grant.clone())),
            None => entry.waiting.push((asker, wish)),
        }
        true
    }

    fn begin(
        &mut self,
        asker: ConnectionId,
        wish: WaitReason,
        request: LeaseRequest,
        place: InterfaceLocation,
        world: &mut dyn DaemonHost,
    ) {
        let LeaseRequest { key, netns: _, provided, requested } = request;
        let mut found = world.listen(&key, &place, Some(asker));
        if wish == WaitReason::Lease {
            found = found.and_then(|mac| world.set_up(&place, asker).map(|()| mac));
        }
        let mac = match found {
            Ok(mac) => mac,
            Err(error) => {
                world.close(&key);
                return world.answer(asker, &DaemonAnswer::Refused(error.into()));
            }
        };
        let identity = Identity { mac, id: key.client_id(), provided, requested, broadcast: self.broadcast };
        let (seed, now) = (world.seed(), world.now());
        let (client, actions) = match wish {
            WaitReason::Address(Some(address)) => Client::reboot(identity, self.limits, seed, now, address),
            WaitReason::Address(None) | WaitReason::Lease => Client::begin(identity, self.limits, seed, now),
        };
        let entry = LeaseEntry { place, client, is_open: true, waiting: vec![(asker, wish)], lost: None };
        self.entries.insert(key.clone(), entry);
        self.perform(&key, actions, world);
    }

    /// Carries out the client's actions, and closes its socket when it no longer listens.
    fn perform(&mut self, key: &LeaseKey, actions: Vec<Action>, world: &mut dyn DaemonHost) {
        for action in actions {
            match action {
                Action::Send(sending) => self.send(key, &sending, world),
                Action::Leased => self.leased(key, world),
                Action::Failed(why) => self.failed(key, &why, world),
                Action::Lost(why) => self.lost(key, why, world),
            }
        }
        let now = world.now();
        if let Some(entry) = self.entries.get_mut(key).filter(|entry| entry.is_open && !entry.client.listens(now)) {
            entry.is_open = false;
            world.close(key);
        }
    }

    /// Sends a message. If the namespace has ended, the lease is dropped. Other failures may be temporary: the message
    /// is sent again. If the interface has a new MAC address, its lease stays with the first address.
    fn send(&mut self, key: &LeaseKey, sending: &OutgoingPacket, world: &mut dyn DaemonHost) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        if !entry.is_open {
            match world.listen(key, &entry.place, None) {
                Ok(_) => entry.is_open = true,
                Err(PlaceError::Namespace(why)) => return self.drop_entry(key, &why, world),
                Err(error) => return log::warn!("{:?} of {key} was not sent: {error}", sending.message.kind),
            }
        }
        world.send(key, sending);
    }

    fn drop_entry(&mut self, key: &LeaseKey, why: &str, world: &mut dyn DaemonHost) {
        log::info!("the lease of {key} is not prolonged: {why}");
        self.discard(key, world);
    }

    /// Stores the record before it answers, so that what a plugin has been told survives the end of the daemon.
    fn leased(&mut self, key: &LeaseKey, world: &mut dyn DaemonHost) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        let Some(lease) = entry.client.lease().cloned() else { return };
        let grant = lease.grant.clone();
        world.save(&LeaseRecord::new(key.clone(), entry.place.clone(), entry.client.identity().clone(), lease));
        for (asker, wish) in std::mem::take(&mut entry.waiting) {
            world.answer(asker, &fulfilled(wish, &grant));
        }
    }

    fn failed(&mut self, key: &LeaseKey, why: &LeaseFailure, world: &mut dyn DaemonHost) {
        let Some(entry) = self.entries.remove(key) else { return };
        for (asker, wish) in entry.waiting {
            let about = match wish {
                WaitReason::Lease => Reason::Server,
                WaitReason::Address(_) => Reason::Lease,
            };
            world.answer(asker, &DaemonAnswer::Refused(DaemonRefusal { about, text: why.to_string() }));
        }
        world.close(key);
    }

    /// Another may have the address from now on.
    fn lost(&mut self, key: &LeaseKey, why: LeaseFailure, world: &mut dyn DaemonHost) {
        log::error!("the interface of {key} is set down: {why}");
        let Some(entry) = self.entries.get_mut(key) else { return };
        for (asker, _) in std::mem::take(&mut entry.waiting) {
            world.answer(asker, &no_lease(why.to_string()));
        }
        entry.lost = Some(why);
        world.set_down(&entry.place);
        world.forget(key);
    }

    /// Releases a lease. The server is told once, without an answer; the container is deleted in any case.
    fn remove(&mut self, key: &LeaseKey, world: &mut dyn DaemonHost) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        let address = entry.client.lease().map(|lease| lease.grant.address);
        if let (Some(address), Some(release)) = (address, entry.client.release()) {
            world.withdraw(&entry.place, address);
            self.send(key, &release, world);
        }
        self.discard(key, world);
    }

    fn collect(&mut self, network: &str, valid: &[(String, String)], world: &mut dyn DaemonHost) {
        let is_valid = |key: &LeaseKey| valid.contains(&(key.container.clone(), key.ifname.clone()));
        let stale: Vec<LeaseKey> =
            self.entries.keys().filter(|key| key.network == network && !is_valid(key)).cloned().collect();
        stale.iter().for_each(|key| self.remove(key, world));
    }

    fn discard(&mut self, key: &LeaseKey, world: &mut dyn DaemonHost) {
        let Some(entry) = self.entries.remove(key) else { return };
        for (asker, _) in entry.waiting {
            world.answer(asker, &no_lease("the container was deleted meanwhile".to_owned()));
        }
        world.close(key);
        world.forget(key);
    }
}

fn fulfilled(wish: WaitReason, grant: &crate::grant::Grant) -> DaemonAnswer {
    match wish {
        WaitReason::Lease => DaemonAnswer::Leased(grant.clone()),
        WaitReason::Address(Some(address)) if address != grant.address => {
            no_lease(format!("the lease is of {}, and prevResult tells {address}", grant.address))
        }
        WaitReason::Address(_) => DaemonAnswer::Done,
    }
}

fn no_lease(text: String) -> DaemonAnswer {
    DaemonAnswer::Refused(DaemonRefusal { about: Reason::Lease, text })
}

#[cfg(test)]
mod tests;
