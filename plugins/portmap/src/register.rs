//! The register of host ports: ADD notices a conflict without reading any rule.
//!
//! The entry of an attachment has a part for each of its ports, with its mappings and its place among others that have the port; another part
//! names the chain of iptables that holds its rules. The reference records nothing; a repair records its containers.
//! What cannot be read counts as missing, since a mapping works without it.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use cni_core::cidr::Cidr;
use cni_core::error::Error;
use cni_core::family::Family;
use cni_core::names::{Attachment, ChainName};
use cni_model::plan::Step;
use cni_model::record::{Part, PartChanges};
use cni_netfilter::Proto;
use cni_plugin::ledger::{self, CHAIN, Entry, Ledger, PORT, of_container_in_network};
use cni_plugin::namespace::RecordedNamespace;

use crate::config::{ListenAddress, Mapping};

/// A port of the host that leads to a container. Two containers can have the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PublishedPort {
    pub port: u16,
    pub proto: Proto,
    /// The address of the host; the unspecified one means every one of its family.
    pub address: IpAddr,
}

impl PublishedPort {
    /// The host port of a mapping in the family of a container's address, if any.
    pub fn of(mapping: &Mapping, target: Cidr) -> Option<Self> {
        let family = target.family();
        let address = match mapping.listen {
            ListenAddress::Address(address) => address,
            ListenAddress::Anywhere | ListenAddress::Family(_) => family.unspecified(),
        };
        let port = Self { port: mapping.host_port, proto: mapping.proto, address };
        mapping.applies_to(family).then_some(port)
    }

    /// Whether a packet can match both.
    pub fn overlaps(&self, other: &Self) -> bool {
        let same_address = self.address == other.address;
        let same_family = Family::of(self.address) == Family::of(other.address);
        let addresses =
            same_address || same_family && (self.address.is_unspecified() || other.address.is_unspecified());
        self.port == other.port && self.proto == other.proto && addresses
    }

    pub const fn family(&self) -> Family {
        Family::of(self.address)
    }
}

impl fmt::Display for PublishedPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.proto, SocketAddr::new(self.address, self.port))
    }
}

/// What is between the mappings and the namespace of a part.
const HOME: &str = " in ";

/// The mappings of an attachment at one port, as its entry has them.
#[derive(Clone, Debug, PartialEq, Eq)]
struct RecordedPort {
    /// The time since boot at which the attachment got the port: packets meet the rules of the earliest first.
    since: Duration,
    published: Vec<PublishedPort>,
    /// The container's namespace then, if it could be identified. A later ADD may have had no ports.
    home: Option<RecordedNamespace>,
}

impl RecordedPort {
    fn of(entry: &Entry, port: u16) -> Option<Self> {
        Self::parse(port, entry.part(&PORT.about(port))?)
    }

    fn parse(port: u16, text: &str) -> Option<Self> {
        let (text, home) = text.split_once(HOME).map_or((text, None), |(text, home)| (text, Some(home)));
        let mut words = text.split(' ');
        let since = Duration::from_nanos(words.next()?.parse().ok()?);
        let mut published = Vec::new();
        while let Some(proto) = words.next() {
            published.push(PublishedPort { port, proto: Proto::parse(proto)?, address: words.next()?.parse().ok()? });
        }
        Some(Self { since, published, home: home.and_then(RecordedNamespace::parse) })
    }
}

impl fmt::Display for RecordedPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.since.as_nanos())?;
        self.published.iter().try_for_each(|PublishedPort { proto, address, .. }| write!(f, " {proto} {address}"))?;
        self.home.iter().try_for_each(|home| write!(f, "{HOME}{home}"))
    }
}

/// Another attachment that has some of the ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContestingAttachment {
    pub entry: Entry,
    pub ports: Vec<PublishedPort>,
    /// Whether it was added after the attachment in question.
    pub is_later: bool,
    /// Its namespace when it got them.
    pub home: Option<RecordedNamespace>,
}

/// What is recorded of an attachment's ports.
#[derive(Clone, Debug)]
pub struct PortRegister {
    owner: Attachment,
    /// Those that are recorded, and those that the attachment has or is to have.
    ports: BTreeSet<u16>,
    /// The entry of the attachment.
    pub own: Option<Entry>,
    /// The others that have some of the ports.
    others: Vec<Entry>,
}

impl PortRegister {
    /// Reads what is recorded of an attachment's ports, which are the recorded ones and these.
    pub fn observe(owner: &Attachment, mapped: impl IntoIterator<Item = u16>, ledger: &mut dyn Ledger) -> Self {
        let own = or_warn(ledger.entry(owner));
        let ports: BTreeSet<u16> = mapped.into_iter().chain(own.iter().flat_map(recorded_ports)).collect();
        let mut others = holders(&ports, ledger);
        others.retain(|entry| entry.at != *owner);
        Self { owner: owner.clone(), ports, own, others }
    }

