//! Links, addresses and parameters of every network namespace of the machine.

use std::collections::BTreeMap;

use cni_core::cidr::Cidr;
use cni_core::error::Error;
use cni_core::names::IfName;
use cni_model::link::{Address, Link, OperState, OtherEnd};
use cni_model::netns::NetnsView;
use cni_model::plan::{BridgePort, NewRoute};
use cni_model::routing::{FullRoute, SourceRule};
use cni_model::traffic::RootQdisc;
use cni_model::vlan::BridgeVlan;

use super::container::FakeContainer;
use super::kernel_error::refuse;

/// A network namespace: that of the host, or one by its path.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Space(Option<String>);

impl Space {
    pub fn host() -> Self {
        Self(None)
    }

    pub fn container(path: &str) -> Self {
        Self(Some(path.to_owned()))
    }

    pub fn word(&self) -> &str {
        self.0.as_deref().unwrap_or("host")
    }
}

/// A link with its properties.
#[derive(Clone, Debug)]
pub struct KernelLink {
    pub space: Space,
    pub link: Link,
    pub addresses: Vec<Address>,
    pub routes: Vec<NewRoute>,
    /// The networks of its addresses that the kernel's own routes were removed of.
    pub disconnected: Vec<Cidr>,
    pub vlans: Vec<BridgeVlan>,
    pub port: Option<BridgePort>,
    /// Routes that steps have moved here from another table.
    pub moved: Vec<FullRoute>,
    pub root_qdisc: Option<RootQdisc>,
    /// The links, of the same namespace, to which every received packet is redirected. They may no longer exist.
    pub redirects: Vec<u32>,
    /// The other end of a veth.
    pub peer: Option<(Space, u32)>,
    /// The master of a child.
    pub parent: Option<(Space, u32)>,
}

impl KernelLink {
    /// Removes the routes over a link that is set down, of all tables. Those of its addresses come again with the link.
    pub fn lose_routes(&mut self) {
        self.routes.clear();
        self.moved.clear();
        self.disconnected.clear();
    }
}

/// The kernel.
#[derive(Clone, Debug)]
pub struct Kernel {
    entries: Vec<KernelLink>,
    containers: BTreeMap<String, FakeContainer>,
    pub parameters: BTreeMap<(Space, String), String>,
    /// The index of the newest link, by namespace.
    last_index: BTreeMap<Space, u32>,
    /// The namespaces that have a number, with their identities, by the number.
    numbers: Vec<(String, Space)>,
    /// The rules that steps have made, the first first.
    pub rules: Vec<(Space, SourceRule)>,
    /// The namespaces that the host has asked about, each numbered by its place.
    numbered: Vec<Space>,
}

impl Default for Kernel {
    fn default() -> Self {
        let mut kernel = Self {
            entries: Vec::new(),
            containers: BTreeMap::new(),
            parameters: BTreeMap::new(),
            last_index: BTreeMap::new(),
            numbers: Vec::new(),
            rules: Vec::new(),
            numbered: Vec::new(),
        };
        kernel.add_lo(Space::host(), true);
        kernel
    }
}

impl Kernel {
    pub fn set_container(&mut self, path: &str, container: FakeContainer) {
        let space = Space::container(path);
        match container {
            FakeContainer::Gone => {
                self.give_hardware_back(&space);
                for index in self.links(&space, |_| true).iter().map(|link| link.index) {
                    self.forget(&space, index);
                }
                self.parameters.retain(|(of, _), _| *of != space);
                self.last_index.remove(&space);
            }
            FakeContainer::Present(_) | FakeContainer::Closed | FakeContainer::Unnamed
                if self.entries(&space).next().is_none() =>
            {
                self.add_lo(space, false);
            }
            FakeContainer::Present(_) | FakeContainer::Closed | FakeContainer::Unnamed => {}
        }
        self.containers.insert(path.to_owned(), container);
    }

    pub fn container(&self, path: &str) -> FakeContainer {
        self.containers.get(path).cloned().unwrap_or(FakeContainer::Gone)
    }

    /// The path of a container that the kernel identifies so.
    pub fn path_of(&self, identity: &str) -> Option<String> {
        let is_it = |container: &FakeContainer| *container == FakeContainer::Present(Some(identity.to_owned()));
        self.containers.iter().find(|(_, container)| is_it(container)).map(|(path, _)| path.clone())
    }

