//! What the kernel knows of the network namespaces of containers: their identities, their numbers, and what is behind a number.

use cni_core::error::Error;

use crate::link::{Address, Link};
use crate::plan::Ns;

/// The number of a container's namespace in the host's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamespaceNumber {
    /// The number.
    pub value: i32,
    /// Whether no other namespace gets it in this boot: it was derived from the namespace's cookie. Numbers that the kernel
    /// has chosen are used again.
    pub is_unique: bool,
}

/// What is behind a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NumberedLink {
    /// No living namespace has the number.
    NoNamespace,
    /// A namespace without such a link.
    NoLink,
    /// The link.
    Link(Box<Link>),
}

/// What the kernel knows of the namespaces of containers.
pub trait NamespaceState {
    /// Something that differs between any two namespaces that the machine has had, in this boot and before;
    /// `None` where the kernel cannot say (before Linux 5.14).
    ///
    /// # Errors
    /// When the kernel could say and does not.
    fn identity(&mut self, ns: Ns) -> Result<Option<String>, Error>;

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

/// Whether a process is in a namespace. One without any may live on: a descriptor or a name can hold it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Occupancy {
    /// This path leads to the namespace by way of a process, or a thread, that is in it.
    Occupied(String),
    /// No process of the machine is in it.
    Empty,
    /// Not all processes can be seen, for this reason.
    Unknown(String),
}
