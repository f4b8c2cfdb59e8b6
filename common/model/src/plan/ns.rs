//! The two network namespaces of a plugin.

use std::fmt;

/// One of the two network namespaces that a plugin works in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ns {
    /// The namespace that the plugin was started in.
    Host,
    /// The namespace of the container, `CNI_NETNS`.
    Container,
}

impl fmt::Display for Ns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Host => "host",
            Self::Container => "container",
        })
    }
}
