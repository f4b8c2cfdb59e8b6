//! The daemon: who has which lease, who waits for one, and what is to be done when. All that it does to the machine goes
//! through [`World`], so that it runs in tests as well.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use crate::client::{Action, Client, Identity, Limits, Sending, Why};
use crate::key::{LeaseKey, Place};
use crate::moment::Moment;
use crate::protocol::{Answer, Reason, Refusal, Request, VERSION, Verb};
use crate::record::LeaseRecord;
use crate::wire::{Hardware, Incoming, to_client};

pub mod flags;

pub use flags::{Flags, FlagsError};

/// Who has asked, by a number of the connection.
pub type Asker = u64;

/// Why something in a namespace cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlaceError {
    /// The namespace has ended, or is not what it was.
    #[error("{0}")]
    Namespace(String),
    /// The interface is not there, or not of Ethernet.
    #[error("{0}")]
    Interface(String),
    /// It could not be looked at now, such as for want of descriptors.
    #[error("{0}")]
    Now(String),
}

impl From<PlaceError> for Refusal {
    fn from(error: PlaceError) -> Self {
        let text = error.to_string();
        match error {
            PlaceError::Namespace(_) => Self { about: Reason::Namespace, text },
            PlaceError::Interface(_) | PlaceError::Now(_) => Self { about: Reason::Interface, text },
        }
    }
}

/// The machine, as far as the daemon is concerned. What may fail without harm is logged there.
pub trait World {
    /// What time it is.
    fn now(&mut self) -> Moment;

    /// A number that nobody can guess.
    fn seed(&mut self) -> u64;

    /// Where the interface of a request is, by the namespace that came along with it.
    ///
    /// # Errors
    /// [`PlaceError::Namespace`]
    fn place(&mut self, asker: Asker, request: &Request) -> Result<Place, PlaceError>;

    /// Listens on an interface; returns its MAC address. The namespace is the one that came with a request, or the one at
    /// the path of the place, if that is still the same.
    ///
    /// # Errors
    /// [`PlaceError`]
    fn listen(&mut self, key: &LeaseKey, place: &Place, asker: Option<Asker>) -> Result<Hardware, PlaceError>;

    /// Sets up the interface of a request, if it is down.
    ///
    /// # Errors
    /// [`PlaceError`]
    fn set_up(&mut self, place: &Place, asker: Asker) -> Result<(), PlaceError>;

    /// Listens no more, which lets the namespace end.
    fn close(&mut self, key: &LeaseKey);

    /// Sends a message by the interface that is listened on.
    fn send(&mut self, key: &LeaseKey, sending: &Sending);

    /// Takes an address from an interface, if it has it: nobody may use it once it is given back.
    fn withdraw(&mut self, place: &Place, address: Ipv4Addr);

    /// Sets an interface down.
    fn set_down(&mut self, place: &Place);

    /// Answers, and ends the connection unless there will be another answer.
    fn answer(&mut self, asker: Asker, answer: &Answer);

    /// Keeps a lease over a restart.
    fn save(&mut self, record: &LeaseRecord);

    /// Keeps it no more.
    fn forget(&mut self, key: &LeaseKey);
}

/// What somebody waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    /// ADD: the lease.
    Lease,
    /// CHECK: that it is one of this address, if any is known.
    Address(Option<Ipv4Addr>),
}

#[derive(Debug)]
struct Entry {
    place: Place,
    client: Client,
    is_open: bool,
    waiting: Vec<(Asker, Wish)>,
    /// Why the lease was lost.
    lost: Option<Why>,
}

/// All leases.
#[derive(Debug)]
pub struct Daemon {
    limits: Limits,
    broadcast: bool,
    entries: BTreeMap<LeaseKey, Entry>,
}

impl Daemon {
    /// Has no leases. With `broadcast`, servers are asked to answer to everybody.
    pub const fn new(limits: Limits, broadcast: bool) -> Self {
        Self { limits, broadcast, entries: BTreeMap::new() }
    }

    /// Goes on with a lease that was kept. Whether its namespace is still there shows when it is needed.
    pub fn resume(&mut self, record: LeaseRecord, world: &mut dyn World) {
        let LeaseRecord { key, place, identity, lease, .. } = record;
        let client = Client::resume(identity, self.limits, world.seed(), lease);
        self.entries.insert(key, Entry { place, client, is_open: false, waiting: Vec::new(), lost: None });
    }

