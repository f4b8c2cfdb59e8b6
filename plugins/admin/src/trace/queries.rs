//! Looks for reasons beyond the packet filter: routes, forwarding, and what listens in the container.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use cni_core::family::Family;
use cni_kernel::netlink::{NetlinkError, RouteAnswer, RouteQuestion, Socket};
use cni_kernel::netns::Netns;

use super::case::{ContainerRoute, Listening, Subject, TraceVerdict};
use super::packet::UDP;
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
) -> Result<Option<TraceVerdict>, NetlinkError> {
    let RouteQuestion { to, from, input } = question;
    let number = match host.route_of(question)? {
        RouteAnswer::Refused(number) => number,
        // The kernel finds a route for a packet of IPv6 that it does not forward.
        RouteAnswer::By { .. } if input.is_some() && Family::of(to) == Family::V6 => {
            return Ok(not_forwarding(Family::V6));
        }
        RouteAnswer::By { .. } | RouteAnswer::Local => return Ok(None),
    };
    if let Some(reason) = not_forwarding(Family::of(to)) {
        return Ok(Some(reason));
    }
    if let (libc::EXDEV | libc::EINVAL, Some(from), Some(index)) = (number, from, input)
        && let Some(reason) = wrong_source(host, from, index, names)?
    {
        return Ok(Some(reason));
    }
    Ok(Some(match number {
        libc::ENETUNREACH | libc::EHOSTUNREACH => TraceVerdict::lost(
            format!("dropped since the host has no route to {to}"),
            format!("ip route get {to} shows it; add the route"),
        ),
        other => refused_by_routing(&io::Error::from_raw_os_error(other).to_string()),
    }))
}

fn refused_by_routing(why: &str) -> TraceVerdict {
    TraceVerdict::lost(format!("dropped by the kernel's routing: {why}"), "ip route and ip rule show the routes")
}

/// Why the host does not take a packet from a source by a link. Kernels since 6.14 say only that they do not.
fn wrong_source(
    host: &mut Socket,
    source: IpAddr,
    input: u32,
    names: &HashMap<u32, String>,
) -> Result<Option<TraceVerdict>, NetlinkError> {
    let expected = match host.route_of(RouteQuestion { to: source, from: None, input: None })? {
        RouteAnswer::By { link, .. } if link == input => return Ok(None),
        RouteAnswer::By { link, .. } => names.get(&link),
        RouteAnswer::Local => {
            return Ok(Some(refused_by_routing(&format!("its source {source} is an address of the host"))));
        }
        RouteAnswer::Refused(_) => None,
    };
    let expected = expected.map_or_else(|| "has no route".to_owned(), |link| format!("has a route by {link}"));
    let input = names.get(&input).map_or("all", String::as_str);
    Ok(Some(TraceVerdict::lost(
        format!("dropped by rp_filter: it came by {input}, and to its source the host {expected}"),
        format!("correct the host's route, or sysctl -w net.ipv4.conf.{input}.rp_filter=2"),
    )))
}

