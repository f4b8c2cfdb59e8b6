//! Links, addresses and routes of a namespace, as the kernel reports them.
//!
//! They are read with `rtnetlink`, which shares no code with the plugins under test, in a thread inside the namespace.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use futures_util::stream::{Stream, TryStreamExt};
use netlink_packet_route::AddressFamily;
use netlink_packet_route::address::{AddressAttribute, AddressFlags, AddressMessage};
use netlink_packet_route::link::{InfoBridgePort, InfoPortData, LinkAttribute, LinkFlags, LinkInfo, LinkMessage};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteMetric, RouteNextHop, RouteType,
};
use netlink_packet_route::rule::{RuleAttribute, RuleMessage};
use rtnetlink::{Handle, IpVersion};

use crate::namespace::Namespace;

/// All that a namespace's stack knows of links, addresses and unicast routes.
#[derive(Debug, Clone)]
pub struct Network {
    /// In the order of their indexes.
    pub links: Vec<Link>,
    /// In the kernel's order.
    pub addresses: Vec<Address>,
    /// Those of the main table, in the kernel's order.
    pub routes: Vec<Route>,
    /// Those of all other tables, in the kernel's order.
    pub other_routes: Vec<Route>,
    /// The routing rules about a source address, in the kernel's order.
    pub rules: Vec<String>,
}

/// A network interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// The interface index.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// `veth`, `bridge` and so on; nothing for `lo`.
    pub kind: Option<String>,
    /// The bridge that it is a port of.
    pub controller: Option<String>,
    /// Its largest packet.
    pub mtu: u32,
    /// Whether it was set up.
    pub up: bool,
    /// Whether it was set to promiscuous mode.
    pub promiscuous: bool,
    /// Its hardware address, `aa:bb:…`.
    pub mac: String,
    /// Its alias.
    pub alias: Option<String>,
    /// For a bridge's port: whether packets may leave where they came in.
    pub hairpin: Option<bool>,
    /// For a bridge's port: whether it reaches only ports that are not isolated.
    pub isolated: Option<bool>,
}

/// An address of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// The link's name.
    pub link: String,
    /// The address itself.
    pub ip: IpAddr,
    /// The length of its prefix.
    pub prefix: u8,
    /// The address of all hosts of its network, if it has one.
    pub broadcast: Option<Ipv4Addr>,
    /// Whether duplicate address detection still runs.
    pub tentative: bool,
    /// Whether duplicate address detection was left out.
    pub nodad: bool,
}

/// A unicast route, or one hop of it when it has several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// Destination as CIDR; `0.0.0.0/0` and `::/0` for default routes.
    pub destination: String,
    /// The router, if any.
    pub gateway: Option<IpAddr>,
    /// The outgoing link's name.
    pub link: String,
    /// The preferred source address.
    pub source: Option<IpAddr>,
    /// The metric.
    pub priority: Option<u32>,
    /// The largest packet on this way, if not the link's.
    pub mtu: Option<u32>,
    /// The largest TCP segment to advertise, if not the link's.
    pub advmss: Option<u32>,
    /// The number of its table.
    pub table: u32,
    /// `RT_SCOPE_*`: 0 for the universe, 253 for the link.
    pub scope: u8,
}

impl Network {
    /// Reads the state of a namespace.
    ///
    /// # Panics If the kernel does not answer.
    pub fn observe(namespace: &Namespace) -> Self {
        namespace.run(|| {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_io().build().expect("build an async runtime");
            runtime.block_on(read())
        })
    }

    /// Returns the link of this name.
    pub fn link(&self, name: &str) -> Option<&Link> {
        self.links.iter().find(|link| link.name == name)
    }

    /// Returns the addresses of a link as CIDR, without link-local ones, in the kernel's order.
    pub fn addresses_of(&self, link: &str) -> Vec<String> {
        let of_link = self.addresses.iter().filter(|address| address.link == link && !address.is_link_local());
        of_link.map(|address| format!("{}/{}", address.ip, address.prefix)).collect()
    }
}

impl Address {
    /// Whether the kernel generated this address for the link.
    pub fn is_link_local(&self) -> bool {
        match self.ip {
            IpAddr::V4(_) => false,
            IpAddr::V6(ip) => ip.is_unicast_link_local(),
        }
    }
}

