//! How many addresses of each range are used, free and reserved.

use std::collections::{BTreeMap, BTreeSet};

use cni_core::family::Family;
use cni_core::names::NetworkName;
use cni_host_local::{Holder, Range};

use super::text::{Metric, Sample};
use crate::pools::Pool;

/// The ranges of the networks by name and text with how many of their addresses are leased, and how many leased addresses of each network
/// are in no range. A huge range is counted without looking at its addresses.
#[derive(Debug, Default)]
struct Count<'a> {
    ranges: BTreeMap<(&'a NetworkName, String), (Range, u128)>,
    outside: BTreeMap<&'a NetworkName, usize>,
}

/// The metrics of addresses. Adds the configurations that cannot be read to `problems`.
pub fn metrics(pools: &[Pool], problems: &mut Vec<String>) -> Vec<Metric> {
    let mut count = Count::default();
    for pool in pools {
        let (ranges, wrong) = pool.ranges();
        problems.extend(wrong);
        if !ranges.is_empty() {
            count.add(&pool.network, &ranges, &pool.holders);
        }
    }
    count.metrics()
}

impl<'a> Count<'a> {
    /// Counts the leases of a directory. Of ranges that differ only in their gateway the first counts.
    fn add(&mut self, network: &'a NetworkName, ranges: &[Range], holders: &[Holder]) {
        let mut seen = BTreeSet::new();
        for range in ranges {
            let text = range.to_string();
            if seen.insert(text.clone()) {
                let used = holders.iter().filter(|holder| range.hands_out(holder.address)).count() as u128;
                self.ranges.entry((network, text)).or_insert((*range, 0)).1 += used;
            }
        }
        let is_outside = |holder: &&Holder| !ranges.iter().any(|range| range.contains(holder.address));
        *self.outside.entry(network).or_default() += holders.iter().filter(is_outside).count();
    }

    fn metrics(&self) -> Vec<Metric> {
        let of_ranges = |value: fn(&Range, u128) -> u128| -> Vec<Sample> {
            let sample = |((network, text), (range, used)): (&(&NetworkName, String), &(Range, u128))| Sample {
                labels: vec![
                    ("network", network.to_string()),
                    ("range", text.clone()),
                    ("family", family_name(range.family()).to_owned()),
                ],
                value: value(range, *used),
            };
            self.ranges.iter().map(sample).collect()
        };
        let outside =
            self.outside.iter().map(|(network, count)| Sample::count([("network", network.as_str())], *count));
        vec![
            Metric::new("cni_addresses_used", "Addresses of the range that are leased.", of_ranges(|_, used| used)),
            Metric::new(
                "cni_addresses_free",
                "Addresses of the range that can be leased.",
                of_ranges(|range, used| range.capacity().saturating_sub(used)),
            ),
            Metric::new(
                "cni_addresses_reserved",
                "Addresses of the range that are never leased, such as the gateway's.",
                of_ranges(|range, _| range.reserved()),
            ),
            Metric::new(
                "cni_addresses_outside",
                "Leased addresses that are in no range of the network's configurations.",
                outside,
            ),
        ]
    }
}

const fn family_name(family: Family) -> &'static str {
    match family {
        Family::V4 => "ipv4",
        Family::V6 => "ipv6",
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use cni_host_local::{HostLocal, ranges};
    use serde_json::{Value, json};

    use super::*;
    use crate::cache::Cached;

    fn ranges_of(sets: Value) -> Vec<Range> {
        let at = cni_plugin::ledger::parse_attachment(&mut "n1 c1 eth0".split(' ')).expect("an attachment");
        let keys = json!({"ipam": {"type": "host-local", "ranges": sets}});
        let cached = Cached::of_config(at, "bridge", keys);
        ranges(&cached.question(&cached.plugins[0], &HostLocal).expect("a request")).expect("valid")
    }

    fn holder(address: &str) -> Holder {
        let address = address.parse().expect("an address");
        Holder { address, container: "c".to_owned(), ifname: None, written: Duration::ZERO }
    }

    /// The samples of a metric, without its name.
    fn samples(directories: &[(Vec<Range>, Vec<Holder>)], metric: &str) -> Vec<String> {
        let network = NetworkName::parse("n1").expect("a network");
        let mut count = Count::default();
        directories.iter().for_each(|(ranges, holders)| count.add(&network, ranges, holders));
        let found = count.metrics().into_iter().find(|one| one.name == metric).expect("a metric");
        found.samples.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_address_of_a_range_is_used_free_or_reserved() {
        let ranges = ranges_of(json!([[{"subnet": "10.1.2.0/24", "rangeStart": "10.1.2.1", "rangeEnd": "10.1.2.9"}]]));
        let directories = [(ranges, vec![holder("10.1.2.2"), holder("10.1.2.9"), holder("10.9.9.9")])];
        let labels = r#"{network="n1",range="10.1.2.1-10.1.2.9",family="ipv4"}"#;
        assert_eq!(samples(&directories, "cni_addresses_used"), [format!("{labels} 2")]);
        assert_eq!(samples(&directories, "cni_addresses_free"), [format!("{labels} 6")]);
        assert_eq!(samples(&directories, "cni_addresses_reserved"), [format!("{labels} 1")]);
        assert_eq!(samples(&directories, "cni_addresses_outside"), [r#"{network="n1"} 1"#]);
    }

    #[test]
    fn a_huge_range_is_counted_at_once() {
        let directories = [(ranges_of(json!([[{"subnet": "::/0"}]])), vec![holder("fd00::1"), holder("::2")])];
        let labels = r#"{network="n1",range="::1-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",family="ipv6"}"#;
        assert_eq!(samples(&directories, "cni_addresses_free"), [format!("{labels} {}", u128::MAX - 3)]);
        assert_eq!(samples(&directories, "cni_addresses_used"), [format!("{labels} 2")]);
    }

    /// Nobody may lease the gateway's address, but a file of its name does no harm.
    #[test]
    fn a_lease_of_the_gateway_takes_no_free_address() {
        let ranges = ranges_of(json!([[{"subnet": "10.1.2.0/30"}]]));
        let full = [(ranges, vec![holder("10.1.2.1"), holder("10.1.2.2")])];
        let values = ["cni_addresses_used", "cni_addresses_free"].map(|metric| {
            samples(&full, metric)[0].rsplit_once(' ').map(|(_, value)| value.to_owned()).expect("a value")
        });
        assert_eq!(values, ["1", "0"]);
    }

    /// A series that is there twice would make the whole text invalid.
    #[test]
    fn a_range_in_two_configurations_and_directories_is_one_series() {
        let [old, new] =
            ["10.1.2.1", "10.1.2.5"].map(|gateway| ranges_of(json!([[{"subnet": "10.1.2.0/24", "gateway": gateway}]])));
        let both = [new, old].concat();
        let directories = [(both.clone(), vec![holder("10.1.2.7")]), (both, vec![holder("10.1.2.8")])];
        let used = samples(&directories, "cni_addresses_used");
        assert_eq!(used, [r#"{network="n1",range="10.1.2.1-10.1.2.254",family="ipv4"} 2"#]);
    }
}
