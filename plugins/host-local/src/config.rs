//! The configuration: the ranges, the directory of the leases, and the rest of the result.
//!
//! ADD, CHECK and STATUS need a [`Config`], which exists only if it is valid. DEL and GC need only the [`directory`],
//! so they clean up even if the configuration has become invalid. Pure.

use std::net::IpAddr;
use std::path::{Component, Path, PathBuf};

use cni_core::error::Error;
use cni_core::fail;
use cni_core::request::{LoadError, Request};
use cni_core::result::Route;
use cni_core::version::Version;
use cni_plugin::ipam::{RouteKeys, no_section, parse_cidr, parse_optional_ip, refuse_several_of_a_family};
use serde::Deserialize;

use crate::ranges::{GivenRange, RangeSet, Subnet};

/// The default directory of the networks' directories.
const DATA_DIR: &str = "/var/lib/cni/networks";

/// How range sets are counted: first those of `runtimeConfig`, then the flat form, then `ranges`.
const COUNTING: &str = "range sets count from 0: runtimeConfig.ipRanges, ipam.subnet, ipam.ranges";

/// A valid configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The range sets; each gives one address.
    pub sets: Vec<RangeSet>,
    /// Routes for the result.
    pub routes: Vec<Route>,
    /// The directory of the leases.
    pub directory: PathBuf,
    /// A `resolv.conf` for the result.
    pub resolv_conf: Option<PathBuf>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Keys {
    ipam: Option<HostLocalIpamKeys>,
    runtime_config: RuntimeConfig,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RuntimeConfig {
    ip_ranges: Vec<Vec<RangeKeys>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct HostLocalIpamKeys {
    ranges: Vec<Vec<RangeKeys>>,
    subnet: Option<String>,
    range_start: String,
    range_end: String,
    gateway: String,
    routes: Vec<RouteKeys>,
    resolv_conf: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RangeKeys {
    subnet: Option<String>,
    range_start: String,
    range_end: String,
    gateway: String,
}

impl Config {
    /// Reads the configuration of a request.
    ///
    /// # Errors
    /// For a value of the wrong type, and one that cannot be used.
    pub fn load(request: &Request) -> Result<Self, Error> {
        let Keys { ipam, runtime_config } = request.decode()?;
        let mut ipam = ipam.ok_or_else(no_section)?;
        let mut given = parse_sets("runtimeConfig.ipRanges", &runtime_config.ip_ranges)?;
        if let Some(flat) = ipam.take_flat() {
            given.push(vec![flat.parse("ipam")?]);
        }
        given.extend(parse_sets("ipam.ranges", &ipam.ranges)?);
        Ok(Self {
            routes: RouteKeys::parse_all(&ipam.routes)?,
            sets: validate(&given, request.version)?,
            directory: directory(request)?,
            resolv_conf: Some(ipam.resolv_conf).filter(|path| !path.is_empty()).map(PathBuf::from),
        })
    }
}

impl HostLocalIpamKeys {
    /// The old form of a single range. Without `subnet` its other keys mean nothing.
    fn take_flat(&mut self) -> Option<RangeKeys> {
        self.subnet.take().map(|subnet| RangeKeys {
            subnet: Some(subnet),
            range_start: std::mem::take(&mut self.range_start),
            range_end: std::mem::take(&mut self.range_end),
            gateway: std::mem::take(&mut self.gateway),
        })
    }
}

fn parse_sets(key: &str, sets: &[Vec<RangeKeys>]) -> Result<Vec<Vec<GivenRange>>, Error> {
    let parse_set = |(index, set): (usize, &Vec<RangeKeys>)| {
        let ranges = set.iter().enumerate();
        ranges.map(|(place, keys)| keys.parse(&format!("{key}[{index}][{place}]"))).collect()
    };
    sets.iter().enumerate().map(parse_set).collect()
}

impl RangeKeys {
    fn parse(&self, path: &str) -> Result<GivenRange, Error> {
        let subnet = self.subnet.as_deref().map(|text| parse_subnet(&format!("{path}.subnet"), text));
        Ok(GivenRange {
            subnet: subnet.transpose()?,
            start: parse_optional_ip(&format!("{path}.rangeStart"), &self.range_start)?,
            end: parse_optional_ip(&format!("{path}.rangeEnd"), &self.range_end)?,
            gateway: parse_optional_ip(&format!("{path}.gateway"), &self.gateway)?,
        })
    }
}

fn parse_subnet(key: &str, text: &str) -> Result<Subnet, Error> {
    let cidr = parse_cidr(key, text)?;
    let address = text.split_once('/').and_then(|(address, _)| address.parse::<IpAddr>().ok());
    let mapped = address.is_some_and(|address| address.is_ipv6() && address.to_canonical().is_ipv4());
    Ok(if mapped { Subnet::Mapped } else { Subnet::Plain(cidr) })
}

fn validate(given: &[Vec<GivenRange>], version: Version) -> Result<Vec<RangeSet>, Error> {
    if given.is_empty() {
        return Err(fail!(InvalidConfig, "no IP ranges specified"));
    }
    let mut sets = Vec::with_capacity(given.len());
    for (index, keys) in given.iter().enumerate() {
        sets.push(RangeSet::new(keys).map_err(|problem| {
            let more = problem.details().map_or_else(String::new, |details| format!("{details}; "));
            fail!(InvalidConfig, "invalid range set {index}: {problem}", details: "{more}{COUNTING}")
        })?);
    }
    refuse_several_of_a_family(sets.iter().map(RangeSet::family), version)?;
    for (first, set) in sets.iter().enumerate() {
        let mut others = sets.iter().enumerate().skip(first + 1);
        if let Some((second, other)) = others.find(|(_, other)| set.overlaps(other)) {
            return Err(fail!(
                InvalidConfig,
                "range set {first} overlaps with {second}",
                details: "{set} and {other}; {COUNTING}"
            ));
        }
    }
    Ok(sets)
}

/// The directory of a network's leases. The rest of the configuration may be invalid.
pub fn directory(request: &Request) -> Result<PathBuf, LoadError> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct DataDirConfig {
        ipam: DataDirIpam,
    }
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct DataDirIpam {
        data_dir: String,
    }
    let DataDirConfig { ipam: DataDirIpam { data_dir } } = request.decode()?;
    let data_dir = if data_dir.is_empty() { DATA_DIR } else { &data_dir };
    Ok(clean(&Path::new(data_dir).join(request.network.as_str())))
}

/// A path without `.` and `..`, computed from its text alone, as in the reference.
fn clean(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for component in path.components() {
        match (component, clean.components().next_back()) {
            (Component::CurDir, _) | (Component::ParentDir, Some(Component::RootDir)) => {}
            (Component::ParentDir, Some(Component::Normal(_))) => {
                clean.pop();
            }
            (component, _) => clean.push(component),
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_cleaned_by_its_text() {
        for (path, want) in [
            ("/a/./b//../c/", "/a/c"),
            ("/../../a", "/a"),
            ("rel/../../up", "../up"),
            ("../../a/..", "../.."),
            ("./net", "net"),
        ] {
            assert_eq!(clean(Path::new(path)), Path::new(want), "{path}");
        }
    }
}
