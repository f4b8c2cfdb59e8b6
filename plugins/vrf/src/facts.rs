//! The VRFs, tables and routes of the container.

use cni_core::error::Error;
use cni_core::fail;
use cni_core::family::Family;
use cni_core::names::IfName;
use cni_core::request::Request;
use cni_core::result::CniResult;
use cni_interface::routes;
use cni_model::link::Link;
use cni_model::plan::{Ns, Step, Sysctl, SysctlNeed};
use cni_model::routing::{BY_KERNEL, FullRoute};
use cni_plugin::host::Host;

use crate::config::Config;

/// The result of the plugins before.
pub fn prev_result(request: &Request) -> Result<CniResult, Error> {
    request.prev_result()?.ok_or_else(|| fail!(InvalidConfig, "missing prevResult from earlier plugin"))
}

/// The VRF of a name with its table, if it exists.
pub fn vrf(config: &Config, host: &mut dyn Host) -> Result<Option<(Link, u32)>, Error> {
    let Some(link) = host.link(Ns::Container, &config.name)? else { return Ok(None) };
    let name = link.name.clone();
    let Some(table) = link.vrf_table else {
        let kind = link.kind.unwrap_or_else(|| "none".to_owned());
        return Err(fail!(Conflict, "Netlink {name} is not a VRF", details: "it is a link of kind {kind}"));
    };
    if config.table.is_some_and(|wanted| wanted != table) {
        return Err(fail!(Conflict, "VRF {name} already exist with different routing table {table}"));
    }
    Ok(Some((link, table)))
}

/// The routes of an interface in a table, except those that the kernel adds itself; routes whose next hop is in the
/// network of another route come after it.
pub fn routes(link: u32, table: u32, host: &mut dyn Host) -> Result<Vec<FullRoute>, Error> {
    let mut routes = routes::of_link(link, table, host)?;
    routes.retain(|route| route.protocol != BY_KERNEL);
    routes.sort_by_key(|route| route.gateway.is_some());
    Ok(routes)
}

/// The steps that let an interface keep its IPv6 addresses while it is down for a moment, and that end this; none where it
/// does so anyway, or has no IPv6.
pub fn kept_addresses(ifname: &IfName, need: SysctlNeed, host: &mut dyn Host) -> Result<Option<[Step; 2]>, Error> {
    let key = Sysctl::interface(Family::V6, ifname, "keep_addr_on_down");
    let before = host.files().sysctl(Ns::Container, &key)?.filter(|value| value != "1");
    let set = |value: &str| {
        let (key, value) = (key.clone(), value.to_owned());
        Step::SetSysctl { ns: Ns::Container, key, value, need }
    };
    Ok(before.map(|before| [set("1"), set(&before)]))
}

/// The interface of the container.
pub fn interface(ifname: &IfName, host: &mut dyn Host) -> Result<Link, Error> {
    let link = host.link(Ns::Container, ifname)?;
    link.ok_or_else(|| fail!(Kernel, "could not get link by name {ifname}"))
}
