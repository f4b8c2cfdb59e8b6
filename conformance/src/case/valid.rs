//! Whether a result is what the SPEC says, and true.

use std::fs;
use std::net::IpAddr;

use serde_json::Value;

use super::world::World;
use crate::network::Network;

/// What is wrong with a result: what was expected, and what was found.
type Finding = Result<(), (String, String)>;

/// Requires that parts of the result of an attachment are as the SPEC wants them, and true of the container.
///
/// # Panics
/// Otherwise, and for an unknown part.
pub fn expect(world: &mut World<'_>, name: &str, parts: &[&str]) {
    let attachment = world.attachment(name).attachment.clone();
    let own = format!("{}.{}", attachment.container_id, attachment.ifname);
    let result = attachment.result.clone().unwrap_or_default();
    let answer = fs::read_to_string(format!("/run/conformance/stand-in/answer.{own}")).unwrap_or_default();
    let container = attachment.netns.rsplit('/').next().unwrap_or_default();
    let view = View {
        version: world.attachment(name).list["cniVersion"].clone(),
        ifname: attachment.ifname.clone(),
        netns: attachment.netns.clone(),
        inside: Network::observe(&world.container(container)),
        host: Network::observe(world.sandbox.host()),
        answer: serde_json::from_str(&answer).unwrap_or_default(),
        result,
    };
    for part in parts {
        let found = match *part {
            "version" => equal("cniVersion", &view.version, &view.result["cniVersion"]),
            "interfaces" => view.own().map(drop),
            "mac" => view.mac(),
            "mtu" => view.mtu(),
            "sandbox" => view.sandboxes(),
            "ips" => view.ips(),
            "ip-interface" => view.ip_interfaces(),
            "routes" => view.routes(),
            "answer" => view.of_ipam(),
            "kept" => view.kept(),
            "unchanged" => equal("the result", &view.answer, &view.result),
            "abbreviated" => view.abbreviated(),
            other => panic!("{other:?} is no part of a result: the table in conformance/cases/README.md has all"),
        };
        if let Err((expected, found)) = found {
            panic!("expected: {expected}\nfound:    {found}");
        }
    }
}

/// A result beside what is there.
struct View {
    version: Value,
    ifname: String,
    netns: String,
    inside: Network,
    host: Network,
    /// What the stand-in has answered.
    answer: Value,
    result: Value,
}

fn require(holds: bool, expected: impl Into<String>, found: &Value) -> Finding {
    if holds { Ok(()) } else { Err((expected.into(), found.to_string())) }
}

fn equal(what: &str, expected: &Value, found: &Value) -> Finding {
    if expected == found { Ok(()) } else { Err((format!("{what}: {expected}"), format!("{what}: {found}"))) }
}

fn entries<'r>(result: &'r Value, key: &str) -> impl Iterator<Item = &'r Value> {
    result[key].as_array().into_iter().flatten()
}

fn is_inside(entry: &Value) -> bool {
    entry["sandbox"].as_str().is_some_and(|sandbox| !sandbox.is_empty())
}

/// The family of an address, or of a network with its prefix length.
fn family(text: &str) -> Option<&'static str> {
    let (ip, length) = text.split_once('/').unwrap_or((text, "0"));
    let (family, longest) = match ip.parse().ok()? {
        IpAddr::V4(_) => ("4", 32),
        IpAddr::V6(_) => ("6", 128),
    };
    (length.parse::<u8>().ok()? <= longest).then_some(family)
}

impl View {
    /// The entry of the container's interface.
    fn own(&self) -> Result<&Value, (String, String)> {
        let found = entries(&self.result, "interfaces").find(|entry| entry["name"] == *self.ifname && is_inside(entry));
        found.ok_or_else(|| (format!("{} with a `sandbox` in `interfaces`", self.ifname), self.result.to_string()))
    }

