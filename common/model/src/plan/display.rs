//! Plans as text: a line for each step, in the notation of the programs `ip`, `bridge` and `sysctl`.

use std::fmt::{self, Display, Formatter};

use cni_core::cidr::Cidr;
use cni_core::family::Family;
use cni_core::names::IfName;

use super::{
    BridgePort, Dad, LinkKind, LinkMove, LinkSetting, NewGateway, NewLink, NewRoute, Plan, Sharing, Step, Until,
};
use crate::traffic::Shaper;
use crate::vlan::VlanLink;

impl Display for Plan {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.steps().iter().try_for_each(|(sharing, step)| {
            let class = match sharing {
                Sharing::Owned => "owned",
                Sharing::Within => "within",
                Sharing::Shared => "shared",
            };
            writeln!(f, "{class:<6} {step}")
        })
    }
}

impl Display for Step {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::CreateLink { ns, link } => write!(f, "{ns}: link add {link}"),
            Self::RemoveLink { ns, name } => write!(f, "{ns}: link del {name}"),
            Self::RemoveLinkByIndex { ns, index } => write!(f, "{ns}: link del index {index}"),
            Self::RemoveNumberedLink { number, index } => write!(f, "nsid {number}: link del index {index}"),
            Self::SetLink { ns, name, setting: LinkSetting::Port(port) } => {
                write!(f, "{ns}: bridge link set {name} {port}")
            }
            Self::SetLink { ns, name, setting } => write!(f, "{ns}: link set {name} {setting}"),
            Self::MoveLink(LinkMove { from, index: _, name, to, new_name, alias }) => {
                write!(f, "{from}: link set {name} netns {to} name {new_name} alias {alias:?}")
            }
            Self::SetPortVlans { ns, name, vlans } => write!(f, "{ns}: bridge vlan set {name} {vlans}"),
            Self::EnsureVlanLink(VlanLink { name, port, bridge, vlans, mac: _, port_mac: _ }) => {
                write!(f, "host: ensure {name} with peer {port} in {bridge} vlan {vlans}")
            }
            Self::AddAddress { ns, name, cidr, dad, if_present: _ } => {
                let nodad = if *dad == Dad::Skip && cidr.family() == Family::V6 { " nodad" } else { "" };
                write!(f, "{ns}: addr add {cidr} dev {name}{nodad}")
            }
            Self::EnsureGateway(NewGateway { link, cidr, .. }) => {
                let nodad = if cidr.family() == Family::V6 { " nodad" } else { "" };
                write!(f, "host: addr add {cidr} dev {link}{nodad}")
            }
            Self::RemoveAddress { ns, name, cidr } => write!(f, "{ns}: addr del {cidr} dev {name}"),
            Self::AddRoute { ns, name, route } => write!(f, "{ns}: route add {}", OnLink(route, name)),
            Self::RemoveRoute { ns, name, route } => write!(f, "{ns}: route del {}", OnLink(route, name)),
            Self::RemoveConnectedRoute { ns, name, dst } => write!(f, "{ns}: route del {dst} dev {name} proto kernel"),
            Self::AddFullRoute { ns, route } | Self::RestoreRoute { ns, route } => {
                write!(f, "{ns}: route append {route}")
            }
            Self::RemoveFullRoute { ns, route } => write!(f, "{ns}: route del {route}"),
            Self::AddRule { ns, rule } => write!(f, "{ns}: rule add {rule}"),
            Self::RemoveRule { ns, rule } => write!(f, "{ns}: rule del {rule}"),
            Self::SetShaper { ns, name, shaper: Shaper { rate, limit, buffer } } => {
                write!(f, "{ns}: qdisc replace dev {name} root tbf rate {rate}bps limit {limit} buffer {buffer}")
            }
            Self::RemoveShaper { ns, name } => write!(f, "{ns}: qdisc del dev {name} root"),
            Self::AddRedirect { ns, name, to, rank } => {
                write!(f, "{ns}: filter add dev {name} ingress{rank} redirect dev {to}")
            }
            Self::RemoveRedirect { ns, name, to } => {
                write!(f, "{ns}: filter del dev {name} ingress redirect dev {to}")
            }
            Self::Await { ns, name, until: Until::AddressesSettled } => write!(f, "{ns}: settle addresses of {name}"),
            Self::Await { ns, name, until: Until::Local(addresses) } => {
                write!(f, "{ns}: await local addresses of {name}")?;
                addresses.iter().try_for_each(|address| write!(f, " {address}"))
            }
            Self::Await { ns, name, until: Until::PeerGone } => {
                write!(f, "{ns}: await the end of what {name} leads to")
            }
            Self::Await { until: Until::Moment, .. } => write!(f, "host: wait a moment"),
            Self::Await { ns, name, until: Until::Up } => write!(f, "{ns}: await {name} up"),
            Self::SetSysctl { ns, key, value, need: _ } => write!(f, "{ns}: sysctl {}={value}", key.path()),
            Self::EnsureRules { ns, ruleset } => write!(f, "{ns}: {ruleset}"),
            Self::RemoveRules { ns, removal } => write!(f, "{ns}: {removal}"),
            Self::UndoRules { ns, undo } => write!(f, "{ns}: {undo}"),
            Self::ForgetFlows(stale) => write!(f, "host: {stale}"),
            Self::AddSource { zone, address } => {
                write!(f, "host: firewalld add source {} to zone {zone}", Cidr::host(*address))
            }
            Self::RemoveSource { zone, address } => {
                write!(f, "host: firewalld remove source {} from zone {zone}", Cidr::host(*address))
            }
            Self::Record { at, namespace, parts } => {
                write!(f, "host: record {} {} {}", at.network, at.container, at.ifname)?;
                namespace.iter().try_for_each(|namespace| write!(f, " in {namespace}"))?;
                parts.iter().try_for_each(|(part, text)| match text {
                    Some(text) => write!(f, ", {part} {text:?}"),
                    None => write!(f, ", no {part}"),
                })
            }
            Self::WriteStateFile { file, text } => write!(f, "host: write {file} {text:?}"),
            Self::RemoveStateFile { file, directories: _ } => write!(f, "host: rm {file}"),
            Self::TellDaemon(call) => write!(f, "host: {call}"),
        }
    }
}

