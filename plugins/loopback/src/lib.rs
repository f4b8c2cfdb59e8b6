//! The loopback plugin: sets `lo` of a container up, and returns the addresses that the kernel gives it.
//!
//! `CNI_IFNAME` is required but not used: the interface is always `lo`. A `prevResult` is returned unchanged.

use cni_core::error::Error;
use cni_core::fail;
use cni_core::family::Family;
use cni_core::names::IfName;
use cni_core::request::Request;
use cni_core::result::{CniResult, Interface, IpConfig};
use cni_model::link::{Address, Link};
use cni_model::plan::{LinkSetting, Ns, Plan, Step};
use cni_plugin::host::{Host, LinkQuery};
use cni_plugin::journal::Journal;
use cni_plugin::run::Plugin;

/// The plugin.
pub struct Loopback;

impl Plugin for Loopback {
    fn kind(&self) -> &'static str {
        "loopback"
    }

    fn add(&self, request: &Request, journal: &mut Journal<'_>) -> Result<CniResult, Error> {
        let prev_result = request.prev_result()?;
        let netns = request.netns().unwrap_or_default();
        let before = observe(journal.host(), netns)?;
        journal.apply(&plan(&before))?;
        let lo = observe(journal.host(), netns)?;
        let addresses = journal.host().addresses(Ns::Container, Some(lo.index), None)?;
        if let Some(address) = addresses.iter().find(|address| !address.cidr.address().is_loopback()) {
            let address = address.cidr.address().to_string();
            return Err(fail!(Conflict, "loopback interface found with non-loopback address {address:?}"));
        }
        Ok(prev_result.unwrap_or_else(|| result(netns, &addresses)))
    }

    /// Sets `lo` down. Another interface that is up belongs to another attachment: another network of the same container,
    /// or another container, to which the path leads by now. In a list, DEL of this plugin is the last.
    fn del(&self, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
        if !host.enter_if_exists(request.netns().unwrap_or_default())? {
            return Ok(());
        }
        let others = host.links(Ns::Container, LinkQuery::All)?;
        if others.iter().any(|link| link.up && link.name != "lo") {
            return Ok(());
        }
        host.apply(&set(LinkSetting::Down)).map(drop)
    }

    fn check(&self, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
        let netns = request.netns().unwrap_or_default();
        if observe(host, netns)?.up {
            return Ok(());
        }
        Err(fail!(CheckFailed, "loopback interface is down", details: "lo in {netns:?} does not have the flag IFF_UP"))
    }
}

fn observe(host: &mut dyn Host, netns: &str) -> Result<Link, Error> {
    host.enter(netns)?;
    let lo = host.link(Ns::Container, &IfName::lo())?;
    lo.ok_or_else(|| fail!(InvalidNetns, "there is no interface lo in {netns:?}"))
}

/// A failed ADD must not set a `lo` down that was up before.
fn plan(before: &Link) -> Plan {
    let mut plan = Plan::default();
    if !before.up {
        plan.owned(set(LinkSetting::Up));
    }
    plan
}

fn set(setting: LinkSetting) -> Step {
    Step::SetLink { ns: Ns::Container, name: IfName::lo(), setting }
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
mod tests {
    use super::*;

    #[test]
    fn a_lo_that_is_up_is_unchanged() {
        let lo = |up| Link { index: 1, name: "lo".to_owned(), mtu: 65536, up, ..Link::default() };
        assert_eq!(plan(&lo(true)).to_string(), "");
        assert_eq!(plan(&lo(false)).to_string(), "owned  container: link set lo up\n");
    }

    #[test]
    fn the_result_tells_one_address_of_each_family() {
        let addresses: Vec<Address> = ["127.0.0.1/8", "127.0.0.2/8", "::1/128"]
            .iter()
            .map(|text| Address { cidr: text.parse().expect("CIDR"), tentative: false, dad_failed: false })
            .collect();
        let result = result("/run/netns/c", &addresses);
        let ips: Vec<String> = result.ips.iter().map(|ip| ip.address.to_string()).collect();
        assert_eq!(ips, ["127.0.0.1/8", "::1/128"]);
        assert_eq!(result.interfaces[0].sandbox, "/run/netns/c");
    }
}
