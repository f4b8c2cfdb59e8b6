//! The result of ADD, compared with the container.

use serde_json::{Value, json};

use crate::suite::case::{PluginSelection, Template, Topic};
use crate::suite::host::PrivateHost;
use crate::suite::judge::{CaseVerdict, Mismatch, equal, require};
use crate::suite::subject::PluginKind;
use crate::suite::version::SpecVersion;

const fn case(what: &'static str, says: &'static str, run: fn(&PrivateHost) -> CaseVerdict) -> Template {
    Template::new(Topic::Result, what, says, run)
}

const INTERFACE: PluginSelection = PluginSelection::Kinds(&[PluginKind::Interface]);

pub const CASES: &[Template] = &[
    case("version", "the result has the cniVersion of the configuration", version).spec(&["result-version"]),
    case("interfaces", "the interface in the container is in `interfaces`", |host| listed(host).map(drop))
        .spec(&["result-interfaces"])
        .of(INTERFACE),
    case("mac", "the interface is listed with the hardware address that it has", mac)
        .spec(&["result-mac"])
        .of(INTERFACE),
    case("mtu", "an MTU in the list of interfaces is the one that the interface has", mtu)
        .spec(&["result-mtu"])
        .of(INTERFACE),
    case("sandbox", "the interface in the container is listed with CNI_NETNS, and those of the host without", sandbox)
        .spec(&["result-sandbox"])
        .of(INTERFACE),
    case("ips", "each address is written with its prefix length, as the version wants it", ips)
        .spec(&["result-ips"])
        .of(PluginSelection::Kinds(&[PluginKind::Interface, PluginKind::Chained, PluginKind::Ipam])),
    case("ip-interface", "each address points to the interface of the container that has it", ip_interface)
        .spec(&["result-ip-interface"])
        .of(PluginSelection::Delegating),
    case("of-ipam", "addresses, routes and dns are those that the IPAM plugin answered", of_ipam)
        .spec(&["result-of-ipam", "well-known-keys"])
        .of(PluginSelection::Delegating),
    case("routes", "each route has a destination with its prefix length, and a router of the same family", routes)
        .spec(&["result-routes"])
        .of(PluginSelection::Kinds(&[PluginKind::Interface, PluginKind::Chained, PluginKind::Ipam])),
];

fn version(host: &PrivateHost) -> CaseVerdict {
    equal("cniVersion", json!(host.version.as_str()), host.add()?["cniVersion"].clone())
}

fn entries<'r>(result: &'r Value, key: &str) -> impl Iterator<Item = &'r Value> {
    result[key].as_array().into_iter().flatten()
}

/// Runs ADD, and returns the entry of the container's interface in the result.
fn listed(host: &PrivateHost) -> Result<Value, Mismatch> {
    let result = host.add()?;
    let found = entries(&result, "interfaces").find(|entry| entry["name"] == "eth0" && is_inside(entry)).cloned();
    found.ok_or_else(|| Mismatch {
        expected: "eth0 with a `sandbox` in `interfaces`".to_owned(),
        got: result.to_string(),
    })
}

fn is_inside(entry: &Value) -> bool {
    entry["sandbox"].as_str().is_some_and(|sandbox| !sandbox.is_empty())
}

fn mac(host: &PrivateHost) -> CaseVerdict {
    let entry = listed(host)?;
    let has = host.inside().link("eth0").map(|link| link.mac.clone()).unwrap_or_default();
    equal("mac", json!(has), entry["mac"].clone())
}

fn mtu(host: &PrivateHost) -> CaseVerdict {
    let entry = listed(host)?;
    let has = host.inside().link("eth0").map(|link| link.mtu).unwrap_or_default();
    entry.get("mtu").map_or(Ok(()), |reported| equal("mtu", json!(has), reported.clone()))
}

fn sandbox(host: &PrivateHost) -> CaseVerdict {
    let result = host.add()?;
    for entry in entries(&result, "interfaces") {
        let inside = host.outside().link(entry["name"].as_str().unwrap_or_default()).is_none();
        let expected = if inside { json!(host.guest.container.path()) } else { json!("") };
        let got = entry.get("sandbox").cloned().unwrap_or_else(|| json!(""));
        equal(&format!("sandbox of {}", entry["name"]), expected, got)?;
    }
    listed_in(&result)
}

fn listed_in(result: &Value) -> CaseVerdict {
    require(entries(result, "interfaces").any(is_inside), "an interface in the container", result)
}

/// The family of an address, or of a network with its prefix length.
fn family(text: &str) -> Option<&'static str> {
    let (ip, length) = text.split_once('/').unwrap_or((text, "0"));
    let (family, longest) = match ip.parse::<std::net::IpAddr>().ok()? {
        std::net::IpAddr::V4(_) => ("4", 32),
        std::net::IpAddr::V6(_) => ("6", 128),
    };
    (length.parse::<u8>().ok()? <= longest).then_some(family)
}

fn ips(host: &PrivateHost) -> CaseVerdict {
    let result = host.add()?;
    require(entries(&result, "ips").next().is_some(), "an address in `ips`", &result)?;
    for entry in entries(&result, "ips") {
        let address = entry["address"].as_str().filter(|address| address.contains('/'));
        let of = address.and_then(family);
        require(of.is_some(), "an address with a prefix length", entry)?;
        match host.version {
            SpecVersion::V0_4_0 => equal("version of IP", json!(of), entry["version"].clone())?,
            SpecVersion::V1_0_0 | SpecVersion::V1_1_0 => {
                require(entry.get("version").is_none(), "no `version`", entry)?
            }
        }
    }
    Ok(())
}

fn ip_interface(host: &PrivateHost) -> CaseVerdict {
    let result = host.add()?;
    for entry in entries(&result, "ips") {
        let at = entry["interface"].as_u64().and_then(|at| usize::try_from(at).ok());
        let named = at.map(|at| &result["interfaces"][at]);
        let fits = named.is_some_and(|named| named["name"] == "eth0" && is_inside(named));
        require(fits, "the place of eth0 in `interfaces`", &result)?;
    }
    Ok(())
}

fn of_ipam(host: &PrivateHost) -> CaseVerdict {
    let result = host.add()?;
    let reported = host.ipam_result(&host.guest);
    for key in ["address", "gateway"] {
        equal(key, reported["ips"][0][key].clone(), result["ips"][0][key].clone())?;
    }
    equal("dns", reported["dns"].clone(), result["dns"].clone())?;
    let destinations =
        |object: &Value| entries(object, "routes").map(|route| route["dst"].to_string()).collect::<Vec<_>>();
    equal("destinations of routes", destinations(&reported).join(" "), destinations(&result).join(" "))
}

fn routes(host: &PrivateHost) -> CaseVerdict {
    let result = host.add()?;
    require(entries(&result, "routes").next().is_some(), "the route of the configuration in `routes`", &result)?;
    for route in entries(&result, "routes") {
        let of = route["dst"].as_str().filter(|dst| dst.contains('/')).and_then(family);
        let router = route.get("gw").map(|gw| gw.as_str().and_then(family));
        require(
            of.is_some() && router.is_none_or(|router| router == of),
            "`dst`, and maybe `gw` of its family",
            route,
        )?;
    }
    Ok(())
}
