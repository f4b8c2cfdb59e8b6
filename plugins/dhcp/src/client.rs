//! The client of RFC 2131 section 4.4, for one interface: what it sends, when, and how it reacts to answers. It is
//! pure: it is given messages and the time, and returns actions.

use std::net::Ipv4Addr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::grant::Grant;
use crate::wire::{DhcpOptions, Hardware, Incoming, MessageType, Outgoing, code};

mod retry;

pub use retry::{Limits, Moment};
use retry::{Retry, SplitMix64};

/// The client's identity, and the options of its messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The MAC address of the interface.
    pub mac: Hardware,
    /// The name that the server knows the client by, option 61.
    pub id: Vec<u8>,
    /// Options that are sent along.
    pub provided: Vec<(u8, Vec<u8>)>,
    /// Options that are asked for, in the order of option 55.
    pub requested: Vec<u8>,
    /// Whether servers are asked to answer by broadcast.
    pub broadcast: bool,
}

/// An address that the client has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DhcpLease {
    /// The server's grant.
    pub grant: Grant,
    /// When.
    pub since: Moment,
    /// The MAC address from which the answer came: the server's, or that of the router to it.
    pub neighbour: Hardware,
}

impl DhcpLease {
    /// The time of the next renewal. It is never at once, whatever the server says: the client would ask without end.
    fn renewal(&self) -> Option<Moment> {
        let time = self.grant.time()?;
        let least = SHORTEST_PAUSE.min(time / 2);
        Some(self.since + Duration::from_secs(self.grant.renewal.into()).max(least))
    }

    fn rebinding(&self) -> Option<Moment> {
        self.grant.time().map(|_| self.since + Duration::from_secs(self.grant.rebinding.into()))
    }

    /// When it ends; never if none.
    pub fn end(&self) -> Option<Moment> {
        self.grant.time().map(|time| self.since + time)
    }
}

/// What the daemon has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// A message is to be sent.
    Send(OutgoingPacket),
    /// There is a lease, or a longer one.
    Leased,
    /// There is no lease, and why the client has given up.
    Failed(String),
    /// Why the lease has ended: the interface must not use the address.
    Lost(String),
}

/// A message, and the way that it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutgoingPacket {
    /// From.
    pub source: Ipv4Addr,
    /// To.
    pub destination: Ipv4Addr,
    /// The link-layer address of the destination; broadcast if `None`.
    pub neighbour: Option<Hardware>,
    /// What.
    pub message: Outgoing,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ClientState {
    /// INIT and SELECTING: servers are looked for.
    Selecting { xid: u32, retry: Retry },
    /// REQUESTING: an offer was accepted.
    Requesting { xid: u32, retry: Retry, offer: Offer, tries: u32 },
    /// REBOOTING: the client asks for an address that it had.
    Rebooting { xid: u32, retry: Retry, address: Ipv4Addr },
    /// BOUND.
    Bound,
    /// RENEWING and REBINDING: the lease is to be prolonged, by its server or by any.
    Prolonging { xid: u32, next: Moment, deaf: Moment },
    /// The client has ended.
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Offer {
    address: Ipv4Addr,
    server: Ipv4Addr,
}

/// How often an offer is requested before another is looked for.
const ACCEPTANCES: u32 = 4;
/// How long the client listens for the answer to a renewal. An open socket keeps the container's namespace alive.
const EAR: Duration = Duration::from_secs(5);
/// The shortest and the longest pause between prolongations, where half of the time that is left is less (RFC 2131 says
/// a minute, which is more than a short lease).
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
const LEAST_PAUSE: Duration = Duration::from_secs(60);
/// The shortest pause is the lease divided by this.
const PARTS: u32 = 20;
/// The greatest message that is taken.
const MESSAGE_SIZE: u16 = 1500;

/// A client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    identity: Identity,
    limits: Limits,
    dice: SplitMix64,
    state: ClientState,
    lease: Option<DhcpLease>,
}

impl Client {
    /// Looks for servers.
    pub fn begin(identity: Identity, limits: Limits, seed: u64, now: Moment) -> (Self, Vec<Action>) {
        let mut client = Self { identity, limits, dice: SplitMix64::new(seed), state: ClientState::Over, lease: None };
        let actions = client.look_for(limits, now);
        (client, actions)
    }

