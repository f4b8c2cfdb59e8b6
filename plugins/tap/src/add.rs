//! ADD: creates the device, and adds the addresses of the IPAM plugin, if there is one.

use cni_core::error::Error;
use cni_core::family::Family;
use cni_core::mac::Mac;
use cni_core::names::IfName;
use cni_core::request::Request;
use cni_core::result::CniResult;
use cni_interface::addressing::InterfaceParameter;
use cni_interface::child::{self, Addressing};
use cni_interface::naming;
use cni_model::plan::{IfPresent, LinkKind, LinkSetting, NewLink, Ns, Plan, Step, TapHeaders};
use cni_plugin::journal::Journal;

use crate::bridge;
use crate::config::{Config, MAKING};

/// By which neighbours that know an address by another MAC address learn of the new one.
const NOTIFY: &[InterfaceParameter] = &[InterfaceParameter { family: Family::V4, parameter: "arp_notify", value: "1" }];

pub fn add(request: &Request, journal: &mut Journal<'_>) -> Result<CniResult, Error> {
    let config = Config::load(request)?;
    let name = request.attachment()?.ifname;
    naming::refuse_pattern(MAKING, &name)?;
    journal.host().enter(request.netns().unwrap_or_default())?;
    naming::refuse_taken(MAKING, &name, journal.host())?;
    if let Some(name) = &config.bridge {
        bridge::find(name, journal.host())?;
    }
    let mac = config.mac.clone().unwrap_or_else(|| naming::random_mac(journal.host()));
    journal.apply(&plan(&config, &name, mac))?;
    let addressing = match &config.ipam {
        Some(ipam) => Addressing::Network(child::ask_ipam(ipam, &config.dns, request, journal)?, NOTIFY),
        None => Addressing::None(config.dns),
    };
    child::finish(addressing, request, journal)
}

fn plan(config: &Config, name: &IfName, mac: Mac) -> Plan {
    let mut plan = Plan::default();
    let (mac, mtu, if_present) = (Some(mac), config.mtu, IfPresent::Refuse);
    let (tap, label, headers) = (config.tap, config.label.clone(), TapHeaders::None);
    let kind = LinkKind::Tap { tap, label, headers, alias: None };
    plan.owned(Step::CreateLink {
        ns: Ns::Container,
        link: NewLink { name: name.clone(), mac, mtu, if_present, kind },
    });
    if let Some(bridge) = &config.bridge {
        plan.within(Step::set_link(Ns::Container, name, LinkSetting::Master(bridge.clone())));
    }
    plan
}
