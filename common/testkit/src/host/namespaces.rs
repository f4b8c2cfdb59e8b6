//! Network namespaces: their numbers, and what is in them.

use std::rc::Rc;

use cni_core::error::Error;
use cni_model::link::{Address, Link};
use cni_model::netns::{NamespaceNumber, NetnsView, NumberedLink, Occupancy};
use cni_model::plan::Ns;
use cni_plugin::namespace_state::NamespaceState;

use super::kernel::Space;
use super::{FakeContainer, FakeHost};

impl NamespaceState for FakeHost {
    fn identity(&mut self, ns: Ns) -> Result<Option<String>, Error> {
        let space = self.space(ns)?;
        Ok(self.kernel.identity(&space))
    }

    fn keep(&mut self) {
        self.kept.push(self.entered.take());
    }

    fn back(&mut self) {
        self.entered = self.kept.pop().flatten();
    }

    fn number_container(&mut self) -> Result<Option<NamespaceNumber>, Error> {
        let space = self.space(Ns::Container)?;
        Ok(self.kernel.number(&space).map(|value| NamespaceNumber { value, is_unique: true }))
    }

    fn numbered_link(&mut self, number: i32, index: u32) -> Result<NumberedLink, Error> {
        Ok(match self.kernel.numbered(number) {
            Some(space) => match self.kernel.links(&space, |link| link.index == index).pop() {
                Some(link) => NumberedLink::Link(Box::new(link)),
                None => NumberedLink::NoLink,
            },
            None => NumberedLink::NoNamespace,
        })
    }

    fn numbered_links(&mut self, number: i32) -> Result<Option<Vec<Link>>, Error> {
        Ok(self.kernel.numbered(number).map(|space| self.kernel.links(&space, |_| true)))
    }

    fn numbered_addresses(&mut self, number: i32) -> Result<Option<Vec<Address>>, Error> {
        let space = self.kernel.numbered(number);
        Ok(space.map(|space| self.kernel.entries(&space).flat_map(|entry| entry.addresses.clone()).collect()))
    }

    fn path_by_process(&mut self, identity: &str) -> Result<Option<String>, Error> {
        Ok(self.kernel.path_of(identity))
    }

    /// A container that has a path has a process, too.
    fn occupancy(&mut self, number: i32, _index: u32) -> Result<Occupancy, Error> {
        Ok(match self.kernel.numbered(number).map(|space| self.kernel.container(space.word())) {
            Some(FakeContainer::Present(_)) => Occupancy::Occupied("/proc/1/ns/net".to_owned()),
            Some(FakeContainer::Closed) => Occupancy::Unknown("not all processes can be seen".to_owned()),
            Some(FakeContainer::Unnamed | FakeContainer::Gone) | None => Occupancy::Empty,
        })
    }

    fn survey(&mut self, kind: Option<&str>) -> Rc<[NetnsView]> {
        let mut views = self.kernel.views();
        for view in &mut views {
            view.links.retain(|link| link.kind.as_deref() == kind);
            view.addresses.clear();
        }
        views.retain(|view| !view.links.is_empty());
        views.into()
    }

    fn unseen(&mut self, _kind: Option<&str>) -> Option<String> {
        self.unseen.clone()
    }

    fn peer_addresses(&mut self, link: &Link) -> Result<Option<Vec<Address>>, Error> {
        Ok(self.kernel.peer_addresses(link))
    }

    fn leads_to_container(&mut self, path: &str) -> Result<bool, Error> {
        Ok(self.space(Ns::Container)? == Space::container(path))
    }
}