    /// Asks for an address that the client should have.
    pub fn reboot(
        identity: Identity,
        limits: Limits,
        seed: u64,
        now: Moment,
        address: Ipv4Addr,
    ) -> (Self, Vec<Action>) {
        let mut client = Self { identity, limits, dice: SplitMix64::new(seed), state: ClientState::Over, lease: None };
        let (xid, short) = (client.dice.xid(), Limits { whole: limits.whole.min(limits.first), ..limits });
        let retry = Retry::new(short, now, &mut client.dice);
        client.state = ClientState::Rebooting { xid, retry, address };
        let actions = vec![client.ask_for(xid, address)];
        (client, actions)
    }

    /// Goes on with a lease of before.
    pub fn resume(identity: Identity, limits: Limits, seed: u64, lease: DhcpLease) -> Self {
        Self { identity, limits, dice: SplitMix64::new(seed), state: ClientState::Bound, lease: Some(lease) }
    }

    /// The lease, if there is one.
    pub const fn lease(&self) -> Option<&DhcpLease> {
        self.lease.as_ref()
    }

    /// The client's identity.
    pub const fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Whether the client listens for answers.
    pub fn listens(&self, now: Moment) -> bool {
        match &self.state {
            ClientState::Selecting { .. } | ClientState::Requesting { .. } | ClientState::Rebooting { .. } => true,
            ClientState::Prolonging { deaf, .. } => now < *deaf,
            ClientState::Bound | ClientState::Over => false,
        }
    }

    /// The time at which the client must be called next.
    pub fn due(&self, now: Moment) -> Option<Moment> {
        match &self.state {
            ClientState::Selecting { retry, .. }
            | ClientState::Requesting { retry, .. }
            | ClientState::Rebooting { retry, .. } => Some(retry.due()),
            ClientState::Bound => self.lease.as_ref()?.renewal(),
            ClientState::Prolonging { next, deaf, .. } => Some(if now < *deaf { *next.min(deaf) } else { *next }),
            ClientState::Over => None,
        }
    }

    /// The time has come.
    pub fn on_time(&mut self, now: Moment) -> Vec<Action> {
        if self.due(now).is_none_or(|due| now < due) {
            return Vec::new();
        }
        match self.state.clone() {
            ClientState::Selecting { retry, .. }
            | ClientState::Requesting { retry, .. }
            | ClientState::Rebooting { retry, .. }
                if retry.is_over(now) =>
            {
                let why = self.lease.as_ref().map_or("no more tries".to_owned(), |lease| refusal(lease.grant.address));
                self.give_up(why)
            }
            ClientState::Selecting { xid, retry } => {
                self.state = ClientState::Selecting { xid, retry: retry.sent(now, &mut self.dice) };
                vec![self.discover(xid)]
            }
            ClientState::Requesting { retry, tries: ACCEPTANCES, .. } => self.look_again(retry, now),
            ClientState::Requesting { xid, retry, offer, tries } => {
                let retry = retry.sent(now, &mut self.dice);
                self.state = ClientState::Requesting { xid, retry, offer, tries: tries + 1 };
                vec![self.accept(xid, offer)]
            }
            ClientState::Rebooting { xid, retry, address } => {
                self.state = ClientState::Rebooting { xid, retry: retry.sent(now, &mut self.dice), address };
                vec![self.ask_for(xid, address)]
            }
            ClientState::Bound | ClientState::Prolonging { .. } => self.prolong(now),
            ClientState::Over => Vec::new(),
        }
    }

    /// A message has come, from a MAC address.
    pub fn on_message(&mut self, message: &Incoming, from: Hardware, now: Moment) -> Vec<Action> {
        if message.mac != self.identity.mac {
            return Vec::new();
        }
        let is_answer = |xid: u32| xid == message.xid;
        match (self.state.clone(), message.kind) {
            (ClientState::Selecting { xid, retry }, MessageType::Offer) if is_answer(xid) => {
                self.on_offer(message, retry, now)
            }
            (ClientState::Requesting { xid, offer, .. }, MessageType::Ack)
                if is_answer(xid) && is_of(message, offer.server) =>
            {
                self.on_ack(message, from, now)
            }
            (ClientState::Requesting { xid, retry, offer, .. }, MessageType::Nak)
                if is_answer(xid) && is_of(message, offer.server) =>
            {
                self.look_again(retry, now)
            }
            (ClientState::Rebooting { xid, address, .. }, MessageType::Ack) if is_answer(xid) => {
                if message.address == address {
                    self.on_ack(message, from, now)
                } else {
                    self.release_and_give_up(message, from, moved(address, message.address))
                }
            }
            (ClientState::Rebooting { xid, address, .. }, MessageType::Nak) if is_answer(xid) => {
                self.give_up(refusal(address))
            }
            (ClientState::Prolonging { xid, .. }, MessageType::Ack) if is_answer(xid) && self.has(message.address) => {
                self.on_ack(message, from, now)
            }
            (ClientState::Prolonging { xid, .. }, MessageType::Nak) if is_answer(xid) => self.ask_once_more(now),
            _ => Vec::new(),
        }
    }

