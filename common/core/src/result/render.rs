//! Prints results with the structure, key order and escapes of the reference, for every version.

use std::net::IpAddr;

use serde::Serialize;
use serde_json::ser::PrettyFormatter;

use super::{CniResult, Dns, Interface, IpConfig, Route, Shape};
use crate::error::Error;
use crate::fail;
use crate::family::Family;
use crate::json::Json;
use crate::version::Version;

impl CniResult {
    /// Prints the result in the shape of `version`: indented by four blanks, no newline at the end.
    ///
    /// # Errors
    /// For a result without addresses in a version up to 0.2.0, which cannot express that.
    pub fn render(&self, version: Version) -> Result<String, Error> {
        let Self { interfaces, ips, routes, dns } = self;
        let cni_version = ("cniVersion", text(version.as_str()));
        let document = match Shape::of(version) {
            Shape::Ancient => {
                let [ip4, ip6] = Family::ALL.map(|family| self.ancient_ip(family));
                if ip4 == Json::Null && ip6 == Json::Null {
                    let details = format!("a result of cniVersion {version} needs an address");
                    return Err(fail!(UnsupportedField, "cannot convert: no valid IP addresses", details: "{details}"));
                }
                object([cni_version, ("ip4", ip4), ("ip6", ip6), ("dns", dns_object(dns))])
            }
            Shape::Legacy => object([
                cni_version,
                ("interfaces", list(interfaces, legacy_interface)),
                ("ips", list(ips, legacy_ip)),
                ("routes", list(routes, route)),
                ("dns", dns_object(dns)),
            ]),
            Shape::Modern => {
                let dns = Some(dns_object(dns)).filter(|dns| *dns != object([])).unwrap_or(Json::Null);
                object([
                    cni_version,
                    ("interfaces", list(interfaces, modern_interface)),
                    ("ips", list(ips, modern_ip)),
                    ("routes", list(routes, route)),
                    ("dns", dns),
                ])
                .sorted()
            }
        };
        Ok(to_text(&document))
    }

    /// These versions hold one address of each family, and of a route only its destination and gateway.
    fn ancient_ip(&self, family: Family) -> Json {
        let Some(ip) = self.ips.iter().find(|ip| ip.address.family() == family) else { return Json::Null };
        let routes = self.routes.iter().filter(|route| route.family() == family);
        let route = |route: &Route| object([("dst", text(&route.dst)), ("gw", optional_ip(route.gw))]);
        object([("ip", text(&ip.address)), ("gateway", optional_ip(ip.gateway)), ("routes", list(routes, route))])
    }
}

/// Prints a value as JSON in one line.
pub fn to_line(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// Prints a value as the reference prints JSON: four blanks of indent, HTML characters escaped.
pub fn to_text(value: &impl Serialize) -> String {
    let mut bytes = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, PrettyFormatter::with_indent(b"    "));
    match value.serialize(&mut serializer) {
        Ok(()) => escaped(&String::from_utf8_lossy(&bytes)),
        Err(error) => format!("{{\"code\": 999, \"msg\": \"could not print JSON: {error}\"}}"),
    }
}

/// Escapes the characters that Go escapes in JSON. They occur only inside strings.
pub(crate) fn escaped(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for character in json.chars() {
        match character {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => escaped += &format!("\\u{:04x}", u32::from(character)),
            _ => escaped.push(character),
        }
    }
    escaped
}

fn legacy_interface(interface: &Interface) -> Json {
    let Interface { name, mac, sandbox, .. } = interface;
    object([("name", text(name)), ("mac", given(mac)), ("sandbox", given(sandbox))])
}

fn modern_interface(interface: &Interface) -> Json {
    let Interface { name, mac, mtu, sandbox, socket_path, pci_id } = interface;
    object([
        ("name", text(name)),
        ("mac", given(mac)),
        ("mtu", nonzero(*mtu)),
        ("sandbox", given(sandbox)),
        ("socketPath", given(socket_path)),
        ("pciID", given(pci_id)),
    ])
}

fn legacy_ip(ip: &IpConfig) -> Json {
    let IpConfig { interface, address, gateway } = ip;
    object([
        ("version", text(address.family().digit())),
        ("interface", optional(*interface)),
        ("address", text(address)),
        ("gateway", optional_ip(*gateway)),
    ])
}

fn modern_ip(ip: &IpConfig) -> Json {
    let IpConfig { interface, address, gateway } = ip;
    object([("address", text(address)), ("gateway", optional_ip(*gateway)), ("interface", optional(*interface))])
}

fn route(route: &Route) -> Json {
    let Route { dst, gw, mtu, advmss, priority, table, scope } = route;
    object([
        ("dst", text(dst)),
        ("gw", optional_ip(*gw)),
        ("mtu", nonzero(*mtu)),
        ("advmss", nonzero(*advmss)),
        ("priority", nonzero(*priority)),
        ("table", optional(*table)),
        ("scope", optional(*scope)),
    ])
}

fn dns_object(dns: &Dns) -> Json {
    let Dns { nameservers, domain, search, options } = dns;
    object([
        ("nameservers", list(nameservers.iter().flatten(), text)),
        ("domain", given(domain)),
        ("search", list(search.iter().flatten(), text)),
        ("options", list(options.iter().flatten(), text)),
    ])
}

/// An object of those members that are not `null`.
fn object<const N: usize>(members: [(&str, Json); N]) -> Json {
    let members = members.into_iter().filter(|(_, value)| *value != Json::Null);
    Json::Object(members.map(|(key, value)| (key.to_owned(), value)).collect())
}

fn list<'a, T: 'a>(items: impl IntoIterator<Item = &'a T>, render: impl Fn(&'a T) -> Json) -> Json {
    let items: Vec<Json> = items.into_iter().map(render).collect();
    if items.is_empty() { Json::Null } else { Json::Array(items) }
}

fn text(value: &(impl ToString + ?Sized)) -> Json {
    Json::String(value.to_string())
}

fn given(value: &str) -> Json {
    if value.is_empty() { Json::Null } else { text(value) }
}

fn nonzero(value: i64) -> Json {
    optional(Some(value).filter(|value| *value != 0))
}

fn optional(value: Option<i64>) -> Json {
    value.map_or(Json::Null, |value| Json::Integer(value.into()))
}

fn optional_ip(value: Option<IpAddr>) -> Json {
    value.map_or(Json::Null, |value| text(&value))
}
