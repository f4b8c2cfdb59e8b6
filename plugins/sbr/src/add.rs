//! ADD: a table and a rule for each address.

use cni_core::error::Error;
use cni_core::request::Request;
use cni_core::result::CniResult;
use cni_interface::tables;
use cni_plugin::journal::Journal;
use cni_plugin::plan::Plan;

use crate::facts::Facts;
use crate::lanes::Lanes;
use crate::record::RoutingRecord;
use crate::{addresses, config, record};

pub fn add(request: &Request, journal: &mut Journal<'_>) -> Result<CniResult, Error> {
    let table = config::table(request)?;
    let result = addresses::prev_result(request)?;
    let at = request.attachment()?;
    let own = addresses::own_addresses(&result, &at.ifname)?;
    let host = journal.host();
    host.enter(request.netns().unwrap_or_default())?;
    tables::lock(request, host)?;
    let lanes = match table {
        Some(table) => Lanes::to_table(table, &own, &Facts::of_rules(host)?),
        None => {
            let earlier = record::earlier(&at, host)?.unwrap_or_default();
            Lanes::choose(&own, &Facts::observe(&at.ifname, host)?, &earlier.rules)
        }
    };
    let mut plan = Plan::default();
    plan.owned(RoutingRecord::of(&lanes, &at, host)?.written(&at));
    journal.apply(&plan)?;
    journal.apply(&lanes.plan())?;
    Ok(result)
}