    /// Releases the address, if there is one. The client has ended then.
    pub fn release(&mut self) -> Option<OutgoingPacket> {
        self.state = ClientState::Over;
        let DhcpLease { grant, neighbour, .. } = self.lease.take()?;
        Some(self.give_back(grant.address, grant.server, neighbour))
    }

    fn on_offer(&mut self, message: &Incoming, retry: Retry, now: Moment) -> Vec<Action> {
        let Some(server) = message.server().filter(|_| !message.address.is_unspecified()) else { return Vec::new() };
        let (xid, offer) = (message.xid, Offer { address: message.address, server });
        self.state = ClientState::Requesting { xid, retry: retry.anew(now, &mut self.dice), offer, tries: 1 };
        vec![self.accept(xid, offer)]
    }

    fn has(&self, address: Ipv4Addr) -> bool {
        self.lease.as_ref().is_some_and(|lease| lease.grant.address == address)
    }

    /// A lease of another address than the interface has is of no use to it. An answer that cannot be used changes no lease: anybody on the
    /// network can send one.
    fn on_ack(&mut self, message: &Incoming, from: Hardware, now: Moment) -> Vec<Action> {
        let granted = match Grant::of(message) {
            Ok(grant) => grant,
            Err(_) if self.lease.is_some() => return Vec::new(),
            Err(error) => return self.release_and_give_up(message, from, error),
        };
        if let Some(address) =
            self.lease.as_ref().map(|lease| lease.grant.address).filter(|own| *own != granted.address)
        {
            return self.release_and_give_up(message, from, moved(address, granted.address));
        }
        self.lease = Some(DhcpLease { grant: granted, since: now, neighbour: from });
        self.state = ClientState::Bound;
        vec![Action::Leased]
    }

    /// Gives back the address that a server has granted, if the answer names the server, and ends.
    fn release_and_give_up(&mut self, message: &Incoming, from: Hardware, why: String) -> Vec<Action> {
        let back = message.server().map(|server| self.give_back(message.address, server, from));
        back.map(Action::Send).into_iter().chain(self.give_up(why)).collect()
    }

    fn give_up(&mut self, why: String) -> Vec<Action> {
        self.state = ClientState::Over;
        match self.lease.take() {
            Some(_) => vec![Action::Lost(why)],
            None => vec![Action::Failed(why)],
        }
    }

    /// Asks for the address once more. After a refusal the address may no longer be used (RFC 2131 section 3.2.3),
    /// except while an answer may still come, since a server that has lost its leases grants it again.
    fn ask_once_more(&mut self, now: Moment) -> Vec<Action> {
        let left = self.lease.as_ref().and_then(DhcpLease::end).map(|end| end - now);
        let short = self.limits.whole.min(self.limits.first);
        self.look_for(Limits { whole: left.map_or(short, |left| left.min(short)), ..self.limits }, now)
    }

    fn look_for(&mut self, limits: Limits, now: Moment) -> Vec<Action> {
        let (xid, retry) = (self.dice.xid(), Retry::new(limits, now, &mut self.dice));
        self.state = ClientState::Selecting { xid, retry };
        vec![self.discover(xid)]
    }

    /// After a pause, or else a server that refuses what it offers would be asked without end.
    fn look_again(&mut self, retry: Retry, now: Moment) -> Vec<Action> {
        let xid = self.dice.xid();
        self.state = ClientState::Selecting { xid, retry: retry.sent(now, &mut self.dice) };
        Vec::new()
    }

