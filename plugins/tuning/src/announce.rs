//! Announces a new MAC address to the neighbours, which would otherwise send to the old one until they forget it.
//!
//! The kernel does this when the address changes, if two parameters are set: `arp_notify` and `ndisc_notify` (see the
//! kernel's ip-sysctl documentation).

use cni_core::error::Error;
use cni_core::family::Family;
use cni_core::names::IfName;
use cni_model::plan::{Ns, Step, Sysctl, SysctlNeed};
use cni_plugin::host::Host;

const PARAMETERS: [(Family, &str); 2] = [(Family::V4, "arp_notify"), (Family::V6, "ndisc_notify")];

/// A parameter that has to be 1 while the address changes, and its value.
pub struct NotifyParameter {
    pub key: Sysctl,
    pub before: String,
}

/// The parameters that are not 1. Without IPv6 there is at most one.
pub fn switches(name: &IfName, host: &mut dyn Host) -> Result<Vec<NotifyParameter>, Error> {
    let mut switches = Vec::new();
    for (family, parameter) in PARAMETERS {
        let key = Sysctl::interface(family, name, parameter);
        let before = host.files().sysctl(Ns::Container, &key)?.filter(|value| value != "1");
        switches.extend(before.map(|before| NotifyParameter { key, before }));
    }
    Ok(switches)
}

/// A step that changes the address, and the steps around it: a parameter that was set has to be set back.
pub fn around(change: Step, switches: &[NotifyParameter]) -> Vec<Step> {
    let set = |key: &Sysctl, value: &str, need| {
        let (key, value) = (key.clone(), value.to_owned());
        Step::SetSysctl { ns: Ns::Container, key, value, need }
    };
    let on = switches.iter().map(|switch| set(&switch.key, "1", SysctlNeed::Wanted));
    let back = switches.iter().map(|switch| set(&switch.key, &switch.before, SysctlNeed::Required));
    on.chain([change]).chain(back).collect()
}
