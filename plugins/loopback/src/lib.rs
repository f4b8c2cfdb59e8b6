//! The loopback plugin: sets `lo` of a container up, and reports the addresses that the kernel gives it.
//!
//! `CNI_IFNAME` is required but not used: the interface is always `lo`. A `prevResult` is passed through
//! unchanged.

use cni_core::error::{Code, Error, Failure};
use cni_core::family::Family;
use cni_core::names::IfName;
use cni_core::request::Request;
use cni_core::result::{CniResult, Interface, IpConfig};
use cni_plugin::host::{Host, NetnsError};
use cni_plugin::journal::Journal;
use cni_plugin::link::{Address, Link};
use cni_plugin::plan::{LinkSetting, Ns, Plan, Step};
use cni_plugin::run::Plugin;

/// The plugin.
pub struct Loopback;

/// What is wrong with a container's loopback interface.
#[derive(Debug, thiserror::Error)]
enum LoopbackError {
    #[error("there is no interface lo in {netns:?}")]
    Missing { netns: String },
    #[error("loopback interface is down")]
    Down { netns: String },
    #[error("loopback interface found with non-loopback address {:?}", address.cidr.address().to_string())]
    ForeignAddress { address: Address },
}

impl Failure for LoopbackError {
    fn code(&self) -> Code {
        match self {
            Self::Missing { .. } => Code::InvalidNetns,
            Self::Down { .. } => Code::CheckFailed,
            Self::ForeignAddress { .. } => Code::Conflict,
        }
    }

    fn details(&self) -> String {
        match self {
            Self::Down { netns } => format!("lo in {netns:?} does not have the flag IFF_UP"),
            Self::Missing { .. } | Self::ForeignAddress { .. } => String::new(),
        }
    }
}

impl Plugin for Loopback {
    fn kind(&self) -> &'static str {
        "loopback"
    }

    fn add(&self, request: &Request, journal: &mut Journal<'_>) -> Result<CniResult, Error> {
        let prev_result = request.prev_result()?;
        let netns = request.netns().unwrap_or_default();
        let before = observe_lo(journal.host(), netns)?;
        journal.apply(&plan(&before))?;
        let lo = observe_lo(journal.host(), netns)?;
        let addresses = journal.host().addresses(Ns::Container, Some(lo.index), None)?;
        if let Some(address) = addresses.iter().find(|address| !address.cidr.address().is_loopback()) {
            return Err(LoopbackError::ForeignAddress { address: *address }.into());
        }
        Ok(prev_result.unwrap_or_else(|| result(netns, &addresses)))
    }

    fn del(&self, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
        match host.enter(request.netns().unwrap_or_default()) {
            Ok(()) => host.apply(&set_lo(LinkSetting::Down)).map(|_| ()),
            Err(NetnsError::Gone { .. }) => Ok(()),
            Err(error @ NetnsError::Failed { .. }) => Err(error.into()),
        }
    }

    fn check(&self, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
        let netns = request.netns().unwrap_or_default();
        let lo = observe_lo(host, netns)?;
        if lo.up { Ok(()) } else { Err(LoopbackError::Down { netns: netns.to_owned() }.into()) }
    }
}

fn observe_lo(host: &mut dyn Host, netns: &str) -> Result<Link, Error> {
    host.enter(netns)?;
    let lo = host.link(Ns::Container, &IfName::lo())?;
    lo.ok_or_else(|| LoopbackError::Missing { netns: netns.to_owned() }.into())
}

/// A failed ADD must not set a `lo` down that was up before.
fn plan(before: &Link) -> Plan {
    let mut plan = Plan::default();
    if !before.up {
        plan.owned(set_lo(LinkSetting::Up));
    }
    plan
}

fn set_lo(setting: LinkSetting) -> Step {
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
    use cni_testkit::{Caller, FakeContainer, FakeHost, lifecycle};

    fn machine() -> FakeHost {
        FakeHost::new().with_container("/run/netns/c1", FakeContainer::Present(None))
    }

    fn caller() -> Caller {
        Caller::new("c1", r#"{"cniVersion":"1.1.0","name":"net1","type":"loopback"}"#)
    }

    #[test]
    fn an_add_that_fails_leaves_lo_down() {
        assert_eq!(lifecycle::assert_add_is_all_or_nothing(&Loopback, machine, &caller()), 1);
    }

    /// The addresses of a `lo` that was up once stay; they are the kernel's.
    #[test]
    fn del_sets_lo_down_again() {
        let mut host = machine();
        let before = host.state();
        caller().add(&Loopback, &mut host).expect("ADD");
        caller().check(&Loopback, &mut host).expect("CHECK");
        assert_ne!(host.state(), before);
        for _ in 0..2 {
            caller().del(&Loopback, &mut host).expect("DEL");
            let left: Vec<String> = host.state().into_iter().filter(|line| !line.contains(" address ")).collect();
            let before: Vec<&String> = before.iter().filter(|line| !line.contains(" address ")).collect();
            assert_eq!(left.iter().collect::<Vec<_>>(), before);
        }
        host.set_container("/run/netns/c1", FakeContainer::Gone);
        caller().del(&Loopback, &mut host).expect("a namespace that is gone has no lo");
    }

    fn lo(up: bool) -> Link {
        Link { index: 1, name: "lo".to_owned(), mtu: 65536, up, ..Link::default() }
    }

    #[test]
    fn a_lo_that_is_up_is_left_alone() {
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
