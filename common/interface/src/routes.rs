//! The routes of an interface of the container.

use cni_core::error::Error;
use cni_core::family::Family;
use cni_model::plan::Ns;
use cni_model::routing::FullRoute;
use cni_plugin::host::Host;

/// The routes of both families that leave by a link, in one table.
pub fn of_link(link: u32, table: u32, host: &mut dyn Host) -> Result<Vec<FullRoute>, Error> {
    let mut routes = Vec::new();
    for family in Family::ALL {
        routes.extend(host.routing().full_routes(Ns::Container, family, table)?);
    }
    routes.retain(|route| route.link == link);
    Ok(routes)
}
