//! The dummy plugin: a link inside the container that has addresses and drops everything it sends. It is for services
//! that the container offers to itself.

use cni_core::error::Error;
use cni_core::fail;
use cni_core::request::Request;
use cni_core::result::{CniResult, Dns};
use cni_interface::child::{self, ChildConfig, ChildPlugin};
use cni_interface::keys::IpamKey;
use cni_interface::{addressing, ipam, naming, verify};
use cni_model::link::Link;
use cni_model::plan::{Dad, LinkKind, Plan};
use cni_plugin::host::Host;
use cni_plugin::journal::Journal;
use serde::Deserialize;

/// The plugin.
pub const PLUGIN: ChildPlugin<Config> = ChildPlugin::NEW;

/// The operation in error messages.
const MAKING: &str = "create dummy";

/// A configuration that can be carried out.
pub struct Config {
    /// The IPAM plugin.
    ipam: String,
    /// Name resolution, instead of the IPAM plugin's.
    dns: Dns,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Keys {
    ipam: IpamKey,
    dns: Dns,
}

impl ChildConfig for Config {
    const TYPE: &'static str = "dummy";

    fn load(request: &Request) -> Result<Self, Error> {
        let Keys { ipam, dns } = request.decode()?;
        // A dummy link without addresses is of no use.
        let ipam =
            ipam.plugin().ok_or_else(|| fail!(InvalidConfig, "dummy interface requires an IPAM configuration"))?;
        Ok(Self { ipam, dns })
    }

    fn ipam(&self) -> Option<&str> {
        Some(&self.ipam)
    }

    /// Checks that the name is free, calls the IPAM plugin, and then creates the link. Its addresses cannot conflict with
    /// another host, since it drops everything it sends.
    fn add(self, request: &Request, journal: &mut Journal<'_>) -> Result<CniResult, Error> {
        let name = request.attachment()?.ifname;
        naming::refuse_pattern(MAKING, &name)?;
        journal.host().enter(request.netns().unwrap_or_default())?;
        naming::refuse_taken(MAKING, &name, journal.host())?;
        let mac = naming::random_mac(journal.host());
        let answer = ipam::add(&self.ipam, request, journal)?;
        let network = child::resolve(answer, &self.dns)?;
        let mut plan = Plan::default();
        plan.owned(naming::create(name.clone(), LinkKind::Dummy, Some(mac), None));
        addressing::assign(&mut plan, &name, &network, Dad::Skip, &[]);
        journal.apply(&plan)?;
        child::answer(&name, network, request, journal)
    }

    /// As in the reference, routes are ignored.
    fn compare_network(&self, result: &CniResult, link: &Link, host: &mut dyn Host) -> Result<(), Error> {
        verify::addresses(result, link, host)
    }
}
