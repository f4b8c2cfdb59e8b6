//! The daemon: who has which lease, who waits for one, and what to do when. All its effects go through [`DaemonHost`],
//! so it runs in tests as well.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use crate::client::{Action, Client, Identity, Limits, Moment, OutgoingPacket};
use crate::grant::Grant;
use crate::protocol::{DaemonAnswer, DaemonRefusal, LeaseRequest, Operation, Reason, VERSION};
use crate::record::{InterfaceLocation, LeaseKey, LeaseRecord};
use crate::wire::{Hardware, Incoming, to_client};

pub mod flags;

pub use flags::{Flags, FlagsError};

/// The number of a plugin's connection.
pub type ConnectionId = u64;

/// The machine, as the daemon sees it. The implementation logs harmless failures.
pub trait DaemonHost {
    /// The current time.
    fn now(&mut self) -> Moment;

    /// An unpredictable number.
    fn seed(&mut self) -> u64;

    /// The location of a request's interface, in the namespace that was passed with it.
    fn place(&mut self, asker: ConnectionId, request: &LeaseRequest) -> Result<InterfaceLocation, DaemonRefusal>;

    /// Listens on an interface; returns its MAC address. The namespace is the one that came with a request, or the one at
    /// the path of the place, if that is still the same.
    fn listen(
        &mut self,
        key: &LeaseKey,
        place: &InterfaceLocation,
        asker: Option<ConnectionId>,
    ) -> Result<Hardware, DaemonRefusal>;

    /// Sets up the interface of a request, if it is down.
    fn set_up(&mut self, place: &InterfaceLocation, asker: ConnectionId) -> Result<(), DaemonRefusal>;

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
    lost: Option<String>,
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
    pub fn resume(&mut self, record: LeaseRecord, host: &mut dyn DaemonHost) {
        let LeaseRecord { key, place, identity, lease, .. } = record;
        let client = Client::resume(identity, self.limits, host.seed(), lease);
        self.entries.insert(key, LeaseEntry { place, client, is_open: false, waiting: Vec::new(), lost: None });
    }

    /// The time at which the daemon must be called next.
    pub fn due(&self, now: Moment) -> Option<Moment> {
        self.entries.values().filter_map(|entry| entry.client.due(now)).min()
    }

    /// Handles a question.
    pub fn asked(&mut self, asker: ConnectionId, verb: Operation, host: &mut dyn DaemonHost) {
        let seconds = self.limits.whole.as_secs().saturating_add(1);
        host.answer(asker, &DaemonAnswer::Wait { protocol: VERSION, seconds });
        match verb {
            Operation::Add(request) => self.add(asker, request, host),
            Operation::Check { request, address } => self.check(asker, request, address, host),
            Operation::Del { key } => {
                self.remove(&key, host);
                host.answer(asker, &DaemonAnswer::Done);
            }
            Operation::Gc { network, valid } => {
                self.collect(&network, &valid, host);
                host.answer(asker, &DaemonAnswer::Done);
            }
            Operation::Status => host.answer(asker, &DaemonAnswer::Done),
        }
    }

