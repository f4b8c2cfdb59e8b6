//! What a list says of its network, and where it contradicts the list of another network of the same host.

use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

use cni_catalog::{Entry, PluginKind};
use cni_core::cidr::{Cidr, ip_offset, parse_ip};
use cni_core::names::IfName;
use cni_model::link::Address;
use cni_model::plan::{NewGateway, OtherAddress};
use serde_json::{Map, Value};

use crate::finding::Finding;
use crate::value::Wrong;

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

/// A range of addresses, and its place in the configuration.
#[derive(Clone, Debug)]
pub struct AddressRange {
    pub path: String,
    pub subnet: Cidr,
    first: IpAddr,
    last: IpAddr,
    /// The address that the host has on a bridge with `isGateway`.
    pub gateway: Option<IpAddr>,
}

impl AddressRange {
    pub fn overlaps(&self, other: &Self) -> bool {
        self.subnet.family() == other.subnet.family() && self.first <= other.last && other.first <= self.last
    }
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
        let network = format!("network {:?}", self.name);
        Some(Finding::of_key(&network, &range.path, wrong, "give each network its own subnet"))
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
        let instead = "name another bridge, or give both networks the same gateway";
        Some(Finding::of_key(&format!("network {:?}", self.name), "bridge", wrong, instead))
    }

    /// A finding for a list that leaves `lo` down under a runtime that does not set it up itself, as Nomad.
    pub fn loopback_down(&self) -> Option<Finding> {
        self.of_kind(PluginKind::Interface).filter(|_| self.of_kind(PluginKind::Loopback).is_none())?;
        let wrong =
            "no plugin sets up `lo`, and Nomad does not either, so a container does not reach its own addresses";
        Some(Finding::of_key("list", "plugins", wrong, "begin `plugins` with {\"type\": \"loopback\"}"))
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

/// Judges the ranges of an `ipam` object, and returns those that make sense.
pub fn judge_ranges(
    ipam: &Map<String, Value>,
    gets_ranges: bool,
    at: &str,
    findings: &mut Vec<Finding>,
) -> Vec<AddressRange> {
    let mut ranges = Vec::new();
    if ipam.contains_key("subnet") {
        ranges.extend(judge_one(ipam, "ipam", at, findings));
    }
    let sets = ipam.get("ranges").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    for (number, set) in sets.iter().enumerate() {
        let elements = set.as_array().map(Vec::as_slice).unwrap_or_default();
        if elements.is_empty() && set.is_array() {
            let path = format!("ipam.ranges[{number}]");
            let instead = "write a range: [{\"subnet\": \"10.1.2.0/24\"}]";
            findings.push(Finding::of_key(at, &path, "the range set is empty", instead));
        }
        for (place, element) in elements.iter().enumerate() {
            let path = format!("ipam.ranges[{number}][{place}]");
            let range = element.as_object().and_then(|range| judge_one(range, &path, at, findings));
            ranges.extend(range);
        }
    }
    if !gets_ranges && ranges.is_empty() && sets.is_empty() && !ipam.contains_key("subnet") {
        let instead = "write \"ranges\": [[{\"subnet\": \"10.1.2.0/24\"}]]";
        findings.push(Finding::of_key(at, "ipam.ranges", "host-local has no range of addresses", instead));
    }
    for (place, range) in ranges.iter().enumerate() {
        if let Some(earlier) = ranges[..place].iter().find(|earlier| earlier.overlaps(range)) {
            let wrong = format!("the range overlaps with {}", earlier.path);
            findings.push(Finding::of_key(at, &range.path, wrong, "give each address to one range"));
        }
    }
    ranges
}

fn judge_one(range: &Map<String, Value>, path: &str, at: &str, findings: &mut Vec<Finding>) -> Option<AddressRange> {
    let subnet = range.get("subnet").and_then(Value::as_str).and_then(|text| Cidr::from_str(text).ok())?;
    let subnet = subnet.network();
    let address = |key: &str| range.get(key).and_then(Value::as_str).and_then(parse_ip);
    for key in ["rangeStart", "rangeEnd"] {
        if let Some((wrong, instead)) = address(key).and_then(|address| limit(address, subnet)) {
            findings.push(Finding::of_key(at, &format!("{path}.{key}"), wrong, instead));
        }
    }
    let first = address("rangeStart").unwrap_or_else(|| subnet.address());
    let last = address("rangeEnd").unwrap_or_else(|| subnet.last());
    if first > last {
        let [Some(_), Some(_)] = ["rangeStart", "rangeEnd"].map(address) else { return None };
        let wrong = format!("the range begins with {first} and ends with {last}");
        findings.push(Finding::of_key(at, path, wrong, "exchange `rangeStart` and `rangeEnd`"));
        return None;
    }
    let gateway = address("gateway").or_else(|| ip_offset(subnet.address(), 1));
    Some(AddressRange { path: path.to_owned(), subnet, first, last, gateway })
}

/// The mistake in the first or last address of a range: host-local assigns it although no container can use it.
fn limit(address: IpAddr, subnet: Cidr) -> Option<Wrong> {
    let (first, last) = (subnet.address(), subnet.last());
    if !subnet.contains(address) {
        return Some((format!("{address} is not in the subnet {subnet}"), format!("write an address of {subnet}")));
    }
    let (is, instead) = match address {
        _ if address == first => ("the network address", ip_offset(first, 1)?),
        IpAddr::V4(v4) if address == last => ("the broadcast address", Ipv4Addr::from(v4.to_bits() - 1).into()),
        IpAddr::V4(_) | IpAddr::V6(_) => return None,
    };
    Some((format!("{address} is {is} of {subnet}, and no container can use it"), format!("write \"{instead}\"")))
}
