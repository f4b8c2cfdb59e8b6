//! Questions about the network namespaces of containers.

use std::rc::Rc;

use cni_core::error::Error;
use cni_model::link::{Address, Link};
use cni_model::netns::{NamespaceNumber, NetnsView, NumberedLink, Occupancy};
use cni_model::plan::Ns;

/// Questions about the namespaces of containers.
pub trait NamespaceState {
    /// A unique identifier of the namespace, never reused, not even after a reboot; `None` if the kernel has none
    /// (before Linux 5.14).
    fn identity(&mut self, ns: Ns) -> Result<Option<String>, Error>;

    /// Whether a path leads to the container's namespace, which was entered. A path that cannot be opened does not.
    fn leads_to_container(&mut self, path: &str) -> Result<bool, Error>;

    /// Sets the entered namespace aside, until [`NamespaceState::back`].
    fn keep(&mut self);

    /// Enters the namespace again that was set aside last, by its descriptor: its path may lead elsewhere by now.
    fn back(&mut self);

    /// Gives the container's namespace a number in the host's, unless it has one, and returns it. A kernel that has no
    /// answer gives `None`.
    fn number_container(&mut self) -> Result<Option<NamespaceNumber>, Error>;

    /// Looks up the link of an index in the namespace of a number.
    fn numbered_link(&mut self, number: i32, index: u32) -> Result<NumberedLink, Error>;

    /// Lists the links in the namespace of a number; `None` when no living namespace has it.
    fn numbered_links(&mut self, number: i32) -> Result<Option<Vec<Link>>, Error>;

    /// Lists the addresses in the namespace of a number; `None` when no living namespace has it.
    fn numbered_addresses(&mut self, number: i32) -> Result<Option<Vec<Address>>, Error>;

    /// The addresses of the other end of a veth of the host, in any namespace; `None` if that end is in the host's own
    /// namespace, or if its namespace has lost its last user, so that the kernel is about to delete both ends.
    fn peer_addresses(&mut self, link: &Link) -> Result<Option<Vec<Address>>, Error>;

    /// A path to the namespace of an identity through a process in it, even if the namespace has no name; `None` if it
    /// has no process.
    fn path_by_process(&mut self, identity: &str) -> Result<Option<String>, Error>;

    /// Looks for a process in the namespace of a number, in which a link has this index.
    fn occupancy(&mut self, number: i32, index: u32) -> Result<Occupancy, Error>;

    /// Looks for links of a kind, or for hardware, in every network namespace of the machine that a thread is in or a process
    /// holds open, or that is mounted. Namespaces without such links are missing, as are those that cannot be seen within a
    /// time limit. Addresses are not listed. The machine is looked at once: later answers are the same.
    fn survey(&mut self, kind: Option<&str>) -> Rc<[NetnsView]>;

    /// What a survey of links of this kind could not see; `None` if it has seen all, or was not made.
    fn unseen(&mut self, kind: Option<&str>) -> Option<String>;
}