    /// The same, as it is recorded now.
    pub fn observe_again(&self, ledger: &mut dyn Ledger) -> Self {
        Self::observe(&self.owner, self.ports(), ledger)
    }

    /// The numbers of the ports, in order.
    pub fn ports(&self) -> impl Iterator<Item = u16> {
        self.ports.iter().copied()
    }

    /// The other attachments that get packets of some of these.
    pub fn rivals(&self, published: &[PublishedPort]) -> Vec<ContestingAttachment> {
        self.others.iter().filter_map(|entry| self.rival(entry, published)).collect()
    }

    fn rival(&self, entry: &Entry, published: &[PublishedPort]) -> Option<ContestingAttachment> {
        let mut ports = self.published_by(entry);
        ports.retain(|port| published.iter().any(|own| own.overlaps(port)));
        let port = ports.first()?.port;
        let home = RecordedPort::of(entry, port).and_then(|recorded| recorded.home);
        Some(ContestingAttachment { entry: entry.clone(), ports, is_later: self.is_later(entry, port), home })
    }

    /// Whether another attachment got a port after this one. One without a recorded place is the latest.
    fn is_later(&self, rival: &Entry, port: u16) -> bool {
        self.recorded(port)
            .is_some_and(|own| RecordedPort::of(rival, port).is_some_and(|rival| rival.since > own.since))
    }

    /// The mappings of the attachment that are recorded.
    pub fn published(&self) -> Vec<PublishedPort> {
        self.own.iter().flat_map(|own| self.published_by(own)).collect()
    }

    fn published_by(&self, entry: &Entry) -> Vec<PublishedPort> {
        self.ports().filter_map(|port| RecordedPort::of(entry, port)).flat_map(|found| found.published).collect()
    }

    fn recorded(&self, port: u16) -> Option<RecordedPort> {
        RecordedPort::of(self.own.as_ref()?, port)
    }

    /// Records the mappings of the attachment in place of those that are recorded. It keeps its place, or is the latest.
    pub fn claim(&self, published: &[PublishedPort], chain: Option<(Part, Option<String>)>, now: Duration) -> Step {
        let namespace = self.own.as_ref().and_then(|own| own.namespace.as_ref());
        let claimed = |port| {
            let published: Vec<_> = published.iter().filter(|own| own.port == port).copied().collect();
            let since = self.recorded(port).map_or(now, |own| own.since);
            let is_mapped = !published.is_empty();
            let home = namespace.cloned();
            (PORT.about(port), is_mapped.then(|| RecordedPort { since, published, home }.to_string()))
        };
        Step::Record {
            at: self.owner.clone(),
            namespace: None,
            parts: self.ports().map(claimed).chain(chain).collect(),
        }
    }

    /// Whether all mappings of the attachment are recorded.
    pub fn has_all(&self, published: &[PublishedPort]) -> bool {
        let own = self.published();
        published.iter().all(|one| own.contains(one))
    }

    /// Records the mappings of the attachment that are not recorded. It keeps its place, otherwise comes before the first of `later`, or is
    /// the latest. Its namespace is another one if plugins of others have added the attachment again. `None` if nothing changes.
    pub fn restore(
        &self,
        namespace: Option<&RecordedNamespace>,
        published: &[PublishedPort],
        later: &[Attachment],
        now: Duration,
    ) -> Option<Step> {
        let recorded = self.own.as_ref().and_then(|own| own.namespace.as_ref());
        let identity = |namespace: Option<&RecordedNamespace>| namespace.map(|namespace| namespace.identity.clone());
        // A repair may reach the namespace by another path.
        let namespace = namespace.filter(|_| identity(namespace) != identity(recorded));
        let home = namespace.or(recorded);
        let mut parts = PartChanges::new();
        for published in published.chunk_by(|one, next| one.port == next.port) {
            let port = published[0].port;
            let (known, place) = (self.recorded(port), self.place_before(later, port).unwrap_or(now));
            let (since, found) = known.clone().map_or((place, Vec::new()), |known| (known.since, known.published));
            let mut own = RecordedPort { since, published: found, home: home.cloned() };
            let missing: Vec<_> = published.iter().filter(|one| !own.published.contains(one)).collect();
            own.published.extend(missing);
            if known.as_ref() != Some(&own) {
                parts.push((PORT.about(port), Some(own.to_string())));
            }
        }
        let namespace = namespace.map(ToString::to_string);
        let is_change = namespace.is_some() || !parts.is_empty();
        is_change.then(|| Step::Record { at: self.owner.clone(), namespace, parts })
    }

