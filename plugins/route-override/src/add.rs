//! ADD: removes and adds routes. It first records both, since nothing else tells DEL what to restore.

use cni_core::error::Error;
use cni_core::fail;
use cni_core::request::Request;
use cni_core::result::CniResult;
use cni_interface::tables;
use cni_model::plan::{NewRoute, Ns, Plan, Step};
use cni_plugin::journal::Journal;
use cni_plugin::json_record::JsonRecord as _;

use crate::config::{self, Config};
use crate::record::{RouteRecord, as_kernel_has_it, is_same};
use crate::routes;

pub fn add(request: &Request, journal: &mut Journal<'_>) -> Result<CniResult, Error> {
    let config = Config::load(request)?;
    let result = request.prev_result()?.ok_or_else(|| {
        fail!(
            InvalidConfig,
            "Required prevResult missing: route-override must follow the plugin that makes the interface"
        )
    })?;
    let at = request.attachment()?;
    let wanted = config.added(&result, &at.ifname);
    let new = routes::to_kernel(&wanted)?;
    let host = journal.host();
    host.enter(request.netns().unwrap_or_default())?;
    if config.is_empty() {
        return Ok(result);
    }
    tables::lock(request, host)?;
    let (link, found) = routes::observe(&at.ifname, &new, host)?;
    let (removed, kept): (Vec<_>, Vec<_>) = found.into_iter().partition(|route| {
        let is_wanted = new.iter().any(|wanted| routes::is(route, wanted));
        // The kernel has one IPv6 route of a key.
        let is_replaced = new.iter().any(|wanted| is_same(route, &as_kernel_has_it(wanted, link)));
        !is_wanted && (config.removes(route) || is_replaced && config::may_remove(route))
    });
    let is_missing = |wanted: &NewRoute| !kept.iter().any(|route| routes::is(route, wanted));
    let missing: Vec<NewRoute> = new.into_iter().filter(is_missing).collect();
    let added = missing.iter().map(|route| as_kernel_has_it(route, link));
    let record = RouteRecord::earlier(&at, host)?.with(&removed, added);
    let (mut plan, ns) = (Plan::default(), Ns::Container);
    plan.owned(record.write(&at));
    removed.into_iter().rev().for_each(|route| plan.owned(Step::RemoveFullRoute { ns, route }));
    missing.into_iter().for_each(|route| plan.owned(Step::AddRoute { ns, name: at.ifname.clone(), route }));
    journal.apply(&plan)?;
    Ok(config.applied_to(result, wanted))
}