async fn read() -> Network {
    let (connection, handle, _) = rtnetlink::new_connection().expect("open a netlink socket");
    tokio::spawn(connection);
    let mut links: Vec<LinkMessage> = all("links", handle.link().get().execute()).await;
    links.sort_by_key(|message| message.header.index);
    let names: BTreeMap<u32, String> = links.iter().map(|link| (link.header.index, name_of(link))).collect();
    let addresses = all("addresses", handle.address().get().execute()).await;
    let routes = routes(&handle).await;
    let routes = routes.iter().flat_map(|message| route(message, &names));
    let (routes, other_routes) = routes.partition(|route| route.table == u32::from(RouteHeader::RT_TABLE_MAIN));
    Network {
        links: links.iter().map(|message| link(message, &names)).collect(),
        addresses: addresses.iter().map(|message| address(message, &names)).collect(),
        routes,
        other_routes,
        rules: rules(&handle).await,
    }
}

/// The rules about an address; the kernel keeps others of its own.
async fn rules(handle: &Handle) -> Vec<String> {
    let mut rules = Vec::new();
    for version in [IpVersion::V4, IpVersion::V6] {
        rules.extend(all("rules", handle.rule().get(version).execute()).await);
    }
    rules.iter().filter_map(rule).collect()
}

#[expect(clippy::wildcard_enum_match_arm, reason = "a rule has some twenty attributes")]
fn rule(message: &RuleMessage) -> Option<String> {
    let (mut source, mut table, mut priority) = (None, u32::from(message.header.table), 0);
    for attribute in &message.attributes {
        match attribute {
            RuleAttribute::Source(ip) => source = Some(ip),
            RuleAttribute::Table(number) => table = *number,
            RuleAttribute::Priority(number) => priority = *number,
            _ => {}
        }
    }
    source.map(|ip| format!("rule from {ip}/{} lookup {table} priority {priority}", message.header.src_len))
}

async fn all<T>(what: &str, stream: impl Stream<Item = Result<T, rtnetlink::Error>>) -> Vec<T> {
    stream.try_collect().await.unwrap_or_else(|error| panic!("read {what}: {error}"))
}

async fn routes(handle: &Handle) -> Vec<RouteMessage> {
    let mut routes = Vec::new();
    for family in [AddressFamily::Inet, AddressFamily::Inet6] {
        let mut question = RouteMessage::default();
        question.header.address_family = family;
        routes.extend(all("routes", handle.route().get(question).execute()).await);
    }
    routes
}

fn name_of(message: &LinkMessage) -> String {
    for attribute in &message.attributes {
        if let LinkAttribute::IfName(name) = attribute {
            return name.clone();
        }
    }
    panic!("link {} has no name", message.header.index)
}

#[expect(clippy::wildcard_enum_match_arm, reason = "a link has some eighty attributes")]
fn link(message: &LinkMessage, names: &BTreeMap<u32, String>) -> Link {
    let mut link = Link {
        index: message.header.index,
        name: name_of(message),
        kind: None,
        controller: None,
        mtu: 0,
        up: message.header.flags.contains(LinkFlags::Up),
        promiscuous: message.header.flags.contains(LinkFlags::Promisc),
        mac: String::new(),
        alias: None,
        hairpin: None,
        isolated: None,
    };
    for attribute in &message.attributes {
        match attribute {
            LinkAttribute::Mtu(mtu) => link.mtu = *mtu,
            LinkAttribute::Address(bytes) => link.mac = mac_text(bytes),
            LinkAttribute::IfAlias(alias) => link.alias = Some(alias.clone()),
            LinkAttribute::Controller(index) => link.controller = names.get(index).cloned(),
            LinkAttribute::LinkInfo(infos) => read_infos(infos, &mut link),
            _ => {}
        }
    }
    link
}

