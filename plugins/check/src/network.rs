//! What a list says of its network, and where it contradicts the list of another network of the same host.

use cni_catalog::{Entry, PluginKind};
use cni_core::cidr::{Cidr, ip_offset, parse_ip};
use cni_core::names::IfName;
use cni_model::link::Address;
use cni_model::plan::{NewGateway, OtherAddress};
use serde_json::{Map, Value};

use crate::finding::Finding;
use crate::ranges::AddressRange;

/// The bridge of a list that names none.
const BRIDGE: &str = "cni0";

/// The network of one list.
#[derive(Clone, Debug, Default)]
pub struct Network {
    pub name: String,
    /// The plugins of this project.
    pub entries: Vec<&'static Entry>,
    pub ranges: Vec<AddressRange>,
    /// The addresses that a bridge gets.
    pub gateways: Vec<NewGateway>,
}

impl Network {
    /// Contradictions to the list of another network, which was read earlier.
    pub fn conflicts(&self, earlier: &Self) -> Vec<Finding> {
        if self.name == earlier.name {
            return Vec::new();
        }
        self.overlap(earlier).into_iter().chain(self.two_gateways(earlier)).collect()
    }

    fn overlap(&self, earlier: &Self) -> Option<Finding> {
        let mut pairs = self.ranges.iter().flat_map(|range| earlier.ranges.iter().map(move |other| (range, other)));
        let (range, other) = pairs.find(|(range, other)| range.overlaps(other))?;
        let wrong =
            format!("{} and {} of network {:?} have addresses in common", range.subnet, other.subnet, earlier.name);
        let instead = "give each network its own subnet".to_owned();
        Some(Finding::of_key(&format!("network {:?}", self.name), &range.path, wrong, instead))
    }

    fn two_gateways(&self, earlier: &Self) -> Option<Finding> {
        let mut pairs = self.gateways.iter().flat_map(|own| earlier.gateways.iter().map(move |other| (own, other)));
        let refuses = |one: &NewGateway, other: &NewGateway| {
            one.unwanted(&[Address { cidr: other.cidr, tentative: false, dad_failed: false }]).is_err()
        };
        let (own, other) =
            pairs.find(|(own, other)| own.link == other.link && (refuses(own, other) || refuses(other, own)))?;
        let wrong = format!(
            "{} gets the gateway {} here and {} in network {:?}, and ADD refuses the second",
            own.link, own.cidr, other.cidr, earlier.name
        );
        let instead = "name another bridge, or give both networks the same gateway".to_owned();
        Some(Finding::of_key(&format!("network {:?}", self.name), "bridge", wrong, instead))
    }

    /// A finding for a list that leaves `lo` down under a runtime that does not set it up itself, as Nomad.
    pub fn loopback_down(&self) -> Option<Finding> {
        self.of_kind(PluginKind::Interface).filter(|_| self.of_kind(PluginKind::Loopback).is_none())?;
        let wrong =
            "no plugin sets up `lo`, and Nomad does not either, so a container does not reach its own addresses";
        let instead = "begin `plugins` with {\"type\": \"loopback\"}".to_owned();
        Some(Finding::of_key("list", "plugins", wrong.to_owned(), instead))
    }

    /// The first plugin of a kind.
    pub fn of_kind(&self, kind: PluginKind) -> Option<&'static Entry> {
        self.entries.iter().copied().find(|entry| entry.kind == kind)
    }
}

/// The addresses that an element of type bridge gives the host, on the bridge or its link to a VLAN.
pub fn gateways(keys: &Map<String, Value>, ranges: &[AddressRange]) -> Vec<NewGateway> {
    let is = |key: &str| keys.get(key) == Some(&Value::Bool(true));
    let bridge = keys.get("bridge").and_then(Value::as_str).unwrap_or(BRIDGE);
    let vlan = keys.get("vlan").and_then(Value::as_u64).filter(|vlan| *vlan != 0);
    let link = IfName::parse(&vlan.map_or(bridge.to_owned(), |vlan| format!("{bridge}.{vlan}")));
    let Some(link) = link.ok().filter(|_| is("isGateway") || is("isDefaultGateway")) else { return Vec::new() };
    let of_range = |range: &AddressRange| Cidr::new(range.gateway?, range.subnet.prefix());
    let fixed = keys.get("ipam").filter(|ipam| ipam.get("type").is_some_and(|kind| kind == "static"));
    let fixed = fixed.and_then(|ipam| ipam.get("addresses")?.as_array()).into_iter().flatten();
    let network: Vec<Cidr> = ranges.iter().filter_map(of_range).chain(fixed.filter_map(fixed_gateway)).collect();
    let other = if is("forceAddress") { OtherAddress::Replace } else { OtherAddress::Refuse };
    network.iter().map(|cidr| NewGateway { link: link.clone(), cidr: *cidr, network: network.clone(), other }).collect()
}

/// The gateway of an address of static, as bridge completes it.
fn fixed_gateway(address: &Value) -> Option<Cidr> {
    let text = |key: &str| address.get(key).and_then(Value::as_str);
    let cidr: Cidr = text("address")?.parse().ok()?;
    Cidr::new(text("gateway").and_then(parse_ip).or_else(|| ip_offset(cidr.network().address(), 1))?, cidr.prefix())
}
