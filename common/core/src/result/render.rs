//! Prints results with the structure, key order and escapes of the reference, for every version.

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::ser::PrettyFormatter;

use super::{CniResult, Dns, Interface, IpConfig, ResultError, Route, Shape};
use crate::family::Family;
use crate::version::Version;

impl CniResult {
    /// Prints the result in the shape of `version`: indented by four blanks, no newline at the end.
    ///
    /// # Errors
    /// [`ResultError::NoAddress`] for a result without addresses in a version up to 0.2.0, which cannot express that.
    pub fn render(&self, version: Version) -> Result<String, ResultError> {
        Ok(match Shape::of(version) {
            Shape::Ancient => to_text(&self.ancient(version)?),
            Shape::Legacy => to_text(&self.legacy(version)),
            Shape::Modern => to_text(&self.modern(version)),
        })
    }

    fn ancient(&self, version: Version) -> Result<RenderedResult010<'_>, ResultError> {
        let [ip4, ip6] = Family::ALL.map(|family| self.ancient_ip(family));
        if ip4.is_none() && ip6.is_none() {
            return Err(ResultError::NoAddress { version });
        }
        Ok(RenderedResult010 { version, ip4, ip6, dns: LegacyDns(&self.dns) })
    }

    /// These versions hold one address of each family, and of a route only its destination and gateway.
    fn ancient_ip(&self, family: Family) -> Option<RenderedIp010> {
        let ip = self.ips.iter().find(|ip| ip.address.family() == family)?;
        let routes = self.routes.iter().filter(|route| route.family() == family);
        Some(RenderedIp010 {
            ip: ip.address.to_string(),
            gateway: ip.gateway.map(|gateway| gateway.to_string()),
            routes: routes
                .map(|route| RenderedRoute010 { dst: route.dst.to_string(), gw: route.gw.map(|gw| gw.to_string()) })
                .collect(),
        })
    }

    fn legacy(&self, version: Version) -> RenderedResult030<'_> {
        RenderedResult030 {
            version,
            interfaces: self.interfaces.iter().map(LegacyInterface).collect(),
            ips: self.ips.iter().map(LegacyIp).collect(),
            routes: self.routes.iter().map(LegacyRoute).collect(),
            dns: LegacyDns(&self.dns),
        }
    }

    fn modern(&self, version: Version) -> RenderedResult100<'_> {
        RenderedResult100 {
            version,
            dns: Some(ModernDns(&self.dns)).filter(|dns| !dns.is_empty()),
            interfaces: self.interfaces.iter().map(ModernInterface).collect(),
            ips: self.ips.iter().map(ModernIp).collect(),
            routes: self.routes.iter().map(ModernRoute).collect(),
        }
    }
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

#[derive(Serialize)]
struct RenderedResult010<'a> {
    #[serde(rename = "cniVersion", serialize_with = "version_text")]
    version: Version,
    #[serde(skip_serializing_if = "Option::is_none")]
    ip4: Option<RenderedIp010>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ip6: Option<RenderedIp010>,
    dns: LegacyDns<'a>,
}

#[derive(Serialize)]
struct RenderedIp010 {
    ip: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    gateway: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    routes: Vec<RenderedRoute010>,
}

#[derive(Serialize)]
struct RenderedRoute010 {
    dst: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    gw: Option<String>,
}

#[derive(Serialize)]
struct RenderedResult030<'a> {
    #[serde(rename = "cniVersion", serialize_with = "version_text")]
    version: Version,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    interfaces: Vec<LegacyInterface<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ips: Vec<LegacyIp<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    routes: Vec<LegacyRoute<'a>>,
    dns: LegacyDns<'a>,
}

/// Keys are in alphabetical order at every level.
#[derive(Serialize)]
struct RenderedResult100<'a> {
    #[serde(rename = "cniVersion", serialize_with = "version_text")]
    version: Version,
    #[serde(skip_serializing_if = "Option::is_none")]
    dns: Option<ModernDns<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    interfaces: Vec<ModernInterface<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ips: Vec<ModernIp<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    routes: Vec<ModernRoute<'a>>,
}

fn version_text<S: Serializer>(version: &Version, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(version.as_str())
}

/// An object without its empty members.
struct NonEmptyMembers<M>(M);

