//! Names and MAC addresses of the interfaces that a plugin makes.

use cni_core::error::{Code, Error, Failure};
use cni_core::mac::Mac;
use cni_core::names::IfName;
use cni_plugin::host::Host;

/// A name for a new interface that is a pattern to the kernel, which would put a number for `%d`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("failed to {making}: % in {:?} has a meaning of its own in the name of a new interface", name.as_str())]
pub struct PatternError {
    /// What was to be done with it, such as `create dummy`.
    pub making: &'static str,
    /// The name.
    pub name: IfName,
}

impl Failure for PatternError {
    fn code(&self) -> Code {
        Code::InvalidEnvironment
    }
}

/// Whether the kernel takes a name for a pattern when it makes an interface: `dev_alloc_name` of
/// `net/core/dev.c`.
pub fn is_pattern(name: &IfName) -> bool {
    name.as_str().contains('%')
}

/// Refuses `CNI_IFNAME` if it is a pattern.
///
/// # Errors
/// [`PatternError`] with the name, and with `making` as what could not be done.
pub fn refuse_pattern(making: &'static str, name: &IfName) -> Result<(), PatternError> {
    if is_pattern(name) { Err(PatternError { making, name: name.clone() }) } else { Ok(()) }
}

/// A name for an interface on the host, as the reference chooses them: `veth` and eight random digits.
///
/// # Errors
/// When the kernel gives no random bytes.
pub fn random_name(host: &mut dyn Host) -> Result<IfName, Error> {
    let [a, b, c, d, ..] = host.random()?;
    Ok(IfName::host_veth(u32::from_le_bytes([a, b, c, d])))
}

/// A locally administered unicast address at random.
///
/// # Errors
/// When the kernel gives no random bytes.
pub fn random_mac(host: &mut dyn Host) -> Result<Mac, Error> {
    let [a, b, c, d, e, f, ..] = host.random()?;
    Ok(Mac::local([a, b, c, d, e, f]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_refused_as_the_wrong_value_of_a_variable() {
        let name = |text| IfName::parse(text).expect("name");
        assert_eq!(refuse_pattern("create dummy", &name("eth0")), Ok(()));
        let error = refuse_pattern("create dummy", &name("eth%d")).expect_err("a pattern");
        let text = r#"failed to create dummy: % in "eth%d" has a meaning of its own in the name of a new interface"#;
        assert_eq!((error.code().number(), error.to_string()), (4, text.to_owned()));
    }
}