/// The reason, if the host forwards no packets of a family.
fn not_forwarding(family: Family) -> Option<TraceVerdict> {
    let (parameter, file) = match family {
        Family::V4 => ("net.ipv4.ip_forward", "/proc/sys/net/ipv4/ip_forward"),
        Family::V6 => ("net.ipv6.conf.all.forwarding", "/proc/sys/net/ipv6/conf/all/forwarding"),
    };
    fs::read_to_string(file).is_ok_and(|text| text.trim() == "0").then(|| {
        TraceVerdict::lost(
            format!("dropped since {parameter} is 0: the host forwards nothing"),
            format!("sysctl -w {parameter}=1, and look in /etc/sysctl.d for who turns it off"),
        )
    })
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
    let read = || socket_files(protocol).map(|file| fs::read_to_string(file).unwrap_or_default()).concat();
    let lines = netns.inside(read).inspect_err(|error| log::warn!("{error}")).ok()?;
    Some(judge_listening(&lines, protocol, address, port))
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

/// `TCP_LISTEN`, and the state of an open socket of UDP, which is `TCP_CLOSE`.
const LISTEN: &str = "0A";
const OPEN: &str = "07";

/// The files that list the sockets of a protocol.
const fn socket_files(protocol: u8) -> [&'static str; 2] {
    match protocol {
        UDP => ["/proc/thread-self/net/udp", "/proc/thread-self/net/udp6"],
        _ => ["/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"],
    }
}

/// Judges the lines of those files (proc(5)). `address` is where packets go.
fn judge_listening(lines: &str, protocol: u8, address: IpAddr, port: u16) -> Listening {
    let state = if protocol == UDP { OPEN } else { LISTEN };
    let mut found = Listening::No;
    for (local, number) in lines.lines().filter_map(|line| local_end(line, state)) {
        if number != port {
            continue;
        }
        let reaches = local == address || local.is_unspecified() && (local.is_ipv6() || address.is_ipv4());
        if reaches {
            return Listening::Yes;
        }
        found = if local.is_loopback() { Listening::OnLoopback } else { Listening::Elsewhere(local) };
    }
    found
}

/// The local end of a socket in a state.
fn local_end(line: &str, state: &str) -> Option<(IpAddr, u16)> {
    let mut fields = line.split_ascii_whitespace().skip(1);
    let (local, _, is) = (fields.next()?, fields.next()?, fields.next()?);
    if is != state {
        return None;
    }
    let (address, port) = local.split_once(':')?;
    Some((parse_address(address)?, u16::from_str_radix(port, 16).ok()?))
}

/// Words of 32 bits in the byte order of the host.
fn parse_address(text: &str) -> Option<IpAddr> {
    let word = |at: usize| Some(u32::from_str_radix(text.get(at..at + 8)?, 16).ok()?.to_ne_bytes());
    match text.len() {
        8 => Some(Ipv4Addr::from(word(0)?).into()),
        32 => {
            let mut bytes = [0; 16];
            for (n, part) in bytes.chunks_exact_mut(4).enumerate() {
                part.copy_from_slice(&word(n * 8)?);
            }
            Some(Ipv6Addr::from(bytes).to_canonical())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::packet::TCP;

    /// A line as the kernel writes it on this machine.
    fn line(address: IpAddr, port: u16, state: &str) -> String {
        let words = |bytes: &[u8]| -> String {
            let word = |part: &[u8]| u32::from_ne_bytes(part.try_into().expect("four bytes"));
            bytes.chunks(4).map(|part| format!("{:08X}", word(part))).collect()
        };
        let text = match address {
            IpAddr::V4(address) => words(&address.octets()),
            IpAddr::V6(address) => words(&address.octets()),
        };
        format!("   0: {text}:{port:04X} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000     0\n")
    }

    #[test]
    fn a_listener_is_judged_by_its_address() {
        let address: IpAddr = "10.0.0.2".parse().expect("an address");
        let judged = |local: &str, state: &str| {
            let lines = format!("  sl  local_address\n{}", line(local.parse().expect("an address"), 80, state));
            judge_listening(&lines, TCP, address, 80)
        };
        assert_eq!(judged("0.0.0.0", LISTEN), Listening::Yes);
        assert_eq!(judged("10.0.0.2", LISTEN), Listening::Yes);
        assert_eq!(judged("::", LISTEN), Listening::Yes);
        assert_eq!(judged("127.0.0.1", LISTEN), Listening::OnLoopback);
        assert_eq!(judged("::1", LISTEN), Listening::OnLoopback);
        assert_eq!(judged("10.0.0.3", LISTEN), Listening::Elsewhere("10.0.0.3".parse().expect("an address")));
        assert_eq!(judged("0.0.0.0", "01"), Listening::No);
        assert_eq!(judge_listening("", TCP, address, 80), Listening::No);
        let udp = line("0.0.0.0".parse().expect("an address"), 80, OPEN);
        assert_eq!(judge_listening(&udp, UDP, address, 80), Listening::Yes);
        assert_eq!(judge_listening(&udp, UDP, address, 81), Listening::No);
    }

    #[test]
    fn lines_of_another_form_are_left_out() {
        for text in ["", "0:", "0: 00:1 2 0A", "0: 000000é0:0050 0 0A", "0: 00000000:zz 0 0A"] {
            assert_eq!(
                judge_listening(text, TCP, "10.0.0.2".parse().expect("an address"), 80),
                Listening::No,
                "{text}"
            );
        }
    }
}
