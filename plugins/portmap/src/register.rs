//! The register of host ports: ADD notices a conflict without reading any rule.
//!
//! There is a record for each port number, with a line for each mapping, the newest container last, and one for each
//! attachment that names its ports; another names the chain of iptables that holds its rules. The reference writes no records; a repair records its containers.
//! Unreadable records are ignored and not changed, since a mapping works without its record.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, SocketAddr};

use cni_core::cidr::Cidr;
use cni_core::error::Error;
use cni_core::family::Family;
use cni_core::names::{Attachment, ChainName};
use cni_model::plan::{Plan, Step};
use cni_model::record::{RecordKey, RecordKind};
use cni_netfilter::Proto;
use cni_plugin::namespace::RecordedNamespace;
use cni_plugin::owner::{self, RecordedOwner};
use cni_plugin::records::Records;

use crate::config::{ListenAddress, Mapping};

/// The records: of each port by its number, and of each owner.
const PORTS: RecordKind = RecordKind::new("ports");

/// The beginning of the names of these records.
const CHAIN: &str = "chain-";

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

/// A mapping of a container, as it is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortLine {
    pub published: PublishedPort,
    pub owner: Attachment,
    /// The container's namespace, if it could be identified.
    pub home: Option<RecordedNamespace>,
}

/// The ports of an attachment.
#[derive(Clone, Debug)]
pub struct OwnPorts {
    owner: Attachment,
    /// The attachment's own record, which names its ports; `None` when that is unreadable.
    list: Option<String>,
    ports: BTreeSet<u16>,
}

impl OwnPorts {
    /// Those that are recorded, and those that the attachment has or is to have.
    pub fn observe(owner: &Attachment, mapped: impl IntoIterator<Item = u16>, records: &mut dyn Records) -> Self {
        let list = read(&of_owner(owner), records);
        let listed = list.as_deref().map(parse_ports).unwrap_or_default();
        Self { owner: owner.clone(), list, ports: mapped.into_iter().chain(listed).collect() }
    }

    /// Adds the ports of another attachment.
    pub fn add(&mut self, other: Self) {
        self.ports.extend(other.ports);
    }

    /// Their numbers, in order.
    pub fn numbers(&self) -> impl Iterator<Item = u16> {
        self.ports.iter().copied()
    }
}

/// The records of an attachment's ports.
#[derive(Clone, Debug)]
pub struct PortRegister {
    owner: Attachment,
    list: Option<String>,
    /// The mappings of each port with a readable record, the oldest first.
    lines: BTreeMap<u16, Vec<PortLine>>,
    /// Ports whose record is unreadable.
    torn: BTreeSet<u16>,
}

impl PortRegister {
    /// Reads the records of an attachment's ports.
    pub fn observe(OwnPorts { owner, list, ports }: OwnPorts, records: &mut dyn Records) -> Self {
        let (mut lines, mut torn) = (BTreeMap::new(), BTreeSet::new());
        for port in ports {
            let Some(text) = read(&of_port(port), records) else { continue };
            let found: Vec<_> = whole_lines(&text).filter_map(|line| PortLine::parse(port, line)).collect();
            if found.is_empty() && !text.is_empty() {
                torn.insert(port);
            }
            lines.insert(port, found);
        }
        Self { owner, list, lines, torn }
    }

    /// The mappings of other attachments that get packets of some of these, the oldest first.
    pub fn rivals(&self, published: &[PublishedPort]) -> Vec<&PortLine> {
        let is_rival =
            |line: &&PortLine| line.owner != self.owner && published.iter().any(|own| own.overlaps(&line.published));
        self.lines.values().flatten().filter(is_rival).collect()
    }

    /// Whether another attachment has recorded a mapping of a port after this one. An attachment without a record is
    /// the latest.
    pub fn is_later(&self, rival: &PortLine) -> bool {
        let lines = self.lines.get(&rival.published.port).map(Vec::as_slice).unwrap_or_default();
        let own = lines.iter().position(|line| line.owner == self.owner);
        own.is_some_and(|own| lines[own..].contains(rival))
    }

    /// The mappings of the attachment that are recorded.
    pub fn published(&self) -> Vec<PublishedPort> {
        let own = self.lines.values().flatten().filter(|line| line.owner == self.owner);
        own.map(|line| line.published).collect()
    }

    /// Records all mappings of the attachment, and removes some others. It keeps its position, or is the latest. Its
    /// own record is written first: if the process is killed then, all records can still be found.
    pub fn claim(&self, home: Option<&RecordedNamespace>, published: &[PublishedPort], removed: &[Attachment]) -> Plan {
        let mut plan = self.changed(published, |port, lines| {
            lines.retain(|line| !removed.contains(&line.owner));
            let place = lines.iter().position(|line| line.owner == self.owner).unwrap_or(lines.len());
            lines.retain(|line| line.owner != self.owner);
            lines.splice(place..place, self.own(home, published, port));
        });
        removed.iter().for_each(|owner| plan.owned(Step::RemoveRecord { key: of_owner(owner) }));
        plan
    }