    /// Handles the end of a connection. A lease that no connection waits for any longer is not requested any further.
    pub fn gone(&mut self, asker: ConnectionId, host: &mut dyn DaemonHost) {
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
            host.close(&key);
            self.entries.remove(&key);
        }
    }

    /// A packet has come, from a MAC address.
    pub fn received(&mut self, key: &LeaseKey, packet: &[u8], from: Hardware, host: &mut dyn DaemonHost) {
        let Some(message) = to_client(packet).and_then(Incoming::parse) else { return };
        let Some(entry) = self.entries.get_mut(key) else { return };
        let actions = entry.client.on_message(&message, from, host.now());
        self.perform(key, actions, host);
    }

    /// The time has come for some.
    pub fn on_time(&mut self, host: &mut dyn DaemonHost) {
        let now = host.now();
        let is_due = |entry: &LeaseEntry| entry.client.due(now).is_some_and(|due| due <= now);
        let due: Vec<LeaseKey> =
            self.entries.iter().filter(|(_, entry)| is_due(entry)).map(|(key, _)| key.clone()).collect();
        for key in due {
            let Some(entry) = self.entries.get_mut(&key) else { continue };
            let actions = entry.client.on_time(now);
            self.perform(&key, actions, host);
        }
    }

    fn add(&mut self, asker: ConnectionId, request: LeaseRequest, host: &mut dyn DaemonHost) {
        let place = match host.place(asker, &request) {
            Ok(place) => place,
            Err(error) => return host.answer(asker, &DaemonAnswer::Refused(error)),
        };
        if self.joins(&request.key, &place, (asker, WaitReason::Lease), host) {
            return;
        }
        self.discard(&request.key, host);
        self.begin(asker, WaitReason::Lease, request, place, host);
    }

    fn check(
        &mut self,
        asker: ConnectionId,
        request: LeaseRequest,
        address: Option<Ipv4Addr>,
        host: &mut dyn DaemonHost,
    ) {
        let wish = WaitReason::Address(address);
        if let Some(why) = self.entries.get(&request.key).and_then(|entry| entry.lost.clone()) {
            return host.answer(asker, &no_lease(why));
        }
        let place = match host.place(asker, &request) {
            Ok(place) => place,
            Err(error) => return host.answer(asker, &DaemonAnswer::Refused(error)),
        };
        if self.joins(&request.key, &place, (asker, wish), host) {
            return;
        }
        if let Some(entry) = self.entries.get(&request.key) {
            return host
                .answer(asker, &no_lease(format!("the lease is of another namespace, at {}", entry.place.netns)));
        }
        match address {
            Some(_) => self.begin(asker, wish, request, place, host),
            None => host.answer(asker, &no_lease("there is no lease, and prevResult tells no address".to_owned())),
        }
    }

    /// Answers from an existing lease, or waits with the other connections for it; returns whether there is an entry.
    fn joins(
        &mut self,
        key: &LeaseKey,
        place: &InterfaceLocation,
        (asker, wish): (ConnectionId, WaitReason),
        host: &mut dyn DaemonHost,
    ) -> bool {
        let known = self.entries.get_mut(key).filter(|entry| entry.place.is_the_same(place) && entry.lost.is_none());
        let Some(entry) = known else { return false };
        match entry.client.lease() {
            Some(lease) => host.answer(asker, &fulfilled(wish, &lease.grant)),
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
        host: &mut dyn DaemonHost,
    ) {
        let LeaseRequest { key, netns: _, provided, requested } = request;
        let mut found = host.listen(&key, &place, Some(asker));
        if wish == WaitReason::Lease {
            found = found.and_then(|mac| host.set_up(&place, asker).map(|()| mac));
        }
        let mac = match found {
            Ok(mac) => mac,
            Err(error) => {
                host.close(&key);
                return host.answer(asker, &DaemonAnswer::Refused(error));
            }
        };
        let identity = Identity { mac, id: key.client_id(), provided, requested, broadcast: self.broadcast };
        let (seed, now) = (host.seed(), host.now());
        let (client, actions) = match wish {
            WaitReason::Address(Some(address)) => Client::reboot(identity, self.limits, seed, now, address),
            WaitReason::Address(None) | WaitReason::Lease => Client::begin(identity, self.limits, seed, now),
        };
        let entry = LeaseEntry { place, client, is_open: true, waiting: vec![(asker, wish)], lost: None };
        self.entries.insert(key.clone(), entry);
        self.perform(&key, actions, host);
    }

    /// Carries out the client's actions, and closes its socket when it no longer listens.
    fn perform(&mut self, key: &LeaseKey, actions: Vec<Action>, host: &mut dyn DaemonHost) {
        for action in actions {
            match action {
                Action::Send(sending) => self.send(key, &sending, host),
                Action::Leased => self.leased(key, host),
                Action::Failed(why) => self.failed(key, &why, host),
                Action::Lost(why) => self.lost(key, why, host),
            }
        }
        let now = host.now();
        if let Some(entry) = self.entries.get_mut(key).filter(|entry| entry.is_open && !entry.client.listens(now)) {
            entry.is_open = false;
            host.close(key);
        }
    }

    /// Sends a message. If the namespace has ended, the lease is dropped. Other failures may be temporary: the message
    /// is sent again. If the interface has a new MAC address, its lease stays with the first address.
    fn send(&mut self, key: &LeaseKey, sending: &OutgoingPacket, host: &mut dyn DaemonHost) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        if !entry.is_open {
            match host.listen(key, &entry.place, None) {
                Ok(_) => entry.is_open = true,
                Err(DaemonRefusal { about: Reason::Namespace, text }) => return self.drop_entry(key, &text, host),
                Err(error) => return log::warn!("{:?} of {key} was not sent: {}", sending.message.kind, error.text),
            }
        }
        host.send(key, sending);
    }

    fn drop_entry(&mut self, key: &LeaseKey, why: &str, host: &mut dyn DaemonHost) {
        log::info!("the lease of {key} is not prolonged: {why}");
        self.discard(key, host);
    }

    /// Stores the record before it answers, so that what a plugin has been told survives the end of the daemon.
    fn leased(&mut self, key: &LeaseKey, host: &mut dyn DaemonHost) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        let Some(lease) = entry.client.lease().cloned() else { return };
        let grant = lease.grant.clone();
        host.save(&LeaseRecord::new(key.clone(), entry.place.clone(), entry.client.identity().clone(), lease));
        for (asker, wish) in std::mem::take(&mut entry.waiting) {
            host.answer(asker, &fulfilled(wish, &grant));
        }
    }

    fn failed(&mut self, key: &LeaseKey, why: &str, host: &mut dyn DaemonHost) {
        let Some(entry) = self.entries.remove(key) else { return };
        for (asker, wish) in entry.waiting {
            let about = match wish {
                WaitReason::Lease => Reason::Server,
                WaitReason::Address(_) => Reason::Lease,
            };
            host.answer(asker, &DaemonAnswer::Refused(DaemonRefusal { about, text: why.to_owned() }));
        }
        host.close(key);
    }

    /// Another may have the address from now on.
    fn lost(&mut self, key: &LeaseKey, why: String, host: &mut dyn DaemonHost) {
        log::error!("the interface of {key} is set down: {why}");
        let Some(entry) = self.entries.get_mut(key) else { return };
        for (asker, _) in std::mem::take(&mut entry.waiting) {
            host.answer(asker, &no_lease(why.clone()));
        }
        entry.lost = Some(why);
        host.set_down(&entry.place);
        host.forget(key);
    }

    /// Releases a lease. The server is told once, without an answer; the container is deleted in any case.
    fn remove(&mut self, key: &LeaseKey, host: &mut dyn DaemonHost) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        let address = entry.client.lease().map(|lease| lease.grant.address);
        if let (Some(address), Some(release)) = (address, entry.client.release()) {
            host.withdraw(&entry.place, address);
            self.send(key, &release, host);
        }
        self.discard(key, host);
    }

    fn collect(&mut self, network: &str, valid: &[(String, String)], host: &mut dyn DaemonHost) {
        let is_valid = |key: &LeaseKey| valid.contains(&(key.container.clone(), key.ifname.clone()));
        let stale: Vec<LeaseKey> =
            self.entries.keys().filter(|key| key.network == network && !is_valid(key)).cloned().collect();
        stale.iter().for_each(|key| self.remove(key, host));
    }

    fn discard(&mut self, key: &LeaseKey, host: &mut dyn DaemonHost) {
        let Some(entry) = self.entries.remove(key) else { return };
        for (asker, _) in entry.waiting {
            host.answer(asker, &no_lease("the container was deleted meanwhile".to_owned()));
        }
        host.close(key);
        host.forget(key);
    }
}

fn fulfilled(wish: WaitReason, grant: &Grant) -> DaemonAnswer {
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
