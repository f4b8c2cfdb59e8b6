//! Telling the neighbours of a new MAC address. Those who know the old one would send to it until they forget it.
//!
//! The kernel tells them itself when the address changes, where two parameters say so: `arp_notify` and `ndisc_notify`
//! of Linux' ip-sysctl documentation.

use cni_core::error::Error;
use cni_core::family::Family;
use cni_core::names::IfName;
use cni_model::plan::{Need, Ns, Step, Sysctl};
use cni_plugin::host::Host;

const PARAMETERS: [(Family, &str); 2] = [(Family::V4, "arp_notify"), (Family::V6, "ndisc_notify")];

/// A parameter that has to be 1 while the address changes, and its value.
pub struct Switch {
    pub key: Sysctl,
    pub before: String,
}

/// The parameters that are not 1. Without IPv6 there is one at most.
///
/// # Errors
/// When one cannot be read.
pub fn switches(name: &IfName, host: &mut dyn Host) -> Result<Vec<Switch>, Error> {
    let mut switches = Vec::new();
    for (family, parameter) in PARAMETERS {
        let key = Sysctl::interface(family, name, parameter);
        let before = host.files().sysctl(Ns::Container, &key)?.filter(|value| value != "1");
        switches.extend(before.map(|before| Switch { key, before }));
    }
    Ok(switches)
}

/// A step that changes the address, and the steps around it.
pub fn around(change: Step, switches: &[Switch]) -> Vec<Step> {
    let set = |key: &Sysctl, value: &str| Step::SetSysctl {
        ns: Ns::Container,
        key: key.clone(),
        value: value.to_owned(),
        need: Need::Wanted,
    };
    let on = switches.iter().map(|switch| set(&switch.key, "1"));
    let back = switches.iter().map(|switch| set(&switch.key, &switch.before));
    on.chain([change]).chain(back).collect()
}
