//! Checks the ranges of host-local: each in its subnet, in order, and no address in two ranges.

use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

use cni_core::cidr::{Cidr, ip_offset, parse_ip};
use serde_json::{Map, Value};

use crate::finding::Finding;
use crate::value::Wrong;

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

/// Judges the ranges of an `ipam` object, and returns those that make sense.
pub fn judge(ipam: &Map<String, Value>, gets_ranges: bool, at: &str, findings: &mut Vec<Finding>) -> Vec<AddressRange> {
    let mut ranges = Vec::new();
    if ipam.contains_key("subnet") {
        ranges.extend(judge_one(ipam, "ipam", at, findings));
    }
    let sets = ipam.get("ranges").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    for (number, set) in sets.iter().enumerate() {
        let elements = set.as_array().map(Vec::as_slice).unwrap_or_default();
        if elements.is_empty() && set.is_array() {
            let path = format!("ipam.ranges[{number}]");
            let instead = "write a range: [{\"subnet\": \"10.1.2.0/24\"}]".to_owned();
            findings.push(Finding::of_key(at, &path, "the range set is empty".to_owned(), instead));
        }
        for (place, element) in elements.iter().enumerate() {
            let path = format!("ipam.ranges[{number}][{place}]");
            let range = element.as_object().and_then(|range| judge_one(range, &path, at, findings));
            ranges.extend(range);
        }
    }
    if !gets_ranges && ranges.is_empty() && sets.is_empty() && !ipam.contains_key("subnet") {
        let instead = "write \"ranges\": [[{\"subnet\": \"10.1.2.0/24\"}]]".to_owned();
        findings.push(Finding::of_key(at, "ipam.ranges", "host-local has no range of addresses".to_owned(), instead));
    }
    for (place, range) in ranges.iter().enumerate() {
        if let Some(earlier) = ranges[..place].iter().find(|earlier| earlier.overlaps(range)) {
            let wrong = format!("the range overlaps with {}", earlier.path);
            findings.push(Finding::of_key(at, &range.path, wrong, "give each address to one range".to_owned()));
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
        findings.push(Finding::of_key(at, path, wrong, "exchange `rangeStart` and `rangeEnd`".to_owned()));
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