impl<M: SerializeMap> NonEmptyMembers<M> {
    fn text(&mut self, key: &'static str, value: &str) -> Result<(), M::Error> {
        if value.is_empty() { Ok(()) } else { self.0.serialize_entry(key, value) }
    }

    fn number(&mut self, key: &'static str, value: i64) -> Result<(), M::Error> {
        if value == 0 { Ok(()) } else { self.0.serialize_entry(key, &value) }
    }

    fn some(&mut self, key: &'static str, value: Option<impl ToString>) -> Result<(), M::Error> {
        value.map_or(Ok(()), |value| self.0.serialize_entry(key, &value.to_string()))
    }

    fn index(&mut self, key: &'static str, value: Option<i64>) -> Result<(), M::Error> {
        value.map_or(Ok(()), |value| self.0.serialize_entry(key, &value))
    }

    fn list(&mut self, key: &'static str, value: Option<&Vec<String>>) -> Result<(), M::Error> {
        value.filter(|list| !list.is_empty()).map_or(Ok(()), |list| self.0.serialize_entry(key, list))
    }
}

macro_rules! object {
    ($name:ident($inner:ty) |$value:ident, $members:ident| $body:block) => {
        struct $name<'a>(&'a $inner);

        impl Serialize for $name<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let $value = self.0;
                let mut $members = NonEmptyMembers(serializer.serialize_map(None)?);
                $body
                $members.0.end()
            }
        }
    };
}

object!(
    LegacyInterface(Interface) | interface,
    members | {
        members.0.serialize_entry("name", &interface.name)?;
        members.text("mac", &interface.mac)?;
        members.text("sandbox", &interface.sandbox)?;
    }
);

object!(
    ModernInterface(Interface) | interface,
    members | {
        members.text("mac", &interface.mac)?;
        members.number("mtu", interface.mtu)?;
        members.0.serialize_entry("name", &interface.name)?;
        members.text("pciID", &interface.pci_id)?;
        members.text("sandbox", &interface.sandbox)?;
        members.text("socketPath", &interface.socket_path)?;
    }
);

object!(
    LegacyIp(IpConfig) | ip,
    members | {
        members.0.serialize_entry("version", ip.address.family().digit())?;
        members.index("interface", ip.interface)?;
        members.0.serialize_entry("address", &ip.address)?;
        members.some("gateway", ip.gateway)?;
    }
);

object!(
    ModernIp(IpConfig) | ip,
    members | {
        members.0.serialize_entry("address", &ip.address)?;
        members.some("gateway", ip.gateway)?;
        members.index("interface", ip.interface)?;
    }
);

object!(
    LegacyRoute(Route) | route,
    members | {
        members.0.serialize_entry("dst", &route.dst)?;
        members.some("gw", route.gw)?;
        members.number("mtu", route.mtu)?;
        members.number("advmss", route.advmss)?;
        members.number("priority", route.priority)?;
        members.index("table", route.table)?;
        members.index("scope", route.scope)?;
    }
);

object!(
    ModernRoute(Route) | route,
    members | {
        members.number("advmss", route.advmss)?;
        members.0.serialize_entry("dst", &route.dst)?;
        members.some("gw", route.gw)?;
        members.number("mtu", route.mtu)?;
        members.number("priority", route.priority)?;
        members.index("scope", route.scope)?;
        members.index("table", route.table)?;
    }
);

object!(
    LegacyDns(Dns) | dns,
    members | {
        members.list("nameservers", dns.nameservers.as_ref())?;
        members.text("domain", &dns.domain)?;
        members.list("search", dns.search.as_ref())?;
        members.list("options", dns.options.as_ref())?;
    }
);

object!(
    ModernDns(Dns) | dns,
    members | {
        members.text("domain", &dns.domain)?;
        members.list("nameservers", dns.nameservers.as_ref())?;
        members.list("options", dns.options.as_ref())?;
        members.list("search", dns.search.as_ref())?;
    }
);

impl ModernDns<'_> {
    fn is_empty(&self) -> bool {
        let Dns { nameservers, domain, search, options } = self.0;
        let lists = [nameservers, search, options];
        domain.is_empty() && lists.iter().all(|list| list.as_ref().is_none_or(Vec::is_empty))
    }
}