    /// The place before the first of some others at a port, behind those before it.
    fn place_before(&self, later: &[Attachment], port: u16) -> Option<Duration> {
        let places = |is_later: bool| {
            let others = self.others.iter().filter(move |other| later.contains(&other.at) == is_later);
            others.filter_map(|other| RecordedPort::of(other, port)).map(|other| other.since)
        };
        let first = places(true).min()?;
        let before = places(false).filter(|place| *place < first).max().unwrap_or_default();
        Some(before + (first - before) / 2)
    }
}

/// The step that forgets the ports of an attachment and its chain, if any is recorded.
pub fn release(entry: &Entry) -> Option<Step> {
    let chain = of_container_in_network(CHAIN, &entry.at);
    let ports = entry.parts_about(PORT).map(|(port, _)| PORT.about(port));
    let parts: Vec<Part> = ports.chain(entry.part(&chain).is_some().then_some(chain)).collect();
    (!parts.is_empty()).then(|| ledger::remove(&entry.at, parts))
}

/// The ports of which mappings are recorded.
pub fn recorded_ports(entry: &Entry) -> impl Iterator<Item = u16> {
    entry.parts_about(PORT).filter_map(|(port, _)| port.parse().ok())
}

/// The attachments that have recorded mappings of a port, in the order in which packets meet their rules.
pub fn owners_of_port(port: u16, ledger: &mut dyn Ledger) -> Vec<Attachment> {
    let place = |entry: &Entry| RecordedPort::of(entry, port).map(|recorded| recorded.since);
    let mut found = holders(&BTreeSet::from([port]), ledger);
    found.retain(|entry| place(entry).is_some());
    found.sort_by_key(place);
    found.into_iter().map(|entry| entry.at).collect()
}

/// The entries that have some ports.
fn holders(ports: &BTreeSet<u16>, ledger: &mut dyn Ledger) -> Vec<Entry> {
    or_warn(ledger.holders(PORT, &|thing| thing.parse().is_ok_and(|port| ports.contains(&port))))
}

/// Which chain of iptables holds the rules of an attachment.
///
/// The reference derives the chain's name from network and container. A second interface of a container in one network
/// needs its own chain, or its ADD would replace the ports of the first. The first interface has the chain that the
/// reference finds; a record says which interface that is. Without the record, an attachment has the reference's chain.
#[derive(Clone, Debug)]
pub struct ChainRegister {
    owner: Attachment,
    kind: ChainKind,
    is_recorded: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChainKind {
    /// The one with the reference's name.
    Reference,
    /// One that is named for the interface too.
    Interface,
}

impl ChainRegister {
    /// Reads what is recorded.
    pub fn observe(owner: &Attachment, ledger: &mut dyn Ledger) -> Self {
        let recorded = or_warn(ledger.entry(owner)).as_ref().and_then(ChainKind::of);
        let kind = recorded.unwrap_or_else(|| {
            let part = of_container_in_network(CHAIN, owner);
            let holders = or_warn(ledger.holders(CHAIN, &|thing| thing == part.thing()));
            // The own entry may have been unreadable for a moment.
            let own = holders.iter().find(|holder| holder.at == *owner).and_then(ChainKind::of);
            let is_taken = || holders.iter().any(|holder| ChainKind::of(holder) == Some(ChainKind::Reference));
            own.unwrap_or_else(|| if is_taken() { ChainKind::Interface } else { ChainKind::Reference })
        });
        Self { owner: owner.clone(), kind, is_recorded: recorded.is_some() }
    }

    /// The chain that holds the attachment's rules, or is to hold them.
    pub fn chain(&self) -> ChainName {
        match self.kind {
            ChainKind::Reference => self.owner.dnat_chain(),
            ChainKind::Interface => self.owner.interface_dnat_chain(),
        }
    }

    /// ADD: the part that records the attachment's chain, unless it is recorded.
    pub fn claim(&self) -> Option<(Part, Option<String>)> {
        let part = of_container_in_network(CHAIN, &self.owner);
        (!self.is_recorded).then(|| (part, Some(self.kind.word().to_owned())))
    }
}

impl ChainKind {
    fn of(entry: &Entry) -> Option<Self> {
        let word = entry.part(&of_container_in_network(CHAIN, &entry.at))?;
        [Self::Reference, Self::Interface].into_iter().find(|kind| kind.word() == word)
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Reference => "reference",
            Self::Interface => "interface",
        }
    }
}

/// Logs a failure of what is done with the ledger.
pub fn or_warn<T: Default>(done: Result<T, Error>) -> T {
    let warn = |error: &Error| log::warn!("a conflict of host ports may go unnoticed: {}", error.in_full());
    done.inspect_err(warn).unwrap_or_default()
}

#[cfg(test)]
mod tests;
