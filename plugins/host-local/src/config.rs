//! The input: the ranges, the directory of the leases, requested addresses, and the rest of the result.
//!
//! ADD, CHECK and STATUS need a [`Config`], which exists only if it is valid. DEL and GC need only the [`directory`],
//! so they clean up even if the configuration has become invalid. Pure.

use std::net::IpAddr;
use std::path::{Component, Path, PathBuf};

use cni_core::cidr::{Cidr, parse_ip};
use cni_core::error::Error;
use cni_core::fail;
use cni_core::request::Request;
use cni_core::result::{Dns, Route};
use cni_core::version::Version;
use cni_plugin::ipam::{
    RequestedKeys, RouteKeys, no_section, parse_cidr, parse_optional_ip, refuse_several_of_a_family,
};
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
        let HostLocalIpamKeys { ranges, subnet, range_start, range_end, gateway, routes, resolv_conf } =
            ipam.ok_or_else(no_section)?;
        let mut given = parse_sets("runtimeConfig.ipRanges", &runtime_config.ip_ranges)?;
        // The old form of a single range. Without `subnet` its other keys mean nothing.
        if subnet.is_some() {
            given.push(vec![RangeKeys { subnet, range_start, range_end, gateway }.parse("ipam")?]);
        }
        given.extend(parse_sets("ipam.ranges", &ranges)?);
        Ok(Self {
            routes: RouteKeys::parse_all(&routes)?,
            sets: validate(&given, request.version)?,
            directory: directory(request)?,
            resolv_conf: Some(resolv_conf).filter(|path| !path.is_empty()).map(PathBuf::from),
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
            let details = Some(problem.details()).filter(|details| !details.is_empty());
            let more = details.map_or_else(String::new, |details| details + "; ");
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

/// The directory of the leases of the request's network. It may be missing, and the rest of the configuration may be invalid.
pub fn directory(request: &Request) -> Result<PathBuf, Error> {
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

/// Collects the addresses that the runtime or the user requests: `CNI_ARGS`, `args.cni.ips`, `runtimeConfig.ips`, in that order and
/// without duplicates. A prefix length after an address is ignored.
///
/// # Errors
/// For the first that is not an address, and the errors of `CNI_ARGS`.
pub fn requested_addresses(request: &Request) -> Result<Vec<IpAddr>, Error> {
    let mut requested = Vec::new();
    if let Some(text) = request.args()?.ip {
        requested.push(parse_address(&text).ok_or_else(|| {
            let pair = format!("IP={text}");
            let text = format!("invalid IP address {text}");
            fail!(InvalidEnvironment, "ARGS: error parsing value of pair {pair:?}: {text}")
        })?);
    }
    for (key, texts) in request.decode::<RequestedKeys>()?.lists() {
        for (index, text) in texts.iter().enumerate() {
            let address = parse_listed(&format!("{key}[{index}]"), text)?;
            if !requested.contains(&address) {
                requested.push(address);
            }
        }
    }
    Ok(requested)
}

fn parse_listed(key: &str, text: &str) -> Result<IpAddr, Error> {
    if text.is_empty() {
        return Err(fail!(InvalidConfig, "invalid IP address: none is given", details: "{key} is empty or null"));
    }
    parse_address(text).ok_or_else(|| fail!(InvalidConfig, "invalid IP address {text}", details: "{key}"))
}

fn parse_address(text: &str) -> Option<IpAddr> {
    if text.contains('/') { text.parse::<Cidr>().ok().map(Cidr::address) } else { parse_ip(text) }
}

/// The longest line that the reference can read.
const LINE_LEN: usize = 64 * 1024 - 1;

/// Reads the name servers, the domain, the search list and the options of a `resolv.conf`, as the reference does. Lines with other words
/// are skipped, and so are lines that are comments. `None` if a line is too long for the reference, and so for us: the result must not
/// depend on who reads the file.
pub fn parse_resolv_conf(bytes: &[u8]) -> Option<Dns> {
    let text = String::from_utf8_lossy(bytes);
    let mut dns = Dns::default();
    for line in text.split('\n') {
        if line.len() > LINE_LEN {
            return None;
        }
        let mut words = line.split_whitespace();
        let (Some(key), Some(first)) = (words.next(), words.next()) else { continue };
        let all = std::iter::once(first).chain(words).map(str::to_owned);
        match key {
            "nameserver" => dns.nameservers.get_or_insert_default().push(first.to_owned()),
            "domain" => first.clone_into(&mut dns.domain),
            "search" => dns.search.get_or_insert_default().extend(all),
            "options" => dns.options.get_or_insert_default().extend(all),
            _ => {}
        }
    }
    Some(dns)
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

    fn words(list: &[&str]) -> Option<Vec<String>> {
        Some(list.iter().map(|word| (*word).to_owned()).collect())
    }

    #[test]
    fn lists_accumulate_and_the_last_domain_wins() {
        let text = "; old\n#nameserver 1.1.1.1\nnameserver 9.9.9.9 # quad\n  nameserver\tnot-checked\r\n\
                    domain a.example\ndomain b.example c\nsearch x y\nsearch z\noptions ndots:2 # five\nNameserver 8.8.8.8\n\
                    nameserver\nsortlist 10.0.0.0\n";
        let want = Dns {
            nameservers: words(&["9.9.9.9", "not-checked"]),
            domain: "b.example".to_owned(),
            search: words(&["x", "y", "z"]),
            options: words(&["ndots:2", "#", "five"]),
        };
        assert_eq!(parse_resolv_conf(text.as_bytes()), Some(want));
    }

    #[test]
    fn nothing_said_is_nothing_known() {
        assert_eq!(parse_resolv_conf(b"\n# nothing\nnameserver\n").map(|dns| dns.is_absent()), Some(true));
    }

    #[test]
    fn a_line_may_have_64_kibibytes_with_its_end() {
        let line = format!("search {}\n", "x".repeat(LINE_LEN - 7));
        assert_eq!(parse_resolv_conf(line.as_bytes()).map(|dns| dns.search.map(|list| list.len())), Some(Some(1)));
        assert_eq!(parse_resolv_conf(format!("search {}", "x".repeat(LINE_LEN - 6)).as_bytes()), None);
    }
}
