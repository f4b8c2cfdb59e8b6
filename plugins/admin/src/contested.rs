//! Host ports that more than one container asks for: the oldest one has the port, and the others wait until it is deleted, even after its
//! death.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use cni_core::names::Attachment;
use cni_plugin::namespace::Life;
use serde_json::{Value, json};

use crate::cache::PublishedPort;
use crate::inventory::{Attached, Inventory};
use crate::life::PortOrder;

/// A port of the host with the containers that ask for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContestedPort<'a> {
    port: &'a PublishedPort,
    /// The container that has the port.
    pub holder: &'a Attachment,
    /// Whether a dead container keeps it from the others.
    pub holder_is_dead: bool,
    waiting: Vec<&'a Attachment>,
}

/// An attachment that asks for a port.
#[derive(Clone, Copy, Debug)]
struct Claim<'a> {
    at: &'a Attachment,
    port: &'a PublishedPort,
    is_dead: bool,
}

/// The contested ports of the attachments of the cache.
pub fn find(found: &Inventory) -> Vec<ContestedPort<'_>> {
    let claims = found.attached.iter().flat_map(|Attached { cached, life, .. }| {
        cached.published().map(|port| Claim { at: &cached.at, port, is_dead: *life == Life::Dead })
    });
    contested(claims, &found.port_order)
}

/// How many ports are contested, whatever the addresses.
pub fn count(found: &Inventory) -> usize {
    find(found).iter().map(|one| (one.port.host_port, protocol(one.port))).collect::<BTreeSet<_>>().len()
}

/// The port for which an attachment waits.
pub fn waited_for<'a>(found: &'a Inventory, waiting: &Attachment, port: &PublishedPort) -> Option<ContestedPort<'a>> {
    find(found).into_iter().find(|one| one.waiting.contains(&waiting) && overlap(one.port, port))
}

/// The protocol, which is TCP unless the runtime says otherwise.
pub fn protocol(port: &PublishedPort) -> String {
    if port.protocol.is_empty() { "tcp".to_owned() } else { port.protocol.to_lowercase() }
}

/// The attachments that ask for a port come in the order of its record. If one that may live is not recorded, they come in the order in
/// which they were made, and the dead ones do not count.
fn contested<'a>(claims: impl Iterator<Item = Claim<'a>>, order: &PortOrder) -> Vec<ContestedPort<'a>> {
    let mut by_port: BTreeMap<(u16, String), Vec<Claim<'a>>> = BTreeMap::new();
    claims.for_each(|claim| by_port.entry((claim.port.host_port, protocol(claim.port))).or_default().push(claim));
    let mut ports: Vec<ContestedPort<'a>> = Vec::new();
    for ((number, _), mut claims) in by_port {
        let order = order.get(&number).map(Vec::as_slice).unwrap_or_default();
        let place = |claim: &Claim<'_>| order.iter().position(|at| at == claim.at);
        if claims.iter().all(|claim| claim.is_dead || place(claim).is_some()) {
            claims.retain(|claim| place(claim).is_some());
            claims.sort_by_cached_key(place);
        } else {
            claims.retain(|claim| !claim.is_dead);
        }
        let mut found: Vec<ContestedPort<'a>> = Vec::new();
        for Claim { at, port, is_dead } in claims {
            for one in found.iter_mut().filter(|one| overlap(one.port, port)) {
                if !is_dead && one.holder.container != at.container && !one.waiting.contains(&at) {
                    one.waiting.push(at);
                }
            }
            // It has the addresses for which nobody before it has asked.
            if !found.iter().any(|one| covers(&one.port.host_ip, &port.host_ip)) {
                found.push(ContestedPort { port, holder: at, holder_is_dead: is_dead, waiting: Vec::new() });
            }
        }
        ports.extend(found.into_iter().filter(|one| !one.waiting.is_empty()));
    }
    ports
}

fn overlap(one: &PublishedPort, other: &PublishedPort) -> bool {
    one.host_port == other.host_port
        && protocol(one) == protocol(other)
        && (covers(&one.host_ip, &other.host_ip) || covers(&other.host_ip, &one.host_ip))
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

    /// How the first of those that wait gets the port.
    pub const fn cure(&self) -> &'static str {
        if self.holder_is_dead {
            "cni-plugins gc --remove"
        } else {
            "it gets the port when the other container is deleted; publish another port if both are to be reached"
        }
    }

    /// For programs.
    pub fn json(&self) -> Value {
        let named = |at: &Attachment| json!({"network": at.network.as_str(), "container": at.container.as_str()});
        json!({
            "hostIP": self.port.host_ip,
            "hostPort": self.port.host_port,
            "protocol": protocol(self.port),
            "holder": named(self.holder),
            "holderIsDead": self.holder_is_dead,
            "waiting": self.waiting.iter().map(|at| named(at)).collect::<Vec<_>>(),
        })
    }
}

