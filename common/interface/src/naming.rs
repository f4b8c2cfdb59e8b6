//! Names and MAC addresses of the interfaces that a plugin makes.

use cni_core::error::{Code, Error, Failure};
use cni_core::mac::Mac;
use cni_core::names::IfName;
use cni_model::link::Link;
use cni_model::plan::Ns;
use cni_plugin::host::Host;

/// A name for a new interface that is a pattern to the kernel, which would put a number for `%d`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("failed to {making}: the kernel would replace the % in {:?} with a number", name.as_str())]
pub struct PatternError {
    /// The operation, such as `create dummy`.
    pub making: &'static str,
    /// The name.
    pub name: IfName,
}

impl Failure for PatternError {
    fn code(&self) -> Code {
        Code::InvalidEnvironment
    }
}

/// The container has an interface of the name already, which SPEC "ADD" makes an error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameTakenError {
    /// One end of a veth pair was to have it.
    #[error("container veth name ({:?}) peer provided ({:?}) already exists", name.as_str(), peer.as_str())]
    Veth {
        /// The name inside the container.
        name: IfName,
        /// The intended name of the other end.
        peer: IfName,
    },
    /// A link of another kind was to have it.
    #[error("failed to {making}: file exists")]
    Link {
        /// The operation, such as `create dummy`.
        making: &'static str,
        /// The link that has the name.
        found: Box<Link>,
    },
}

impl Failure for NameTakenError {
    fn code(&self) -> Code {
        match self {
            Self::Veth { .. } | Self::Link { .. } => Code::Conflict,
        }
    }

    fn details(&self) -> String {
        match self {
            Self::Veth { .. } => String::new(),
            Self::Link { making: _, found } => {
                let kind = found.kind.as_deref().map_or_else(String::new, |kind| format!(" of kind {kind}"));
                format!("the container has an interface {:?}{kind} already", found.name)
            }
        }
    }
}

/// Whether the kernel would treat a name as a pattern: `dev_alloc_name` of `net/core/dev.c`.
pub fn is_pattern(name: &IfName) -> bool {
    name.as_str().contains('%')
}

/// Refuses `CNI_IFNAME` if it is a pattern.
///
/// ```
/// use cni_core::names::IfName;
/// use cni_interface::naming::refuse_pattern;
///
/// assert!(refuse_pattern("create dummy", &IfName::parse("eth0")?).is_ok());
/// assert!(refuse_pattern("create dummy", &IfName::parse("eth%d")?).is_err());
/// # Ok::<(), cni_core::names::NameError>(())
/// ```
///
/// # Errors
/// [`PatternError`] with the name, and with `making` as what could not be done.
pub fn refuse_pattern(making: &'static str, name: &IfName) -> Result<(), PatternError> {
    if is_pattern(name) { Err(PatternError { making, name: name.clone() }) } else { Ok(()) }
}

/// Refuses a name that an interface of the container has.
pub fn refuse_taken(making: &'static str, name: &IfName, host: &mut dyn Host) -> Result<(), Error> {
    match host.link(Ns::Container, name)? {
        Some(found) => Err(NameTakenError::Link { making, found: Box::new(found) }.into()),
        None => Ok(()),
    }
}

/// A name for an interface on the host, as the reference chooses them: `veth` and eight random digits.
pub fn random_name(host: &mut dyn Host) -> IfName {
    let [a, b, c, d, ..] = host.random();
    IfName::host_veth(u32::from_le_bytes([a, b, c, d]))
}

/// A locally administered unicast address at random.
pub fn random_mac(host: &mut dyn Host) -> Mac {
    let [a, b, c, d, e, f, ..] = host.random();
    Mac::local([a, b, c, d, e, f])
}