    /// What is in the namespaces that can be entered.
    pub fn views(&self) -> Vec<NetnsView> {
        let present = self.containers.iter().filter_map(|(path, container)| match container {
            FakeContainer::Present(identity) => Some((path.clone(), identity.clone())),
            FakeContainer::Gone | FakeContainer::Closed | FakeContainer::Unnamed => None,
        });
        let view = |(path, identity): (String, Option<String>)| {
            let space = Space::container(&path);
            let addresses = self.entries(&space).flat_map(|entry| entry.addresses.clone()).collect();
            NetnsView { paths: vec![path], identity, links: self.links(&space, |_| true), addresses }
        };
        present.map(view).collect()
    }

    /// The number of a namespace, which gets one if it has none. None for one that the kernel does not identify.
    pub fn number(&mut self, space: &Space) -> Option<i32> {
        let numbered = (self.identity(space)?, space.clone());
        let number = self.numbers.iter().position(|one| *one == numbered).unwrap_or_else(|| {
            self.numbers.push(numbered);
            self.numbers.len() - 1
        });
        i32::try_from(number).ok()
    }

    /// The namespace that has a number, if it lives.
    pub fn numbered(&self, number: i32) -> Option<Space> {
        let (identity, space) = self.numbers.get(usize::try_from(number).ok()?)?;
        let is_alive = match self.container(space.word()) {
            FakeContainer::Present(now) => now.is_none_or(|now| now == *identity),
            FakeContainer::Closed | FakeContainer::Unnamed => true,
            FakeContainer::Gone => false,
        };
        is_alive.then(|| space.clone())
    }

    pub fn identity(&self, space: &Space) -> Option<String> {
        match &space.0 {
            None => Some("boot:host".to_owned()),
            Some(path) => match self.container(path) {
                FakeContainer::Present(identity) => identity,
                FakeContainer::Gone | FakeContainer::Closed | FakeContainer::Unnamed => None,
            },
        }
    }

    fn add_lo(&mut self, space: Space, up: bool) {
        self.add(&space, Link { name: "lo".to_owned(), mtu: 65536, up, ..Link::default() });
        if up {
            self.set_lo_addresses(&space);
        }
    }

    /// The kernel gives `lo` its addresses when it comes up.
    pub fn set_lo_addresses(&mut self, space: &Space) {
        let own = ["127.0.0.1/8", "::1/128"].map(|text| text.parse::<Cidr>().expect("CIDR"));
        if let Some(lo) = self.find_mut(space, "lo").filter(|lo| lo.addresses.is_empty()) {
            lo.addresses = own.map(|cidr| Address { cidr, tentative: false, dad_failed: false }).into();
        }
    }

    /// The next index of a namespace. As in the kernel, links of two namespaces may have the same one.
    fn next_index(&mut self, space: &Space) -> u32 {
        let last = self.last_index.get(space).copied().unwrap_or_default();
        let is_free = |index: &u32| self.entries(space).all(|entry| entry.link.index != *index);
        let next = (last + 1..).find(is_free).expect("few links");
        self.last_index.insert(space.clone(), next);
        next
    }

    /// Adds a link.
    pub fn add(&mut self, space: &Space, mut link: Link) -> u32 {
        let index = self.next_index(space);
        link.index = index;
        self.entries.push(KernelLink {
            space: space.clone(),
            link,
            addresses: Vec::new(),
            routes: Vec::new(),
            disconnected: Vec::new(),
            vlans: Vec::new(),
            port: None,
            moved: Vec::new(),
            root_qdisc: None,
            redirects: Vec::new(),
            peer: None,
            parent: None,
        });
        index
    }

    /// Makes two links the ends of one pair.
    pub fn pair(&mut self, one: (&Space, u32), other: (&Space, u32)) {
        for (end, peer) in [(one, other), (other, one)] {
            if let Some(entry) = self.by_index_mut(end.0, end.1) {
                entry.peer = Some((peer.0.clone(), peer.1));
                entry.link.peer = Some(peer.1);
            }
        }
    }

    /// Deletes a link with everything on it, and the other end of a veth.
    pub fn forget(&mut self, space: &Space, index: u32) {
        let gone = self.entries.iter().position(|entry| entry.space == *space && entry.link.index == index);
        let Some(entry) = gone.map(|at| self.entries.remove(at)) else { return };
        let conf = format!("/conf/{}/", entry.link.name);
        self.parameters.retain(|(of, path), _| of != space || !path.contains(&conf));
        for other in self.entries.iter_mut().filter(|other| other.space == *space) {
            if other.link.master == Some(index) {
                (other.link.master, other.port, other.vlans) = (None, None, Vec::new());
            }
        }
        self.forget_children(space, index);
        if let Some((space, peer)) = entry.peer {
            self.forget(&space, peer);
        }
    }

