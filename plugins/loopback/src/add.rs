//! ADD: sets `lo` up, and returns the addresses that the kernel gives it.

use cni_core::error::Error;
use cni_core::fail;
use cni_core::family::Family;
use cni_core::names::IfName;
use cni_core::request::Request;
use cni_core::result::{CniResult, Interface, IpConfig};
use cni_model::link::{Address, Link};
use cni_model::plan::{LinkSetting, Ns, Plan};
use cni_plugin::journal::Journal;

use crate::lo;

pub fn add(request: &Request, journal: &mut Journal<'_>) -> Result<CniResult, Error> {
    let prev_result = request.prev_result()?;
    let netns = request.netns().unwrap_or_default();
    let before = lo::observe(journal.host(), netns)?;
    journal.apply(&plan(&before))?;
    let lo = lo::observe(journal.host(), netns)?;
    let addresses = journal.host().addresses(Ns::Container, Some(lo.index), None)?;
    if let Some(address) = addresses.iter().find(|address| !address.cidr.address().is_loopback()) {
        let address = address.cidr.address().to_string();
        return Err(fail!(Conflict, "loopback interface found with non-loopback address {address:?}"));
    }
    Ok(prev_result.unwrap_or_else(|| result(netns, &addresses)))
}

/// A failed ADD must not set a `lo` down that was up before.
fn plan(before: &Link) -> Plan {
    let mut plan = Plan::default();
    if !before.up {
        plan.owned(lo::set(LinkSetting::Up));
    }
    plan
}

/// The reference prints `lo` without MAC as all zero, and the first address of each family.
fn result(netns: &str, addresses: &[Address]) -> CniResult {
    let first = |family| addresses.iter().map(|address| address.cidr).find(|cidr| cidr.family() == family);
    let lo = Interface {
        name: IfName::lo().to_string(),
        mac: "00:00:00:00:00:00".to_owned(),
        sandbox: netns.to_owned(),
        ..Interface::default()
    };
    let ips = Family::ALL.into_iter().filter_map(first);
    CniResult {
        interfaces: vec![lo],
        ips: ips.map(|address| IpConfig { interface: Some(0), address, gateway: None }).collect(),
        ..CniResult::default()
    }
}

#[cfg(test)]
mod tests;
