//! CHECK: verifies that the removed routes are missing, and that the added ones exist.

use cni_core::error::Error;
use cni_core::fail;
use cni_core::request::Request;
use cni_core::result::Route;
use cni_interface::verify;
use cni_model::routing::FullRoute;
use cni_plugin::host::Host;

use crate::config::Config;
use crate::routes;

pub fn check(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let config = Config::load(request)?;
    if config.skip_check {
        return Ok(());
    }
    let result = verify::prev_result(request)?;
    let ifname = request.attachment()?.ifname;
    host.enter(request.netns().unwrap_or_default())?;
    if config.is_empty() {
        return Ok(());
    }
    // ADD told the next hop of a route in the result, and may have removed the gateway it came from.
    let reported =
        |dst| result.routes.iter().rfind(|route: &&Route| route.dst.network() == dst).and_then(|route| route.gw);
    let mut wanted = config.added(&result, &ifname);
    let with_hop = wanted.iter_mut().filter(|route| !routes::is_on_link(route.scope));
    with_hop.for_each(|route| route.gw = route.gw.or_else(|| reported(route.dst.network())));
    let wanted = routes::to_kernel(&wanted)?;
    let (_, found) = routes::observe(&ifname, &wanted, host)?;
    if let Some(missing) = wanted.iter().find(|wanted| !found.iter().any(|route| routes::is(route, wanted))) {
        let dst = missing.dst;
        return Err(fail!(CheckFailed, "the route to {dst} on {ifname} is missing"));
    }
    let is_wanted = |route: &_| wanted.iter().any(|wanted| routes::is(route, wanted));
    match found.iter().find(|route| config.removes(route) && !is_wanted(route)) {
        Some(FullRoute { dst, .. }) => Err(fail!(CheckFailed, "the route to {dst} on {ifname} is not removed")),
        None => Ok(()),
    }
}
