//! Looks for reasons beyond the packet filter: routes, forwarding, and what listens in the container.

use std::collections::HashMap;
use std::fs;
use std::net::IpAddr;
use std::path::Path;

use cni_core::family::Family;
use cni_kernel::netlink::{NetlinkError, RouteAnswer, RouteQuestion, Socket};
use cni_kernel::netns::Netns;

use super::case::{ContainerRoute, Subject, Unrouted};
use super::listening::{self, Listening};
use crate::inventory::Attached;
use crate::repair::{self, RepairOutcome};

/// The names of the links by their indexes.
///
/// # Errors
/// When the kernel refuses.
pub fn links(host: &mut Socket) -> Result<HashMap<u32, String>, NetlinkError> {
    Ok(host.links()?.into_iter().map(|link| (link.index, link.name)).collect())
}

/// What is known of a container, and what is missing of its rules.
pub fn subject(one: &Attached) -> Subject {
    let cached = &one.cached;
    let outcome = repair::examine(cached, &one.file, &repair::Tools::default());
    let missing = if let RepairOutcome::Missing(parts) = outcome { parts } else { Vec::new() };
    let missing = missing.iter().map(|part| format!("{}: {}", part.plugin, part.missing)).collect();
    Subject {
        container: cached.at.container.to_string(),
        addresses: cached.addresses.clone(),
        has_firewall: cached.has_plugin("firewall"),
        has_masquerade: cached.plugins.iter().any(|plugin| plugin.is_set("ipMasq")),
        missing,
    }
}

/// Why the host did not route a packet; `None` if it would.
///
/// # Errors
/// When the kernel does not answer.
pub fn unrouted(
    host: &mut Socket,
    question: RouteQuestion,
    names: &HashMap<u32, String>,
) -> Result<Option<Unrouted>, NetlinkError> {
    let RouteQuestion { to, from, input } = question;
    let number = match host.route_of(question)? {
        RouteAnswer::Refused(number) => number,
        // The kernel finds a route for a packet of IPv6 that it does not forward.
        RouteAnswer::By { .. } if input.is_some() && Family::of(to) == Family::V6 => {
            return Ok(not_forwarding(Family::V6).map(Unrouted::NotForwarding));
        }
        RouteAnswer::By { .. } | RouteAnswer::Local => return Ok(None),
    };
    if let Some(parameter) = not_forwarding(Family::of(to)) {
        return Ok(Some(Unrouted::NotForwarding(parameter)));
    }
    if let (libc::EXDEV | libc::EINVAL, Some(from), Some(index)) = (number, from, input)
        && let Some(reason) = wrong_source(host, from, index, names)?
    {
        return Ok(Some(reason));
    }
    Ok(Some(match number {
        libc::ENETUNREACH | libc::EHOSTUNREACH => Unrouted::NoRoute(to),
        other => Unrouted::Other(std::io::Error::from_raw_os_error(other).to_string()),
    }))
}

/// Why the host does not take a packet from a source by a link. Kernels since 6.14 say only that they do not.
fn wrong_source(
    host: &mut Socket,
    source: IpAddr,
    input: u32,
    names: &HashMap<u32, String>,
) -> Result<Option<Unrouted>, NetlinkError> {
    let expected = match host.route_of(RouteQuestion { to: source, from: None, input: None })? {
        RouteAnswer::By { link, .. } if link == input => return Ok(None),
        RouteAnswer::By { link, .. } => names.get(&link).cloned(),
        RouteAnswer::Local => {
            return Ok(Some(Unrouted::Other(format!("its source {source} is an address of the host"))));
        }
        RouteAnswer::Refused(_) => None,
    };
    let input = names.get(&input).cloned().unwrap_or_else(|| "all".to_owned());
    Ok(Some(Unrouted::ReversePath { input, expected }))
}

/// The parameter that is 0, if the host forwards no packets of a family.
fn not_forwarding(family: Family) -> Option<&'static str> {
    let (parameter, file) = match family {
        Family::V4 => ("net.ipv4.ip_forward", "/proc/sys/net/ipv4/ip_forward"),
        Family::V6 => ("net.ipv6.conf.all.forwarding", "/proc/sys/net/ipv6/conf/all/forwarding"),
    };
    fs::read_to_string(file).is_ok_and(|text| text.trim() == "0").then_some(parameter)
}

/// The link that has an address.
///
/// # Errors
/// When the kernel does not answer.
pub fn link_with(host: &mut Socket, address: IpAddr) -> Result<Option<u32>, NetlinkError> {
    for link in host.links()?.into_iter().filter(|link| link.master.is_none()) {
        let own = host.addresses(link.index, Some(Family::of(address)))?;
        if own.iter().any(|one| one.cidr.address() == address) {
            return Ok(Some(link.index));
        }
    }
    Ok(None)
}

/// The namespace of a container; `None` if it cannot be entered, with a warning.
pub fn namespace(one: &Attached) -> Option<Netns> {
    let cached = &one.cached;
    let path = cached.reached.as_deref().or(cached.netns.as_deref()).filter(|path| Path::new(path).exists())?;
    Netns::open(path).inspect_err(|error| log::warn!("{error}")).ok()
}

/// What listens on a port in a namespace.
pub fn listening(netns: &Netns, protocol: u8, address: IpAddr, port: u16) -> Option<Listening> {
    let read = || listening::files(protocol).map(|file| fs::read_to_string(file).unwrap_or_default()).concat();
    let lines = netns.inside(read).inspect_err(|error| log::warn!("{error}")).ok()?;
    Some(listening::judge(&lines, protocol, address, port))
}

/// Where a container sends packets to an address.
pub fn container_route(host: &mut Socket, netns: &Netns, one: &Attached, to: IpAddr) -> Option<ContainerRoute> {
    let asked = route(host, netns, to);
    let route = asked.inspect_err(|error| log::warn!("{error}")).ok()?;
    Some(match route {
        // The router may be another machine where the host is none.
        ContainerRoute::Via { gateway, is_host } => {
            let must_be_host =
                one.cached.plugins.iter().any(|plugin| {
                    plugin.kind == "ptp" || plugin.is_set("isGateway") || plugin.is_set("isDefaultGateway")
                });
            ContainerRoute::Via { gateway, is_host: is_host || !must_be_host }
        }
        ContainerRoute::None | ContainerRoute::OnLink | ContainerRoute::Local => route,
    })
}

fn route(host: &mut Socket, netns: &Netns, to: IpAddr) -> Result<ContainerRoute, NetlinkError> {
    let asked = netns.inside(|| Socket::open()?.route_of(RouteQuestion { to, from: None, input: None }));
    let answer = match asked {
        Ok(answer) => answer?,
        Err(error) => {
            log::warn!("failed to enter the container's namespace: {error}");
            return Ok(ContainerRoute::Local);
        }
    };
    Ok(match answer {
        RouteAnswer::Local => ContainerRoute::Local,
        RouteAnswer::Refused(_) => ContainerRoute::None,
        RouteAnswer::By { gateway: None, .. } => ContainerRoute::OnLink,
        RouteAnswer::By { gateway: Some(gateway), .. } => {
            let own = host.addresses(None, Some(Family::of(gateway)))?;
            let is_host = own.iter().any(|address| address.cidr.address() == gateway);
            ContainerRoute::Via { gateway, is_host }
        }
    })
}
