//! What is on the machine before a plugin runs, and what others change while it runs.

use cni_core::mac::Mac;
use cni_core::names::IfName;
use cni_model::link::{Address, Link};
use cni_model::plan::Ns;
use cni_model::traffic::{RedirectPart, RootQdisc};

use super::FakeHost;
use super::kernel::Space;

impl FakeHost {
    /// Adds a link that existed before any plugin ran. The machine chooses its index.
    pub fn add_link(&mut self, ns: Ns, link: Link) -> u32 {
        let space = self.space(ns).expect("the namespace was entered");
        self.kernel.add(&space, link)
    }

    /// Adds an interface that is up to the host, such as a network card.
    #[must_use]
    pub fn with_interface(mut self, name: &str) -> Self {
        let mac = Some(Mac::local([0, 0, 0, 0, 0, 9]));
        self.add_link(Ns::Host, Link { name: name.to_owned(), mac, mtu: 1500, up: true, ..Link::default() });
        self
    }

    /// Adds an address to an existing link.
    pub fn add_address(&mut self, ns: Ns, name: &str, address: Address) {
        let space = self.space(ns).expect("the namespace was entered");
        self.kernel.find_mut(&space, name).expect("a link").addresses.push(address);
    }

    /// Moves a link on from the container that was entered to another one, as root in a container may.
    pub fn move_on(&mut self, name: &str, to: &str) {
        let from = self.space(Ns::Container).expect("the namespace was entered");
        let name = IfName::parse(name).expect("a name");
        self.kernel.relocate(&from, &Space::container(to), name.as_str(), &name);
    }

    /// Changes a link behind the back of the plugins.
    pub fn change_link(&mut self, ns: Ns, name: &str, change: impl FnOnce(&mut Link)) {
        let space = self.space(ns).expect("the namespace was entered");
        change(&mut self.kernel.find_mut(&space, name).expect("a link").link);
    }

    /// Gives a link a queueing discipline, as an administrator does.
    pub fn set_root_qdisc(&mut self, ns: Ns, name: &str, qdisc: RootQdisc) {
        let space = self.space(ns).expect("the namespace was entered");
        self.kernel.find_mut(&space, name).expect("a link").root_qdisc = Some(qdisc);
    }

    /// Takes a kind of links away, as on a kernel that does not have them.
    #[must_use]
    pub fn without_link_kind(mut self, kind: &'static str) -> Self {
        self.absent_kind = Some(kind);
        self
    }

    /// Takes a part away that redirects need, as on a kernel that does not have it.
    #[must_use]
    pub fn without_redirect_part(mut self, part: RedirectPart) -> Self {
        self.absent_part = Some(part);
        self
    }

    /// Adds a bridge with an address to the host, so that packets to its network leave there.
    #[must_use]
    pub fn with_bridge(mut self, name: &str, address: &str) -> Self {
        let kind = Some("bridge".to_owned());
        self.add_link(Ns::Host, Link { name: name.to_owned(), kind, mtu: 1500, up: true, ..Link::default() });
        let cidr = address.parse().expect("a CIDR");
        self.add_address(Ns::Host, name, Address { cidr, tentative: false, dad_failed: false });
        self
    }
}
