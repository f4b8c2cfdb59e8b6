//! DEL: ends the exchange of frames, and removes the device. It needs neither arguments nor a result.

use cni_core::error::Error;
use cni_core::names::IfName;
use cni_core::request::Request;
use cni_model::link::Link;
use cni_model::netns::NetnsError;
use cni_model::plan::{Ns, Plan, Step};
use cni_plugin::host::Host;
use cni_plugin::removal::Removal;

use crate::pair;

/// The index that a redirect to a deleted link has.
const DELETED: u32 = 0;

pub fn del(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    match host.enter(request.netns().unwrap_or_default()) {
        Ok(()) => {}
        Err(NetnsError::Gone { .. }) => return Ok(()),
        Err(error @ NetnsError::Failed { .. }) => return Err(error.into()),
    }
    let at = request.attachment()?;
    let result = request.prev_result().unwrap_or_default();
    let link = host.link(Ns::Container, &at.ifname)?;
    let taps = pair::devices(&at, result.as_ref(), link.as_ref(), host)?;
    let names = taps.iter().map(pair::name).collect::<Result<Vec<_>, _>>()?;
    let plan = plan(link.as_ref().map(|link| (&at.ifname, link)), &names, host)?;
    let mut removal = Removal::new(host);
    for (_, step) in plan.steps() {
        removal.step(step);
    }
    removal.finish()
}

/// A filter that leads to a deleted device drops every frame, so it is removed even if no device is left.
fn plan(interface: Option<(&IfName, &Link)>, taps: &[IfName], host: &mut dyn Host) -> Result<Plan, Error> {
    let mut plan = Plan::default();
    if let Some((name, link)) = interface {
        let end = |to: &IfName| Step::RemoveRedirect { ns: Ns::Container, name: name.clone(), to: to.clone() };
        taps.iter().for_each(|tap| plan.owned(end(tap)));
        if taps.is_empty() && pair::targets(Some(link), host)?.contains(&DELETED) {
            plan.owned(end(name));
        }
    }
    taps.iter().for_each(|tap| plan.owned(Step::RemoveLink { ns: Ns::Container, name: tap.clone() }));
    Ok(plan)
}