impl fmt::Display for ContestedPort<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waiting: Vec<&str> = self.waiting.iter().map(|at| at.container.as_str()).collect();
        let verb = if waiting.len() == 1 { "waits" } else { "wait" };
        let dead = if self.holder_is_dead { ", which is dead," } else { "" };
        let address = match self.port.host_ip.parse() {
            Ok(IpAddr::V6(address)) => format!("[{address}]:"),
            Ok(IpAddr::V4(address)) => format!("{address}:"),
            Err(_) => String::new(),
        };
        write!(
            f,
            "host port {address}{}/{}: container {}{dead} has it, and {} {verb} for it",
            self.port.host_port,
            protocol(self.port),
            self.holder.container,
            waiting.join(", ")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(container: &str) -> Attachment {
        cni_plugin::ledger::parse_attachment(&mut ["net", container, "eth0"].into_iter()).expect("an attachment")
    }

    fn port(host_port: u16, protocol: &str, host_ip: &str) -> PublishedPort {
        PublishedPort { host_port, container_port: 80, protocol: protocol.to_owned(), host_ip: host_ip.to_owned() }
    }

    #[test]
    fn the_oldest_has_the_port_and_the_others_wait() {
        let (first, second, third) = (at("web1"), at("web2"), at("web3"));
        let port = port(8080, "TCP", "");
        assert_eq!(
            lines(&[(&first, &port), (&second, &port), (&third, &port)], &[], &[]),
            ["host port 8080/tcp: container web1 has it, and web2, web3 wait for it"]
        );
        assert_eq!(lines(&[(&first, &port), (&first, &port)], &[], &[]), [""; 0], "two interfaces of one container");
    }

    /// What is said of some claims of port 8080.
    fn lines(claims: &[(&Attachment, &PublishedPort)], recorded: &[&Attachment], dead: &[&Attachment]) -> Vec<String> {
        let order = PortOrder::from([(8080, recorded.iter().map(|at| (*at).clone()).collect())]);
        let claims = claims.iter().map(|(at, port)| Claim { at, port, is_dead: dead.contains(at) });
        contested(claims, &order).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_is_recorded_decides_where_all_are_recorded() {
        let (first, second, third) = (at("web1"), at("web2"), at("web3"));
        let port = port(8080, "tcp", "");
        let claims = [(&first, &port), (&second, &port), (&third, &port)];
        let line = |text: &str| vec![format!("host port 8080/tcp: container {text}")];
        for (recorded, dead, want) in [
            (vec![&second, &first, &third], vec![], "web2 has it, and web1, web3 wait for it"),
            (vec![&second, &first], vec![], "web1 has it, and web2, web3 wait for it"),
            (vec![&first, &second, &third], vec![&first], "web1, which is dead, has it, and web2, web3 wait for it"),
            (vec![&second, &third], vec![&first], "web2 has it, and web3 waits for it"),
            (vec![&second, &first, &third], vec![&first], "web2 has it, and web3 waits for it"),
            (vec![&third], vec![&first], "web2 has it, and web3 waits for it"),
        ] {
            assert_eq!(lines(&claims, &recorded, &dead), line(want), "{recorded:?}, dead: {dead:?}");
        }
        assert_eq!(lines(&claims[..2], &[&first, &second], &[&second]), [""; 0], "only the dead one waits");
    }

    #[test]
    fn one_that_asks_for_all_addresses_waits_for_those_of_each() {
        let (first, second, all) = (at("web1"), at("web2"), at("web3"));
        let [of_first, of_second] = ["192.0.2.1", "192.0.2.2"].map(|address| port(8080, "tcp", address));
        let of_all = port(8080, "tcp", "");
        let claims = [(&first, &of_first), (&second, &of_second), (&all, &of_all)];
        let line = |port: &str, text: &str| format!("host port {port}/tcp: container {text} for it");
        let of_first_line = line("192.0.2.1:8080", "web1 has it, and web3 waits");
        let want = [of_first_line.clone(), line("192.0.2.2:8080", "web2 has it, and web3 waits")];
        assert_eq!(lines(&claims, &[], &[]), want);
        let claims = [(&first, &of_first), (&all, &of_all), (&second, &of_second)];
        assert_eq!(lines(&claims, &[], &[]), [of_first_line, line("8080", "web3 has it, and web2 waits")]);
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
