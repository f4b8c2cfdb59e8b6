//! The terms of a step: where it works, whose its object is, what it does if the object exists, and which kernel parameter it writes.

use std::fmt;

use cni_core::family::Family;
use cni_core::names::IfName;

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

/// The owner of a step's object, which decides what happens to it if a later step fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// The attachment: the step is undone.
    Owned,
    /// Part of an owned object, and removed with it.
    Within,
    /// Everybody's: ensured, never undone. SPEC "Lifecycle & Ordering" lets runtimes add different
    /// containers to a network in parallel.
    Shared,
}

/// What a step does if its object exists already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfPresent {
    /// Success: it is shared, and another ADD may have made it a moment ago.
    Accept,
    /// A failure.
    Refuse,
}

/// Whether the kernel first checks that no other machine uses an IPv6 address: RFC 4862 section 5.4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dad {
    /// The address may be used at once; IPAM guarantees that it is unique.
    Skip,
    /// The address is tentative for about a second.
    Perform,
}

/// A kernel parameter, by the components of its path below `/proc/sys`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sysctl(Vec<String>);

impl Sysctl {
    /// A parameter with a name that is fixed in the program.
    pub fn fixed(path: &[&str]) -> Self {
        Self(path.iter().map(|part| (*part).to_owned()).collect())
    }

    /// A parameter of one interface in `net/<family>/conf`. Names with dots work here.
    pub fn interface(family: Family, name: &IfName, parameter: &str) -> Self {
        Self::fixed(&["net", family.word(), "conf", name.as_str(), parameter])
    }

    /// Whether the host forwards packets of a family.
    pub fn forwarding(family: Family) -> Self {
        Self::fixed(family.forwarding_key())
    }

    /// The components of the path below `/proc/sys`.
    pub fn parts(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// The path below `/proc/sys`.
    pub fn path(&self) -> String {
        self.0.join("/")
    }
}

/// What to do if a kernel parameter does not exist, or may not be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SysctlNeed {
    /// The step fails.
    Required,
    /// It is logged, and the plan continues. For parameters that only some kernels have.
    Wanted,
}
