//! What the kernel knows of the network namespaces of containers.

use cni_core::error::Error;
use cni_model::link::{Address, Link};
use cni_model::netns::{NamespaceNumber, NumberedLink, Occupancy};
use cni_model::plan::Ns;

/// What the kernel knows of the namespaces of containers.
pub trait NamespaceState {
    /// Something that differs between any two namespaces that the machine has had, in this boot and before;
    /// `None` where the kernel cannot say (before Linux 5.14).
    ///
    /// # Errors
    /// When the kernel could say and does not.
    fn identity(&mut self, ns: Ns) -> Result<Option<String>, Error>;

    /// Whether a path leads to the container's namespace, which was entered. A path that cannot be opened does not.
    ///
    /// # Errors
    /// When none was entered, or it does not answer.
    fn leads_to_container(&mut self, path: &str) -> Result<bool, Error>;

    /// Gives the container's namespace a number in the host's, unless it has one, and returns it. A kernel that has no
    /// answer gives `None`.
    ///
    /// # Errors
    /// When the kernel refuses.
    fn number_container(&mut self) -> Result<Option<NamespaceNumber>, Error>;

    /// Looks up the link of an index in the namespace of a number.
    ///
    /// # Errors
    /// When the kernel refuses.
    fn numbered_link(&mut self, number: i32, index: u32) -> Result<NumberedLink, Error>;

    /// Lists the addresses in the namespace of a number; `None` when no living namespace has it.
    ///
    /// # Errors
    /// When the kernel refuses.
    fn numbered_addresses(&mut self, number: i32) -> Result<Option<Vec<Address>>, Error>;

    /// The addresses of the other end of a veth of the host, whatever namespace that one is in; `None` when it is in the
    /// host's own, or when its namespace has lost its last user, so that the kernel is about to remove both ends.
    ///
    /// # Errors
    /// When the kernel does not answer.
    fn peer_addresses(&mut self, link: &Link) -> Result<Option<Vec<Address>>, Error>;

    /// A path to the namespace of an identity by way of a process that is in it, though it may have no name
    /// any more; `None` when no process is.
    ///
    /// # Errors
    /// When the processes cannot be listed.
    fn path_by_process(&mut self, identity: &str) -> Result<Option<String>, Error>;

    /// Looks for a process in the namespace of a number, in which a link has this index.
    ///
    /// # Errors
    /// When the processes cannot be listed.
    fn occupancy(&mut self, number: i32, index: u32) -> Result<Occupancy, Error>;
}