    /// When the daemon is to be told of the time.
    pub fn due(&self, now: Moment) -> Option<Moment> {
        self.entries.values().filter_map(|entry| entry.client.due(now)).min()
    }

    /// How many leases and questions there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is neither a lease nor a question.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Somebody asks.
    pub fn asked(&mut self, asker: Asker, verb: Verb, world: &mut dyn World) {
        let seconds = self.limits.whole.as_secs().saturating_add(1);
        world.answer(asker, &Answer::Wait { protocol: VERSION, seconds });
        match verb {
            Verb::Add(request) => self.add(asker, request, world),
            Verb::Check { request, address } => self.check(asker, request, address, world),
            Verb::Del { key } => {
                self.remove(&key, world);
                world.answer(asker, &Answer::Done);
            }
            Verb::Gc { network, valid } => {
                self.collect(&network, &valid, world);
                world.answer(asker, &Answer::Done);
            }
            Verb::Status => world.answer(asker, &Answer::Done),
        }
    }

    /// Somebody who has asked waits no more. What nobody waits for any more is not looked for.
    pub fn gone(&mut self, asker: Asker, world: &mut dyn World) {
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
    pub fn received(&mut self, key: &LeaseKey, packet: &[u8], from: Hardware, world: &mut dyn World) {
        let Some(message) = to_client(packet).and_then(Incoming::parse) else { return };
        let Some(entry) = self.entries.get_mut(key) else { return };
        let actions = entry.client.on_message(&message, from, world.now());
        self.perform(key, actions, world);
    }

    /// The time has come for some.
    pub fn on_time(&mut self, world: &mut dyn World) {
        let now = world.now();
        let is_due = |entry: &Entry| entry.client.due(now).is_some_and(|due| due <= now);
        let due: Vec<LeaseKey> =
            self.entries.iter().filter(|(_, entry)| is_due(entry)).map(|(key, _)| key.clone()).collect();
        for key in due {
            let Some(entry) = self.entries.get_mut(&key) else { continue };
            let actions = entry.client.on_time(now);
            self.perform(&key, actions, world);
        }
    }

    fn add(&mut self, asker: Asker, request: Request, world: &mut dyn World) {
        let place = match world.place(asker, &request) {
            Ok(place) => place,
            Err(error) => return world.answer(asker, &Answer::Refused(error.into())),
        };
        if self.joins(&request.key, &place, (asker, Wish::Lease), world) {
            return;
        }
        self.discard(&request.key, world);
        self.begin(asker, Wish::Lease, request, place, world);
    }

    fn check(&mut self, asker: Asker, request: Request, address: Option<Ipv4Addr>, world: &mut dyn World) {
        let wish = Wish::Address(address);
        if let Some(why) = self.entries.get(&request.key).and_then(|entry| entry.lost.as_ref()) {
            return world.answer(asker, &no_lease(why.to_string()));
        }
        let place = match world.place(asker, &request) {
            Ok(place) => place,
            Err(error) => return world.answer(asker, &Answer::Refused(error.into())),
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

    /// Answers from a lease that there is, or waits with those who have asked for it; tells whether there is one.
    fn joins(&mut self, key: &LeaseKey, place: &Place, (asker, wish): (Asker, Wish), world: &mut dyn World) -> bool {
        let known = self.entries.get_mut(key).filter(|entry| entry.place.is_the_same(place) && entry.lost.is_none());
        let Some(entry) = known else { return false };
        match entry.client.lease() {
            Some(lease) => world.answer(asker, &fulfilled(wish, &lease.grant.clone())),
            None => entry.waiting.push((asker, wish)),
        }
        true
    }

    fn begin(&mut self, asker: Asker, wish: Wish, request: Request, place: Place, world: &mut dyn World) {
        let Request { key, netns: _, provided, requested } = request;
        let mut found = world.listen(&key, &place, Some(asker));
        if wish == Wish::Lease {
            found = found.and_then(|mac| world.set_up(&place, asker).map(|()| mac));
        }
        let mac = match found {
            Ok(mac) => mac,
            Err(error) => {
                world.close(&key);
                return world.answer(asker, &Answer::Refused(error.into()));
            }
        };
        let identity = Identity { mac, id: key.client_id(), provided, requested, broadcast: self.broadcast };
        let (seed, now) = (world.seed(), world.now());
        let (client, actions) = match wish {
            Wish::Address(Some(address)) => Client::reboot(identity, self.limits, seed, now, address),
            Wish::Address(None) | Wish::Lease => Client::begin(identity, self.limits, seed, now),
        };
        let entry = Entry { place, client, is_open: true, waiting: vec![(asker, wish)], lost: None };
        self.entries.insert(key.clone(), entry);
        self.perform(&key, actions, world);
    }

    /// Does what the client says, and closes its ear when it does not listen any more.
    fn perform(&mut self, key: &LeaseKey, actions: Vec<Action>, world: &mut dyn World) {
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

    /// A namespace that has ended needs no address any more. What else is in the way may pass before the lease ends: the message
    /// is sent again. An interface that has got another MAC address keeps its lease, which is of the first.
    fn send(&mut self, key: &LeaseKey, sending: &Sending, world: &mut dyn World) {
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

    fn drop_entry(&mut self, key: &LeaseKey, why: &str, world: &mut dyn World) {
        log::info!("the lease of {key} is not prolonged: {why}");
        self.discard(key, world);
    }

    /// The record comes before the answer: what a plugin was told of survives the end of the daemon.
    fn leased(&mut self, key: &LeaseKey, world: &mut dyn World) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        let Some(lease) = entry.client.lease().cloned() else { return };
        let grant = lease.grant.clone();
        world.save(&LeaseRecord::new(key.clone(), entry.place.clone(), entry.client.identity().clone(), lease));
        for (asker, wish) in std::mem::take(&mut entry.waiting) {
            world.answer(asker, &fulfilled(wish, &grant));
        }
    }

    fn failed(&mut self, key: &LeaseKey, why: &Why, world: &mut dyn World) {
        let Some(entry) = self.entries.remove(key) else { return };
        for (asker, wish) in entry.waiting {
            let about = match wish {
                Wish::Lease => Reason::Server,
                Wish::Address(_) => Reason::Lease,
            };
            world.answer(asker, &Answer::Refused(Refusal { about, text: why.to_string() }));
        }
        world.close(key);
    }

    /// Another may have the address from now on.
    fn lost(&mut self, key: &LeaseKey, why: Why, world: &mut dyn World) {
        log::error!("the interface of {key} is set down: {why}");
        let Some(entry) = self.entries.get_mut(key) else { return };
        for (asker, _) in std::mem::take(&mut entry.waiting) {
            world.answer(asker, &no_lease(why.to_string()));
        }
        entry.lost = Some(why);
        world.set_down(&entry.place);
        world.forget(key);
    }

    /// Gives a lease back. The server is told once; it may be deaf, and the container goes all the same.
    fn remove(&mut self, key: &LeaseKey, world: &mut dyn World) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        let address = entry.client.lease().map(|lease| lease.grant.address);
        if let (Some(address), Some(release)) = (address, entry.client.release()) {
            world.withdraw(&entry.place, address);
            self.send(key, &release, world);
        }
        self.discard(key, world);
    }

    fn collect(&mut self, network: &str, valid: &[(String, String)], world: &mut dyn World) {
        let is_valid = |key: &LeaseKey| valid.contains(&(key.container.clone(), key.ifname.clone()));
        let stale: Vec<LeaseKey> =
            self.entries.keys().filter(|key| key.network == network && !is_valid(key)).cloned().collect();
        stale.iter().for_each(|key| self.remove(key, world));
    }

    fn discard(&mut self, key: &LeaseKey, world: &mut dyn World) {
        let Some(entry) = self.entries.remove(key) else { return };
        for (asker, _) in entry.waiting {
            world.answer(asker, &no_lease("the container was deleted meanwhile".to_owned()));
        }
        world.close(key);
        world.forget(key);
    }
}

fn fulfilled(wish: Wish, grant: &crate::grant::Grant) -> Answer {
    match wish {
        Wish::Lease => Answer::Leased(grant.clone()),
        Wish::Address(Some(address)) if address != grant.address => {
            no_lease(format!("the lease is of {}, and prevResult tells {address}", grant.address))
        }
        Wish::Address(_) => Answer::Done,
    }
}

fn no_lease(text: String) -> Answer {
    Answer::Refused(Refusal { about: Reason::Lease, text })
}

#[cfg(test)]
mod tests;