    /// Whether all mappings of the attachment are recorded.
    pub fn has_all(&self, published: &[PublishedPort]) -> bool {
        let own = self.published();
        published.iter().all(|one| own.contains(one))
    }

    /// Records the mappings of the attachment that are not recorded, beside its others, otherwise before the first of `later`, or as the
    /// latest; and its namespace with all of them, which is another one if plugins of others have added the attachment again.
    pub fn restore(&self, home: Option<&RecordedNamespace>, published: &[PublishedPort], later: &[Attachment]) -> Plan {
        self.changed(published, |port, lines| {
            if let Some(home) = home {
                let own = lines.iter_mut().filter(|line| line.owner == self.owner);
                own.for_each(|line| line.home = Some(home.clone()));
            }
            let is_new = |line: &PortLine| {
                !lines.iter().any(|known| known.owner == line.owner && known.published == line.published)
            };
            let missing: Vec<PortLine> = self.own(home, published, port).filter(is_new).collect();
            let own = lines.iter().rposition(|line| line.owner == self.owner).map(|last| last + 1);
            let first_later = || lines.iter().position(|line| later.contains(&line.owner));
            let place = own.or_else(first_later).unwrap_or(lines.len());
            lines.splice(place..place, missing);
        })
    }

    /// Forgets the attachment, and some others.
    pub fn release(&self, removed: &[Attachment]) -> Plan {
        let mut plan = Plan::default();
        for port in self.lines.keys() {
            let stays = |line: &PortLine| line.owner != self.owner && !removed.contains(&line.owner);
            self.write_port(&mut plan, *port, |lines| lines.retain(stays));
        }
        let own = self.list.as_ref().filter(|list| !list.is_empty()).map(|_| &self.owner);
        own.into_iter().chain(removed).for_each(|owner| plan.owned(Step::RemoveRecord { key: of_owner(owner) }));
        plan
    }

    fn changed(&self, published: &[PublishedPort], change: impl Fn(u16, &mut Vec<PortLine>)) -> Plan {
        let mut plan = Plan::default();
        if let Some(before) = &self.list {
            let mut ports = parse_ports(before);
            ports.extend(published.iter().map(|own| own.port));
            let text = list(&self.owner, &ports);
            if text != *before {
                plan.owned(Step::WriteRecord { key: of_owner(&self.owner), text });
            }
        }
        for port in self.lines.keys() {
            self.write_port(&mut plan, *port, |lines| change(*port, lines));
        }
        plan
    }

    fn own<'a>(
        &'a self,
        home: Option<&'a RecordedNamespace>,
        published: &'a [PublishedPort],
        port: u16,
    ) -> impl Iterator<Item = PortLine> + 'a {
        let own = published.iter().filter(move |own| own.port == port);
        own.map(move |own| PortLine { published: *own, owner: self.owner.clone(), home: home.cloned() })
    }

    /// Appends the step that changes the record of a port, if anything changes.
    fn write_port(&self, plan: &mut Plan, port: u16, change: impl FnOnce(&mut Vec<PortLine>)) {
        let Some(before) = self.lines.get(&port) else { return };
        let key = of_port(port);
        let mut after = before.clone();
        change(&mut after);
        if after.is_empty() && (!before.is_empty() || self.torn.contains(&port)) {
            plan.owned(Step::RemoveRecord { key });
        } else if after != *before {
            plan.owned(Step::WriteRecord { key, text: after.iter().map(ToString::to_string).collect() });
        }
    }
}

/// The attachments that have mappings of a port by its record, in the order in which packets meet their rules.
pub fn owners_of_port(port: u16, records: &mut dyn Records) -> Vec<Attachment> {
    let text = read(&of_port(port), records).unwrap_or_default();
    let mut owners: Vec<Attachment> = Vec::new();
    for line in whole_lines(&text).filter_map(|line| PortLine::parse(port, line)) {
        if !owners.contains(&line.owner) {
            owners.push(line.owner);
        }
    }
    owners
}

/// The attachments that have records, except these.
pub fn owners_but(known: &[&Attachment], records: &mut dyn Records) -> Result<Vec<RecordedOwner>, Error> {
    let mut found = Vec::new();
    for key in owner::keys_but(known, PORTS, records)? {
        let text = read(&key, records).unwrap_or_default();
        let Some(at) = whole_lines(&text).next().and_then(|line| owner::parse(&mut line.split(' '))) else { continue };
        let register = PortRegister::observe(OwnPorts::observe(&at, [], records), records);
        let home = register.lines.values().flatten().filter(|line| line.owner == at).find_map(|line| line.home.clone());
        found.push(RecordedOwner { at, home, addresses: Vec::new() });
    }
    Ok(found)
}

