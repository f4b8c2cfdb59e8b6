//! The vlan plugin: a link inside the container that sends and receives the frames of one VLAN through an interface of
//! the host (or of the container), its master.

use std::collections::BTreeMap;

use cni_core::error::Error;
use cni_core::fail;
use cni_core::request::Request;
use cni_core::result::{CniResult, Dns};
use cni_interface::child::{self, ChildConfig, ChildPlugin, MasterChoice};
use cni_interface::keys::IpamKey;
use cni_model::link::Link;
use cni_model::plan::ChildKind;
use cni_model::vlan::VlanId;
use cni_plugin::host::{Host, LinkQuery};
use cni_plugin::journal::Journal;
use serde::Deserialize;
use serde::de::IgnoredAny;

/// The plugin.
pub const PLUGIN: ChildPlugin<Config> = ChildPlugin::NEW;

/// The operation in error messages.
const MAKING: &str = "create vlan";

/// The greatest number of a VLAN: 4095 is reserved by IEEE 802.1Q. 0 means frames that have a priority and no VLAN.
const LAST: u16 = VlanId::LAST.number();

/// The checked configuration.
pub struct Config {
    master: MasterChoice,
    /// The number of the VLAN.
    id: u16,
    /// `mtu`, which the master bounds.
    mtu: i64,
    /// The IPAM plugin.
    ipam: String,
    /// Name resolution, instead of the IPAM plugin's.
    dns: Dns,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Keys {
    master: String,
    vlan_id: i64,
    mtu: i64,
    link_in_container: bool,
    ipam: IpamKey,
    dns: Dns,
    /// Not used by ADD, but a runtime that sends something else than an object is not understood.
    prev_result: BTreeMap<String, IgnoredAny>,
}

impl ChildConfig for Config {
    const TYPE: &'static str = "vlan";

    fn load(request: &Request) -> Result<Self, Error> {
        let keys: Keys = request.decode()?;
        let master = MasterChoice::of_keys(keys.master, keys.link_in_container);
        if master.name.is_none() {
            return Err(fail!(
                InvalidConfig,
                r#""master" field is required. It specifies the host interface name to create the VLAN for"#
            ));
        }
        let id = u16::try_from(keys.vlan_id).ok().filter(|id| *id <= LAST).ok_or_else(|| {
            let id = keys.vlan_id;
            fail!(InvalidConfig, "invalid VLAN ID {id} (must be between 0 and {LAST} inclusive)", details: "vlanId is the number of a VLAN")
        })?;
        let ipam = keys.ipam.plugin();
        Ok(Self {
            master,
            id,
            mtu: keys.mtu,
            ipam: ipam.ok_or_else(|| fail!(InvalidConfig, "vlan interface requires an IPAM configuration"))?,
            dns: keys.dns,
        })
    }

    fn ipam(&self) -> Option<&str> {
        Some(&self.ipam)
    }

    fn add(self, request: &Request, journal: &mut Journal<'_>) -> Result<CniResult, Error> {
        journal.host().enter(request.netns().unwrap_or_default())?;
        let master = self.master.find(journal.host())?;
        let mtu = child::within_master(self.mtu, &master)?;
        refuse_down(&master)?;
        self.refuse_taken(&master, journal.host())?;
        let kind = self.master.child(&master, ChildKind::Vlan { id: self.id });
        child::make(MAKING, kind, None, mtu, request, journal)?;
        let network = child::ask_ipam(Some(&self.ipam), &self.dns, request, journal)?;
        child::finish(network, &[], request, journal)
    }

    fn compare(&self, link: &Link) -> Result<(), Error> {
        let (name, wanted) = (&link.name, self.id);
        match link.child {
            Some(ChildKind::Vlan { id }) if id != wanted => {
                return Err(fail!(CheckFailed, "Interface {name} is in VLAN {id}, not {wanted}"));
            }
            Some(_) | None => {}
        }
        let found = link.mtu;
        match self.mtu {
            0 => Ok(()),
            mtu if mtu == i64::from(found) => Ok(()),
            wanted => Err(fail!(CheckFailed, "Interface {name} has MTU {found}, not {wanted}")),
        }
    }

    fn require_parts(&self, host: &mut dyn Host) -> Result<(), Error> {
        self.master.require(Self::LINK, host)
    }
}

impl Config {
    /// A link in another namespace is not seen here. The kernel refuses a second one all the same.
    fn refuse_taken(&self, master: &Link, host: &mut dyn Host) -> Result<(), Error> {
        let is_same = |link: &&Link| {
            link.peer == Some(master.index)
                && link.peer_netns.is_none()
                && link.child == Some(ChildKind::Vlan { id: self.id })
        };
        match host.links(self.master.ns, LinkQuery::Kind(Self::LINK))?.iter().find(is_same) {
            Some(link) => {
                let (id, master, by) = (self.id, &master.name, &link.name);
                Err(fail!(
                    Conflict,
                    "failed to {MAKING}: file exists",
                    details: "VLAN {id} of {master} has the link {by} beside it, and can have one alone"
                ))
            }
            None => Ok(()),
        }
    }
}

/// No link can be up on a master that is down.
fn refuse_down(Link { name, up, .. }: &Link) -> Result<(), Error> {
    if *up {
        return Ok(());
    }
    Err(fail!(
        TryAgain,
        "failed to {MAKING}: network is down: its master {name:?} is down",
        details: "\"ip link set {name} up\" sets it up"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_other_mtu_than_the_configured_one_is_named() {
        let master = MasterChoice::of_keys("up0".to_owned(), false);
        let config = Config { master, id: 5, mtu: 1400, ipam: "static".to_owned(), dns: Dns::default() };
        let compared = |mtu| config.compare(&Link { mtu, ..Link::default() }).map_err(|error| error.to_string());
        assert_eq!(compared(1400), Ok(()));
        for mtu in [1399, 1401] {
            assert_eq!(compared(mtu), Err(format!("Interface  has MTU {mtu}, not 1400")));
        }
    }
}