    /// Asks for more time: the server that has granted the lease, and later any.
    fn prolong(&mut self, now: Moment) -> Vec<Action> {
        let Some(lease) = self.lease.clone() else { return Vec::new() };
        let (Some(rebinding), Some(end)) = (lease.rebinding(), lease.end()) else { return Vec::new() };
        if now >= end {
            let address = lease.grant.address;
            return self.give_up(format!("the lease of {address} has ended, and no DHCP server has prolonged it"));
        }
        let (xid, next) = match &self.state {
            ClientState::Prolonging { xid, next, .. } => (*xid, *next),
            ClientState::Selecting { .. }
            | ClientState::Requesting { .. }
            | ClientState::Rebooting { .. }
            | ClientState::Bound
            | ClientState::Over => (self.dice.xid(), now),
        };
        if now < next {
            // The answer was listened for long enough.
            self.state = ClientState::Prolonging { xid, next, deaf: now };
            return Vec::new();
        }
        let goal = if now < rebinding { rebinding } else { end };
        let least = (lease.grant.time().unwrap_or_default() / PARTS).clamp(SHORTEST_PAUSE, LEAST_PAUSE);
        let next = (now + (goal - now).div_f64(2.0).max(least)).min(goal);
        self.state = ClientState::Prolonging { xid, next, deaf: now + EAR };
        vec![self.ask_for_more(xid, &lease, now >= rebinding)]
    }

    fn discover(&self, xid: u32) -> Action {
        let mut options = self.options();
        if let Some(lease) = &self.lease {
            options.set(code::REQUESTED_ADDRESS, &lease.grant.address.octets());
        }
        self.to_everybody(MessageType::Discover, xid, options)
    }

    fn accept(&self, xid: u32, offer: Offer) -> Action {
        let mut options = self.options();
        options.set(code::REQUESTED_ADDRESS, &offer.address.octets());
        options.set(code::SERVER_IDENTIFIER, &offer.server.octets());
        self.to_everybody(MessageType::Request, xid, options)
    }

    fn ask_for(&self, xid: u32, address: Ipv4Addr) -> Action {
        let mut options = self.options();
        options.set(code::REQUESTED_ADDRESS, &address.octets());
        self.to_everybody(MessageType::Request, xid, options)
    }

    fn ask_for_more(&self, xid: u32, lease: &DhcpLease, any: bool) -> Action {
        let address = lease.grant.address;
        let message = Outgoing { own: address, ..self.message(MessageType::Request, xid, self.options()) };
        let (destination, neighbour) =
            if any { (Ipv4Addr::BROADCAST, None) } else { (lease.grant.server, Some(lease.neighbour)) };
        Action::Send(OutgoingPacket { source: address, destination, neighbour, message })
    }

    /// The message that releases an address. It is sent from the address itself: a server never receives a unicast
    /// packet without a source address.
    fn give_back(&mut self, address: Ipv4Addr, server: Ipv4Addr, neighbour: Hardware) -> OutgoingPacket {
        let mut options = DhcpOptions::default();
        options.set(code::SERVER_IDENTIFIER, &server.octets());
        options.set(code::CLIENT_IDENTIFIER, self.sent_id());
        let xid = self.dice.xid();
        let message = Outgoing { own: address, broadcast: false, ..self.message(MessageType::Release, xid, options) };
        OutgoingPacket { source: address, destination: server, neighbour: Some(neighbour), message }
    }

    /// The client identifier that was sent to servers; the configuration may have replaced it.
    fn sent_id(&self) -> &[u8] {
        let own = self.identity.provided.iter().find(|(code, _)| *code == code::CLIENT_IDENTIFIER);
        own.map_or(&self.identity.id, |(_, value)| value)
    }

    fn to_everybody(&self, kind: MessageType, xid: u32, options: DhcpOptions) -> Action {
        let message = self.message(kind, xid, options);
        let (source, destination) = (Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST);
        Action::Send(OutgoingPacket { source, destination, neighbour: None, message })
    }

    fn message(&self, kind: MessageType, xid: u32, options: DhcpOptions) -> Outgoing {
        let Identity { mac, broadcast, .. } = self.identity;
        Outgoing { kind, xid, broadcast, own: Ipv4Addr::UNSPECIFIED, mac, options }
    }

    fn options(&self) -> DhcpOptions {
        let mut options = DhcpOptions::default();
        options.set(code::PARAMETER_REQUEST_LIST, &self.identity.requested);
        options.set(code::MAXIMUM_MESSAGE_SIZE, &MESSAGE_SIZE.to_be_bytes());
        options.set(code::CLIENT_IDENTIFIER, &self.identity.id);
        self.identity.provided.iter().for_each(|(code, value)| options.set(*code, value));
        options
    }
}

fn refusal(address: Ipv4Addr) -> String {
    format!("the DHCP server refuses {address}")
}

fn moved(address: Ipv4Addr, granted: Ipv4Addr) -> String {
    format!("the DHCP server has granted {granted} in place of {address}")
}

/// Whether a message names this server, if it names one.
fn is_of(message: &Incoming, server: Ipv4Addr) -> bool {
    message.server().is_none_or(|reported| reported == server)
}

#[cfg(test)]
mod tests;
