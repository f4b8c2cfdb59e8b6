//! Kernel parameters below `/proc/sys`.

use cni_core::family::Family;
use cni_core::names::IfName;

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

/// What to do if a kernel parameter cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SysctlNeed {
    /// The step fails.
    Required,
    /// It is logged, and the plan continues. For parameters that only some kernels have.
    Wanted,
}
