//! DEL: removes the limits. It needs neither the configured limits nor the result of ADD, and the namespace may be
//! missing.
//!
//! The veth usually still exists, since DEL of its plugin runs later. So the redirect to the ifb is removed before the
//! ifb: packets would be lost otherwise. The limit on the veth itself is deleted with the veth. DEL removes it earlier
//! only if the veth is known to be this attachment's: otherwise it may be another container's, or the limit may be the
//! administrator's.

use cni_core::error::Error;
use cni_core::names::IfName;
use cni_core::request::Request;
use cni_model::link::Link;
use cni_model::plan::{Ns, Plan, Step};
use cni_plugin::host::Host;
use cni_plugin::removal::Removal;

use crate::ifb;
use crate::port::{self, Port};

pub fn del(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let at = request.attachment()?;
    let mut removal = Removal::new(host);
    let port = removal.attempt(|host| port::find(request, &at, host)).flatten();
    for ifb in removal.attempt(|host| ifb::of(&at, port.as_ref(), host)).unwrap_or_default() {
        if let Some(plan) = removal.attempt(|host| removal_of(&ifb, port.as_ref(), host)) {
            removal.in_order(&plan);
        }
    }
    if let Some(port) = port.filter(|port| port.is_of(&at)) {
        removal.step(&Step::RemoveShaper { ns: Ns::Host, name: port.name });
    }
    removal.finish()
}

/// Leads the packets past an ifb, and removes it. Where the port is not known, all are asked.
pub fn removal_of(ifb: &Link, port: Option<&Port>, host: &mut dyn Host) -> Result<Plan, Error> {
    let name = IfName::parse(&ifb.name)?;
    let sources = match port {
        Some(port) => vec![port.clone()],
        None => ifb::sources(ifb, host)?,
    };
    let mut plan = Plan::default();
    for source in sources {
        plan.owned(Step::RemoveRedirect { ns: Ns::Host, name: source.name, to: name.clone() });
    }
    plan.owned(Step::RemoveLink { ns: Ns::Host, name });
    Ok(plan)
}