    /// Deletes the links on a master.
    fn forget_children(&mut self, space: &Space, master: u32) {
        let of_it = |entry: &&KernelLink| entry.parent == Some((space.clone(), master));
        let gone: Vec<_> =
            self.entries.iter().filter(of_it).map(|entry| (entry.space.clone(), entry.link.index)).collect();
        gone.iter().for_each(|(space, index)| self.forget(space, *index));
    }

    /// Moves a link, which keeps its index if that is free there. The other end of a veth and the children know it.
    pub fn relocate(&mut self, space: &Space, to: &Space, name: &str, new_name: &IfName) {
        let Some(at) = self.entries.iter().position(|entry| entry.space == *space && entry.link.name == name) else {
            return;
        };
        let mut entry = self.entries.remove(at);
        let conf = format!("/conf/{name}/");
        self.parameters.retain(|(of, path), _| of != space || !path.contains(&conf));
        new_name.as_str().clone_into(&mut entry.link.name);
        entry.space = to.clone();
        if space != to {
            (entry.link.up, entry.link.master, entry.port) = (false, None, None);
            (entry.addresses, entry.routes, entry.vlans) = (Vec::new(), Vec::new(), Vec::new());
        }
        let (before, is_taken) = (entry.link.index, self.by_index_mut(to, entry.link.index).is_some());
        entry.link.index = if is_taken { self.next_index(to) } else { before };
        let own = (to.clone(), entry.link.index);
        if let Some(peer) = entry.peer.clone().and_then(|(space, index)| self.by_index_mut(&space, index)) {
            (peer.link.peer, peer.peer) = (Some(own.1), Some(own.clone()));
        }
        for child in self.entries.iter_mut().filter(|child| child.parent == Some((space.clone(), before))) {
            (child.link.peer, child.parent) = (Some(own.1), Some(own.clone()));
        }
        self.entries.push(entry);
    }

    /// Links of hardware go back to the host under the name that they have, or `dev` and their index.
    fn give_hardware_back(&mut self, space: &Space) {
        let host = Space::host();
        for link in self.links(space, |link| link.kind.is_none() && link.name != "lo") {
            let taken = self.find_mut(&host, &link.name).is_some();
            let name = if taken { format!("dev{}", link.index) } else { link.name.clone() };
            let new = IfName::parse(&name).expect("a name");
            self.relocate(space, &host, &link.name, &new);
        }
    }

    pub fn entries<'a>(&'a self, space: &'a Space) -> impl Iterator<Item = &'a KernelLink> {
        self.entries.iter().filter(move |entry| entry.space == *space)
    }

    /// Everything, of every namespace.
    pub fn all(&self) -> impl Iterator<Item = &KernelLink> {
        self.entries.iter()
    }

    /// The same, to be changed.
    pub fn entries_mut(&mut self) -> impl Iterator<Item = &mut KernelLink> {
        self.entries.iter_mut()
    }

    pub fn find_mut(&mut self, space: &Space, name: &str) -> Option<&mut KernelLink> {
        self.entries.iter_mut().find(|entry| entry.space == *space && entry.link.name == name)
    }

    pub fn by_index_mut(&mut self, space: &Space, index: u32) -> Option<&mut KernelLink> {
        self.entries.iter_mut().find(|entry| entry.space == *space && entry.link.index == index)
    }

    /// The link of a name, which must exist.
    pub fn present(&mut self, space: &Space, name: &str) -> Result<&mut KernelLink, Error> {
        let word = space.word().to_owned();
        match self.find_mut(space, name) {
            Some(entry) => Ok(entry),
            None => refuse(format!("there is no link {name:?} in {word}")),
        }
    }

    /// The links that a condition holds for, as the kernel describes them now.
    pub fn links(&self, space: &Space, condition: impl Fn(&Link) -> bool) -> Vec<Link> {
        let found = self.entries(space).filter(|entry| condition(&entry.link));
        found.map(|entry| Link { oper_state: self.oper_state(entry), ..entry.link.clone() }).collect()
    }

    /// The other end of a veth, if it is in this namespace and the one end in that other.
    pub fn peer_of(&self, space: &Space, (other, link): (&Space, &Link)) -> Vec<Link> {
        let leads_there = |entry: &&KernelLink| entry.peer == Some((other.clone(), link.index));
        let found = self.entries(space).filter(leads_there).find(|entry| link.peer == Some(entry.link.index));
        found.map(|entry| entry.link.clone()).into_iter().collect()
    }

