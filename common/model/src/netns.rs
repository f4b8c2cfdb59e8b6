//! Network namespaces: why one cannot be opened, the number of one, what is behind a number, and who is in it.

use cni_core::error::{Code, Failure};

use crate::link::Link;

/// A network namespace that cannot be worked in.
#[derive(Debug, thiserror::Error)]
pub enum NetnsError {
    /// The namespace no longer exists: there is no path, nothing is there, or only a file from which the
    /// namespace was unmounted.
    #[error("failed to open netns {path:?}: {reason}")]
    Gone {
        /// The path, as given.
        path: String,
        /// What is there instead.
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
        match self {
            Self::Gone { .. } | Self::Failed { .. } => Code::InvalidNetns,
        }
    }
}

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
