//! Network namespaces: why one cannot be opened, its number in another namespace, and whether processes are in it.

use cni_core::error::{Code, Failure};

use crate::link::{Address, Link};

/// A network namespace that cannot be worked in.
#[derive(Debug, thiserror::Error)]
pub enum NetnsError {
    /// The namespace no longer exists: the path is missing, or only the file is left on which the namespace was
    /// mounted.
    #[error("failed to open netns {path:?}: {reason}")]
    Gone {
        /// The path, as given.
        path: String,
        /// What exists instead.
        reason: String,
    },
    /// The path, or entering it, failed for another reason.
    #[error("failed to open netns {path:?}")]
    Failed {
        /// The path, as given.
        path: String,
        /// The system's word.
        #[source]
        source: std::io::Error,
    },
}

impl Failure for NetnsError {
    fn code(&self) -> Code {
        Code::InvalidNetns
    }
}

/// The number of a container's namespace in the host's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamespaceNumber {
    /// The number.
    pub value: i32,
    /// Whether no other namespace gets this number in this boot: it is derived from the namespace's cookie. The kernel
    /// reuses numbers that it has chosen itself.
    pub is_unique: bool,
}

/// The link of a number and an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NumberedLink {
    /// No living namespace has the number.
    NoNamespace,
    /// A namespace without such a link.
    NoLink,
    /// The link.
    Link(Box<Link>),
}

/// Whether a process is in a namespace. A namespace without processes may still exist: a descriptor or a mount can hold
/// it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Occupancy {
    /// This path leads to the namespace by way of a process, or a thread, that is in it.
    Occupied(String),
    /// No process of the machine is in it.
    Empty,
    /// Not all processes can be seen, for this reason.
    Unknown(String),
}

/// What was seen in a network namespace of the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetnsView {
    /// Paths that lead to it by way of processes; none where only its number is known.
    pub paths: Vec<String>,
    /// What distinguishes it from all others, if the kernel says so.
    pub identity: Option<String>,
    /// Its links.
    pub links: Vec<Link>,
    /// The addresses of all of them, where they were asked for.
    pub addresses: Vec<Address>,
}