    fn mac(&self) -> Finding {
        let has = self.inside.link(&self.ifname).map(|link| Value::from(link.mac.clone())).unwrap_or_default();
        equal("mac", &has, &self.own()?["mac"])
    }

    fn mtu(&self) -> Finding {
        let has = self.inside.link(&self.ifname).map(|link| Value::from(link.mtu)).unwrap_or_default();
        self.own()?.get("mtu").map_or(Ok(()), |reported| equal("mtu", &has, reported))
    }

    fn sandboxes(&self) -> Finding {
        for entry in entries(&self.result, "interfaces") {
            let is_of_host = self.host.link(entry["name"].as_str().unwrap_or_default()).is_some();
            let expected = if is_of_host { "" } else { &self.netns };
            equal(
                &format!("sandbox of {}", entry["name"]),
                &expected.into(),
                entry.get("sandbox").unwrap_or(&"".into()),
            )?;
        }
        require(entries(&self.result, "interfaces").any(is_inside), "an interface in the container", &self.result)
    }

    fn ips(&self) -> Finding {
        require(entries(&self.result, "ips").next().is_some(), "an address in `ips`", &self.result)?;
        for entry in entries(&self.result, "ips") {
            let of = entry["address"].as_str().filter(|address| address.contains('/')).and_then(family);
            require(of.is_some(), "an address with a prefix length", entry)?;
            if self.version == "0.4.0" {
                equal("version of IP", &of.into(), &entry["version"])?;
            } else {
                require(entry.get("version").is_none(), "no `version`", entry)?;
            }
        }
        Ok(())
    }

    fn ip_interfaces(&self) -> Finding {
        for entry in entries(&self.result, "ips") {
            let at = entry["interface"].as_u64().and_then(|at| usize::try_from(at).ok());
            let named = at.map(|at| &self.result["interfaces"][at]);
            let fits = named.is_some_and(|named| named["name"] == *self.ifname && is_inside(named));
            require(fits, format!("the place of {} in `interfaces`", self.ifname), &self.result)?;
        }
        Ok(())
    }

    fn routes(&self) -> Finding {
        require(entries(&self.result, "routes").next().is_some(), "a route in `routes`", &self.result)?;
        for route in entries(&self.result, "routes") {
            let of = route["dst"].as_str().filter(|dst| dst.contains('/')).and_then(family);
            let router = route.get("gw").map(|gw| gw.as_str().and_then(family));
            let fits = of.is_some() && router.is_none_or(|router| router == of);
            require(fits, "`dst`, and maybe `gw` of its family", route)?;
        }
        Ok(())
    }

    /// Addresses, routers, destinations and dns are those of the IPAM plugin.
    fn of_ipam(&self) -> Finding {
        for key in ["address", "gateway"] {
            equal(key, &self.answer["ips"][0][key], &self.result["ips"][0][key])?;
        }
        equal("dns", &self.answer["dns"], &self.result["dns"])?;
        let destinations =
            |object: &Value| entries(object, "routes").map(|route| route["dst"].clone()).collect::<Value>();
        equal("destinations of routes", &destinations(&self.answer), &destinations(&self.result))
    }

    /// Interfaces, addresses and dns of the result before are still there.
    fn kept(&self) -> Finding {
        for key in ["interfaces", "ips"] {
            let name_of =
                |entry: &Value| entry.get("name").or_else(|| entry.get("address")).cloned().unwrap_or_default();
            let kept: Vec<Value> = entries(&self.result, key).map(name_of).collect();
            for entry in entries(&self.answer, key).map(name_of) {
                require(kept.contains(&entry), format!("{entry} still in `{key}`"), &self.result)?;
            }
        }
        equal("dns", &self.answer["dns"], &self.result["dns"])
    }

    fn abbreviated(&self) -> Finding {
        let is_bare = self.result.get("interfaces").is_none()
            && entries(&self.result, "ips").all(|ip| ip.get("interface").is_none());
        require(is_bare, "no `interfaces`, and no `interface` in `ips`", &self.result)
    }
}