#[expect(clippy::wildcard_enum_match_arm, reason = "only kind and bridge port settings matter")]
fn read_infos(infos: &[LinkInfo], link: &mut Link) {
    for info in infos {
        match info {
            LinkInfo::Kind(kind) => link.kind = Some(kind.to_string()),
            LinkInfo::PortData(InfoPortData::BridgePort(settings)) => {
                for setting in settings {
                    match setting {
                        InfoBridgePort::HairpinMode(on) => link.hairpin = Some(*on),
                        InfoBridgePort::Isolated(on) => link.isolated = Some(*on),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
}

fn mac_text(bytes: &[u8]) -> String {
    let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    bytes.join(":")
}

#[expect(clippy::wildcard_enum_match_arm, reason = "only the address and its flags matter")]
fn address(message: &AddressMessage, names: &BTreeMap<u32, String>) -> Address {
    let mut ip = None;
    let mut local = None;
    let mut broadcast = None;
    let mut flags = AddressFlags::empty();
    for attribute in &message.attributes {
        match attribute {
            AddressAttribute::Address(address) => ip = Some(*address),
            AddressAttribute::Local(address) => local = Some(*address),
            AddressAttribute::Broadcast(address) => broadcast = Some(*address),
            AddressAttribute::Flags(set) => flags = *set,
            _ => {}
        }
    }
    Address {
        link: names.get(&message.header.index).cloned().unwrap_or_default(),
        ip: local.or(ip).expect("an address message has an address"),
        prefix: message.header.prefix_len,
        broadcast,
        tentative: flags.contains(AddressFlags::Tentative),
        nodad: flags.contains(AddressFlags::Nodad),
    }
}

/// Returns a unicast route, once for each of its hops.
#[expect(clippy::wildcard_enum_match_arm, reason = "a route has some thirty attributes")]
fn route(message: &RouteMessage, names: &BTreeMap<u32, String>) -> Vec<Route> {
    if message.header.kind != RouteType::Unicast {
        return Vec::new();
    }
    let default = if message.header.address_family == AddressFamily::Inet { "0.0.0.0" } else { "::" };
    let length = message.header.destination_prefix_length;
    let mut route = Route {
        destination: format!("{default}/{length}"),
        gateway: None,
        link: String::new(),
        source: None,
        priority: None,
        mtu: None,
        advmss: None,
        table: message.header.table.into(),
        scope: message.header.scope.into(),
    };
    let mut hops = Vec::new();
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Destination(to) => {
                let to = ip_of(to).expect("a route's destination is an address");
                route.destination = format!("{to}/{length}");
            }
            RouteAttribute::Gateway(gateway) => route.gateway = ip_of(gateway),
            RouteAttribute::PrefSource(source) => route.source = ip_of(source),
            RouteAttribute::Oif(index) => route.link = names.get(index).cloned().unwrap_or_default(),
            RouteAttribute::Priority(priority) => route.priority = Some(*priority),
            RouteAttribute::Table(table) => route.table = *table,
            RouteAttribute::Metrics(metrics) => read_metrics(metrics, &mut route),
            RouteAttribute::MultiPath(several) => hops.clone_from(several),
            _ => {}
        }
    }
    if hops.is_empty() { vec![route] } else { hops.iter().map(|hop| over(hop, &route, names)).collect() }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "a route has some twenty metrics")]
fn read_metrics(metrics: &[RouteMetric], route: &mut Route) {
    for metric in metrics {
        match metric {
            RouteMetric::Mtu(mtu) => route.mtu = Some(*mtu),
            RouteMetric::Advmss(advmss) => route.advmss = Some(*advmss),
            _ => {}
        }
    }
}

/// Returns a route over one of its hops.
fn over(hop: &RouteNextHop, route: &Route, names: &BTreeMap<u32, String>) -> Route {
    let mut route = Route { link: names.get(&hop.interface_index).cloned().unwrap_or_default(), ..route.clone() };
    for attribute in &hop.attributes {
        if let RouteAttribute::Gateway(gateway) = attribute {
            route.gateway = ip_of(gateway);
        }
    }
    route
}

#[expect(clippy::wildcard_enum_match_arm, reason = "labels are no addresses")]
fn ip_of(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(ip) => Some(IpAddr::V4(*ip)),
        RouteAddress::Inet6(ip) => Some(IpAddr::V6(*ip)),
        _ => None,
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.kind.as_deref().unwrap_or("-"))?;
        write!(f, " {} mtu {} mac {}", if self.up { "up" } else { "down" }, self.mtu, self.mac)?;
        if let Some(controller) = &self.controller {
            write!(f, " in {controller}")?;
        }
        if let Some(alias) = &self.alias {
            write!(f, " alias {alias:?}")?;
        }
        let flags = [
            ("promiscuous", self.promiscuous),
            ("hairpin", self.hairpin == Some(true)),
            ("isolated", self.isolated == Some(true)),
        ];
        for (word, _) in flags.into_iter().filter(|(_, on)| *on) {
            write!(f, " {word}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.link, self.ip, self.prefix)
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.destination)?;
        if let Some(gateway) = self.gateway {
            write!(f, " via {gateway}")?;
        }
        write!(f, " dev {}", self.link)?;
        if let Some(source) = self.source {
            write!(f, " src {source}")?;
        }
        let main = u32::from(RouteHeader::RT_TABLE_MAIN);
        let numbers = [
            ("metric", self.priority),
            ("mtu", self.mtu),
            ("advmss", self.advmss),
            ("table", Some(self.table).filter(|table| *table != main)),
        ];
        for (word, number) in numbers {
            if let Some(number) = number {
                write!(f, " {word} {number}")?;
            }
        }
        Ok(())
    }
}