/// A new link without its address, which is usually random.
impl Display for NewLink {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { name, mac: _, mtu, if_present: _, kind } = self;
        write!(f, "{name} type ")?;
        match kind {
            LinkKind::Veth { peer } => write!(f, "veth peer {} on {}", peer.name, peer.ns)?,
            LinkKind::Vrf { table } => write!(f, "vrf table {table}")?,
            LinkKind::Child { master, kind } => write!(f, "{kind} of {} on {}", master.name, master.ns)?,
            LinkKind::Tap { tap, label, headers, alias } => {
                write!(f, "{tap}{headers}")?;
                label.as_ref().map_or(Ok(()), |label| write!(f, " labelled {label}"))?;
                alias.as_ref().map_or(Ok(()), |alias| write!(f, " alias {alias:?}"))?;
            }
            LinkKind::Bridge { .. } | LinkKind::Dummy | LinkKind::Ifb => f.write_str(kind.name())?,
        }
        mtu.map_or(Ok(()), |mtu| write!(f, " mtu {mtu}"))?;
        if *kind == (LinkKind::Bridge { vlan_filtering: true }) { f.write_str(" vlan_filtering 1") } else { Ok(()) }
    }
}

impl Display for LinkSetting {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Up => f.write_str("up"),
            Self::Down => f.write_str("down"),
            Self::Mac(mac) => write!(f, "address {mac}"),
            Self::Mtu(mtu) => write!(f, "mtu {mtu}"),
            Self::Alias(text) => write!(f, "alias {text:?}"),
            Self::Promisc(on) => write!(f, "promisc {}", switch(*on)),
            Self::AllMulticast(on) => write!(f, "allmulticast {}", switch(*on)),
            Self::TxQueueLength(packets) => write!(f, "txqueuelen {packets}"),
            Self::Master(name) => write!(f, "master {name}"),
            Self::NoMaster => f.write_str("nomaster"),
            Self::Port(port) => port.fmt(f),
        }
    }
}

impl Display for BridgePort {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "hairpin {} isolated {}", switch(self.hairpin), switch(self.isolated))
    }
}

const fn switch(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

/// A route with the link that it leaves by.
struct OnLink<'a>(&'a NewRoute, &'a IfName);

impl Display for OnLink<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self(NewRoute { dst, gw, source, table, priority, scope, mtu, advmss, onlink }, name) = self;
        write!(f, "{dst}")?;
        gw.map_or(Ok(()), |gw| write!(f, " via {gw}"))?;
        write!(f, " dev {name}")?;
        source.map_or(Ok(()), |source| write!(f, " src {source}"))?;
        table.map_or(Ok(()), |table| write!(f, " table {table}"))?;
        priority.map_or(Ok(()), |metric| write!(f, " metric {metric}"))?;
        scope.map_or(Ok(()), |scope| write!(f, " scope {scope}"))?;
        mtu.map_or(Ok(()), |mtu| write!(f, " mtu {mtu}"))?;
        advmss.map_or(Ok(()), |advmss| write!(f, " advmss {advmss}"))?;
        if *onlink { f.write_str(" onlink") } else { Ok(()) }
    }
}
