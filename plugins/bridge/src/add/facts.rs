//! The facts that an ADD needs, and the names and addresses that it picks at random.

use std::net::IpAddr;

use cni_core::error::Error;
use cni_core::mac::Mac;
use cni_core::names::{Attachment, IfName};
use cni_interface::veth::NewVeth;
use cni_interface::{masquerade, naming};
use cni_model::link::{Address, Link};
use cni_model::plan::Ns;
use cni_netfilter::Backend;
use cni_plugin::host::Host;

use crate::config::Config;
use crate::spoof::CheckNames;

/// The facts that an ADD needs.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The bridge, if it exists.
    pub bridge: Option<Link>,
    /// The addresses of the link that has the gateway's, which is the bridge or its link to the VLAN.
    pub gateway_addresses: Vec<Address>,
    /// Which backend masquerades.
    pub masquerade_backend: Backend,
    /// The addresses that earlier ADDs have masqueraded.
    pub masqueraded: Vec<IpAddr>,
    /// The names of the check of MAC addresses, if one is configured.
    pub spoof_check: Option<CheckNames>,
    /// Names and addresses for what is made.
    pub names: NewNames,
}

/// Names and addresses chosen at random, except the MAC address of the container if one is configured.
#[derive(Clone, Debug)]
pub struct NewNames {
    pub veth: NewVeth,
    /// The port of the link to the VLAN, if that has to be made.
    pub vlan_port: IfName,
    /// The MAC address of that link.
    pub vlan_mac: Mac,
    /// The MAC address of its port.
    pub vlan_port_mac: Mac,
}

/// Asks for the facts, and refuses a name that the container's interface cannot have.
pub fn observe(config: &Config, at: &Attachment, host: &mut dyn Host) -> Result<Facts, Error> {
    let names = choose_names(config, at, host)?;
    let bridge = host.link(Ns::Host, &config.bridge)?;
    let gateway = match &config.vlans.gateway {
        Some(link) => host.link(Ns::Host, &link.name)?,
        None => bridge.clone(),
    };
    let gateway_addresses = match &gateway {
        Some(link) => host.addresses(Ns::Host, Some(link.index), None)?,
        None => Vec::new(),
    };
    let spoof_check = config.spoof_check.then(|| CheckNames::choose(at, host)).transpose()?;
    let masqueraded = if config.masquerade { masquerade::addresses(at, host)? } else { Vec::new() };
    Ok(Facts { bridge, gateway_addresses, masquerade_backend: Backend::Iptables, masqueraded, spoof_check, names })
}

fn choose_names(config: &Config, at: &Attachment, host: &mut dyn Host) -> Result<NewNames, Error> {
    Ok(NewNames {
        veth: NewVeth::choose(at, config.mac.as_ref(), host)?,
        vlan_port: naming::random_name(host),
        vlan_mac: naming::random_mac(host),
        vlan_port_mac: naming::random_mac(host),
    })
}
