//! Host ports that more than one container asks for: the oldest one has the port, and the others wait for its end.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use cni_core::names::Attachment;
use cni_plugin::namespace::Life;
use serde_json::{Value, json};

use crate::cache::PublishedPort;
use crate::inventory::{Attached, Inventory};

/// A port of the host with the containers that ask for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContestedPort<'a> {
    port: &'a PublishedPort,
    holder: &'a Attachment,
    waiting: Vec<&'a Attachment>,
}

/// The contested ports of the attachments of the cache that may live.
pub fn find(found: &Inventory) -> Vec<ContestedPort<'_>> {
    contested(
        with_portmap(found).flat_map(|Attached { cached, .. }| cached.ports.iter().map(|port| (&cached.at, port))),
    )
}

/// The attachments of the cache that may live, and whose ports portmap publishes.
pub fn with_portmap(found: &Inventory) -> impl Iterator<Item = &Attached> {
    let living = found.attached.iter().filter(|one| one.life != Life::Dead);
    living.filter(|one| one.cached.plugins.iter().any(|plugin| plugin.kind == "portmap"))
}

/// The container that has a port for which another one waits.
pub fn holder<'a>(found: &'a Inventory, waiting: &Attachment, port: &PublishedPort) -> Option<&'a Attachment> {
    find(found).into_iter().find(|one| one.waiting.contains(&waiting) && overlap(one.port, port)).map(|one| one.holder)
}

/// The oldest comes first.
fn contested<'a>(mappings: impl Iterator<Item = (&'a Attachment, &'a PublishedPort)>) -> Vec<ContestedPort<'a>> {
    let mut ports: Vec<ContestedPort<'a>> = Vec::new();
    let mut by_number: BTreeMap<u16, Vec<usize>> = BTreeMap::new();
    for (at, port) in mappings {
        let same = by_number.entry(port.host_port).or_default();
        match same.iter().copied().find(|place| overlap(ports[*place].port, port)) {
            Some(place) => {
                let one = &mut ports[place];
                if one.holder.container != at.container && !one.waiting.contains(&at) {
                    one.waiting.push(at);
                }
            }
            None => {
                same.push(ports.len());
                ports.push(ContestedPort { port, holder: at, waiting: Vec::new() });
            }
        }
    }
    ports.retain(|one| !one.waiting.is_empty());
    ports
}

fn overlap(one: &PublishedPort, other: &PublishedPort) -> bool {
    one.host_port == other.host_port
        && protocol(one) == protocol(other)
        && (covers(&one.host_ip, &other.host_ip) || covers(&other.host_ip, &one.host_ip))
}

/// The protocol, which is TCP unless the runtime says otherwise.
pub fn protocol(port: &PublishedPort) -> String {
    if port.protocol.is_empty() { "tcp".to_owned() } else { port.protocol.to_lowercase() }
}

/// Whether a mapping of one address of the host takes the packets to another one.
fn covers(one: &str, other: &str) -> bool {
    let (Ok(one), other) = (one.parse::<IpAddr>(), other.parse::<IpAddr>()) else { return one.is_empty() };
    other.is_ok_and(|other| one == other || one.is_unspecified() && one.is_ipv4() == other.is_ipv4())
}

impl ContestedPort<'_> {
    /// Whether a container waits for the port.
    pub fn waits(&self, container: &str) -> bool {
        self.waiting.iter().any(|at| at.container.as_str() == container)
    }

    /// For programs.
    pub fn json(&self) -> Value {
        let named = |at: &Attachment| json!({"network": at.network.as_str(), "container": at.container.as_str()});
        json!({
            "hostPort": self.port.host_port,
            "protocol": protocol(self.port),
            "holder": named(self.holder),
            "waiting": self.waiting.iter().map(|at| named(at)).collect::<Vec<_>>(),
        })
    }
}

impl fmt::Display for ContestedPort<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waiting: Vec<&str> = self.waiting.iter().map(|at| at.container.as_str()).collect();
        let verb = if waiting.len() == 1 { "waits" } else { "wait" };
        write!(
            f,
            "host port {}/{}: container {} has it, and {} {verb} for it",
            self.port.host_port,
            protocol(self.port),
            self.holder.container,
            waiting.join(", ")
        )
    }
}

#[cfg(test)]
mod tests {
    use cni_core::names::{ContainerId, IfName, NetworkName};

    use super::*;

    fn at(container: &str) -> Attachment {
        Attachment {
            network: NetworkName::parse("net").expect("a network"),
            container: ContainerId::parse(container).expect("a container"),
            ifname: IfName::parse("eth0").expect("a name"),
        }
    }

    fn port(host_port: u16, protocol: &str, host_ip: &str) -> PublishedPort {
        PublishedPort { host_port, container_port: 80, protocol: protocol.to_owned(), host_ip: host_ip.to_owned() }
    }

    #[test]
    fn the_oldest_has_the_port_and_the_others_wait() {
        let (first, second, third) = (at("web1"), at("web2"), at("web3"));
        let port = port(8080, "TCP", "");
        let found = contested([(&first, &port), (&second, &port), (&third, &port)].into_iter());
        let lines: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(lines, ["host port 8080/tcp: container web1 has it, and web2, web3 wait for it"]);
        let alone = contested([(&first, &port), (&first, &port)].into_iter());
        assert_eq!(alone, [], "two interfaces of one container");
    }

    #[test]
    fn ports_overlap_by_number_protocol_and_address() {
        for (one, other, is_contested) in [
            (port(80, "tcp", ""), port(80, "", ""), true),
            (port(80, "tcp", ""), port(80, "udp", ""), false),
            (port(80, "tcp", ""), port(81, "tcp", ""), false),
            (port(80, "tcp", ""), port(80, "tcp", "192.0.2.1"), true),
            (port(80, "tcp", "192.0.2.1"), port(80, "tcp", "0.0.0.0"), true),
            (port(80, "tcp", "192.0.2.1"), port(80, "tcp", "::"), false),
            (port(80, "tcp", "192.0.2.1"), port(80, "tcp", "192.0.2.2"), false),
        ] {
            assert_eq!(overlap(&one, &other), is_contested, "{one:?} {other:?}");
        }
    }
}