impl PortLine {
    fn parse(port: u16, line: &str) -> Option<Self> {
        let mut words = line.splitn(6, ' ');
        let proto = Proto::parse(words.next()?)?;
        let address = words.next()?.parse().ok()?;
        let owner = owner::parse(&mut words)?;
        let home = words.next().map(RecordedNamespace::parse);
        Some(Self { published: PublishedPort { port, proto, address }, owner, home: home.flatten() })
    }
}

/// A line of the record of its port.
impl fmt::Display for PortLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PublishedPort { port: _, proto, address } = self.published;
        write!(f, "{proto} {address} {}", owner::text(&self.owner))?;
        self.home.iter().try_for_each(|home| write!(f, " {home}"))?;
        f.write_str("\n")
    }
}

/// The attachments of a container in a network that have rules in iptables, and which chain holds them.
///
/// The reference derives the chain's name from network and container. A second interface of a container in one network
/// needs its own chain, or its ADD would replace the ports of the first. The first interface has the chain that the
/// reference finds; a record says which interface that is. Without the record, an attachment has the reference's chain.
#[derive(Clone, Debug)]
pub struct ChainRegister {
    owner: Attachment,
    holders: Vec<ChainHolder>,
    /// Whether a record exists that names no owner.
    is_torn: bool,
}

/// An attachment, and which chain it has.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ChainHolder {
    owner: Attachment,
    kind: ChainKind,
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
    pub fn observe(owner: &Attachment, records: &mut dyn Records) -> Self {
        let text = read(&of_chain(owner), records).unwrap_or_default();
        let holders: Vec<_> = whole_lines(&text).filter_map(ChainHolder::parse).collect();
        Self { owner: owner.clone(), is_torn: !text.is_empty() && holders.is_empty(), holders }
    }

    /// The chain that holds the attachment's rules, or is to hold them.
    pub fn chain(&self) -> ChainName {
        match self.kind() {
            ChainKind::Reference => self.owner.dnat_chain(),
            ChainKind::Interface => self.owner.interface_dnat_chain(),
        }
    }

    /// ADD: the step that records the attachment's chain, unless it is recorded.
    pub fn claim(&self) -> Option<Step> {
        let own = ChainHolder { owner: self.owner.clone(), kind: self.kind() };
        let is_new = !self.holders.contains(&own);
        is_new.then(|| self.write(self.holders.iter().chain([&own])))
    }

    /// DEL: the step that removes the attachment's record, if there is one. A record that names no owner is removed
    /// too.
    pub fn release(&self) -> Option<Step> {
        let others: Vec<&ChainHolder> = self.holders.iter().filter(|holder| holder.owner != self.owner).collect();
        (self.is_torn || others.len() < self.holders.len()).then(|| self.write(others))
    }

    fn kind(&self) -> ChainKind {
        let own = self.holders.iter().find(|holder| holder.owner == self.owner);
        let is_taken = self.holders.iter().any(|holder| holder.kind == ChainKind::Reference);
        own.map_or(if is_taken { ChainKind::Interface } else { ChainKind::Reference }, |own| own.kind)
    }

    fn write<'a>(&self, holders: impl IntoIterator<Item = &'a ChainHolder>) -> Step {
        let text: String = holders.into_iter().map(ToString::to_string).collect();
        let key = of_chain(&self.owner);
        if text.is_empty() { Step::RemoveRecord { key } } else { Step::WriteRecord { key, text } }
    }
}

impl ChainHolder {
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let kind = match words.next()? {
            "reference" => ChainKind::Reference,
            "interface" => ChainKind::Interface,
            _ => return None,
        };
        Some(Self { kind, owner: owner::parse(&mut words)? })
    }
}

impl fmt::Display for ChainHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.kind {
            ChainKind::Reference => "reference",
            ChainKind::Interface => "interface",
        };
        writeln!(f, "{word} {}", owner::text(&self.owner))
    }
}

fn of_chain(owner: &Attachment) -> RecordKey {
    RecordKey::hashed(PORTS, CHAIN, &format!("{} {}", owner.network, owner.container))
}

/// The text of a record, empty if it is missing; `None` if it cannot be read.
fn read(key: &RecordKey, records: &mut dyn Records) -> Option<String> {
    match records.read(key) {
        Ok(text) => Some(text.unwrap_or_default()),
        Err(error) => {
            log::warn!("a conflict of host ports may go unnoticed: {}", error.in_full());
            None
        }
    }
}

/// The lines that have their end: the last one of a torn record has none.
fn whole_lines(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'))
}

fn parse_ports(text: &str) -> BTreeSet<u16> {
    whole_lines(text).skip(1).filter_map(|line| line.parse().ok()).collect()
}

fn list(owner: &Attachment, ports: &BTreeSet<u16>) -> String {
    let ports: String = ports.iter().map(|port| format!("{port}\n")).collect();
    format!("{}\n{ports}", owner::text(owner))
}

fn of_port(port: u16) -> RecordKey {
    RecordKey::of_number(PORTS, port.into())
}

fn of_owner(owner: &Attachment) -> RecordKey {
    owner::key(PORTS, owner)
}

#[cfg(test)]
mod tests;
