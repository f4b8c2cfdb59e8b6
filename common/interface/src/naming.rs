//! The interfaces that a plugin makes: their names and MAC addresses.

use cni_core::error::Error;
use cni_core::fail;
use cni_core::mac::Mac;
use cni_core::names::IfName;
use cni_model::plan::{IfPresent, LinkKind, NewLink, Ns, Step};
use cni_plugin::host::Host;

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
/// # Ok::<(), cni_core::error::Error>(())
/// ```
///
/// # Errors
/// With the name, and with `making` as what could not be done.
pub fn refuse_pattern(making: &str, name: &IfName) -> Result<(), Error> {
    if !is_pattern(name) {
        return Ok(());
    }
    let name = name.as_str();
    Err(fail!(InvalidEnvironment, "failed to {making}: the kernel would replace the % in {name:?} with a number"))
}

/// Refuses a name that an interface of the container has, which SPEC "ADD" makes an error.
pub fn refuse_taken(making: &str, name: &IfName, host: &mut dyn Host) -> Result<(), Error> {
    let Some(found) = host.link(Ns::Container, name)? else { return Ok(()) };
    let kind = found.kind.as_deref().map_or_else(String::new, |kind| format!(" of kind {kind}"));
    let details = format!("the container has an interface {:?}{kind} already", found.name);
    Err(fail!(Conflict, "failed to {making}: file exists", details: "{details}"))
}

/// The step that creates a link in the container, whose MAC address and MTU are the kernel's choice unless given.
pub fn create(name: IfName, kind: LinkKind, mac: Option<Mac>, mtu: Option<u32>) -> Step {
    Step::CreateLink { ns: Ns::Container, link: NewLink { name, mac, mtu, if_present: IfPresent::Refuse, kind } }
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
