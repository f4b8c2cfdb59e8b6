//! Telling the neighbours of a new MAC address. Those who know the old one would send to it until they forget it.
//!
//! The kernel tells them itself when the address changes, where two parameters say so: `arp_notify` and `ndisc_notify`
//! of Linux' ip-sysctl documentation.

use cni_core::error::Error;
use cni_core::family::Family;
use cni_core::names::IfName;
use cni_plugin::host::Host;
use cni_plugin::plan::{Need, Ns, Step, Sysctl};

const PARAMETERS: [(Family, &str); 2] = [(Family::V4, "arp_notify"), (Family::V6, "ndisc_notify")];

/// A step that changes the address, and the steps around it.
///
/// # Errors
/// When a parameter cannot be read.
pub fn around(change: Step, name: &IfName, host: &mut dyn Host) -> Result<Vec<Step>, Error> {
    let mut steps = vec![change];
    for (family, parameter) in PARAMETERS {
        let key = Sysctl::interface(family, name, parameter);
        // Without IPv6 there is none.
        let Some(before) = host.sysctl(Ns::Container, &key)?.filter(|value| value != "1") else { continue };
        let set = |value: &str| Step::SetSysctl {
            ns: Ns::Container,
            key: key.clone(),
            value: value.to_owned(),
            need: Need::Wanted,
        };
        steps.insert(0, set("1"));
        steps.push(set(&before));
    }
    Ok(steps)
}