    /// The other end of a link, unless it is in its own container.
    pub fn other_end(&mut self, space: &Space, link: &Link) -> Option<OtherEnd> {
        let entry = self.entries(space).find(|entry| entry.link.index == link.index)?;
        let (there, index) = entry.peer.clone().or_else(|| entry.parent.clone())?;
        if there == Space::host() {
            return Some(OtherEnd { index: Some(index), netns: None });
        }
        (there != *space).then(|| OtherEnd { index: Some(index), netns: Some(self.number_of(there)) })
    }

    fn number_of(&mut self, space: Space) -> i32 {
        let known = self.numbered.iter().position(|numbered| *numbered == space);
        let at = known.unwrap_or_else(|| {
            self.numbered.push(space);
            self.numbered.len() - 1
        });
        i32::try_from(at).expect("few namespaces")
    }

    /// The addresses of the other end of a veth of the host; none when that is in the host itself.
    pub fn peer_addresses(&self, link: &Link) -> Option<Vec<Address>> {
        let host = Space::host();
        let of_host = self.entries(&host).find(|entry| entry.link.index == link.index)?;
        let (space, peer) = of_host.peer.clone().filter(|(space, _)| *space != host)?;
        let other = self.entries(&space).find(|entry| entry.link.index == peer)?;
        Some(other.addresses.clone())
    }

    /// A veth passes packets when both ends are up, a child when its master is.
    pub fn oper_state(&self, entry: &KernelLink) -> OperState {
        let is_up = |(space, index): &(Space, u32)| {
            self.entries(space).any(|other| other.link.index == *index && other.link.up)
        };
        match entry.peer.as_ref().or(entry.parent.as_ref()) {
            _ if !entry.link.up => OperState::Down,
            Some(peer) if !is_up(peer) => OperState::LowerLayerDown,
            Some(_) | None => OperState::Up,
        }
    }

    /// The value of a parameter, `0` if it was never written; `None` for a missing link.
    pub fn parameter(&self, space: &Space, path: &str) -> Option<String> {
        let name = path.split_once("/conf/").map(|(_, rest)| rest.rsplit_once('/').map_or(rest, |(name, _)| name));
        let exists =
            |name: &str| ["all", "default"].contains(&name) || self.entries(space).any(|entry| entry.link.name == name);
        if !name.is_none_or(exists) {
            return None;
        }
        let written = self.parameters.get(&(space.clone(), path.to_owned())).cloned();
        Some(written.unwrap_or_else(|| "0".to_owned()))
    }

    /// A line for everything.
    pub fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.entries.iter().flat_map(|entry| entry_lines(self, entry)).collect();
        let changed = self.parameters.iter().filter(|(_, value)| *value != "0");
        lines.extend(changed.map(|((space, path), value)| format!("{} {path}={value}", space.word())));
        lines.extend(self.rules.iter().map(|(space, rule)| format!("{} rule {rule}", space.word())));
        lines.sort();
        lines
    }
}

/// Without the index, which never comes again.
fn entry_lines(kernel: &Kernel, entry: &KernelLink) -> Vec<String> {
    let KernelLink { space, link, addresses, routes, disconnected, vlans, port, moved, root_qdisc, redirects, .. } =
        entry;
    let (word, name) = (space.word(), &link.name);
    let name_of = |index: u32| kernel.entries(space).find(|entry| entry.link.index == index).map(|at| &at.link.name);
    let master = link.master.and_then(name_of);
    let Link { kind, mac, mtu, up, promisc, all_multicast, tx_queue_length, alias, vlan_filtering, child, tap, .. } =
        link;
    let mut lines = vec![format!(
        "{word} link {name} {kind:?} {mac:?} mtu {mtu} up {up} promisc {promisc} allmulticast {all_multicast} \
         txqueuelen {tx_queue_length} alias {alias:?} vlan_filtering {vlan_filtering:?} child {child:?} tap {tap:?} master {master:?} {port:?}"
    )];
    lines.extend(addresses.iter().map(|address| format!("{word} address {} dev {name}", address.cidr)));
    lines.extend(routes.iter().map(|route| format!("{word} route dev {name} {route:?}")));
    lines.extend(disconnected.iter().map(|network| format!("{word} no route to {network} dev {name}")));
    lines.extend(moved.iter().map(|route| format!("{word} moved route {route}")));
    lines.extend(root_qdisc.iter().map(|qdisc| format!("{word} qdisc {qdisc:?} dev {name}")));
    let target = |index: &u32| name_of(*index).map_or("a link that is gone", String::as_str);
    lines.extend(redirects.iter().map(|index| format!("{word} redirect of {name} to {}", target(index))));
    lines.extend(vlans.iter().map(|vlan| format!("{word} vlan {vlan:?} dev {name}")));
    lines
}
