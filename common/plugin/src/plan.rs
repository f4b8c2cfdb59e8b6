//! What a plugin wants done, as data: steps, in order, each with its class of sharing.
//!
//! Plans are made without touching anything and read like the commands an administrator would type. The
//! effect layer carries a [`Step`] out; the [`Journal`](crate::journal::Journal) takes owned steps back.

use std::fmt;
use std::net::IpAddr;

use crate::keeper::Keeper;
use crate::vlan::{PortVlans, VlanLink};
use cni_core::cidr::Cidr;
use cni_core::family::Family;
use cni_core::mac::Mac;
use cni_core::names::{Attachment, IfName};
use cni_core::result::Route;
use cni_netfilter::firewalld::Zone;
use cni_netfilter::flows::StaleFlows;
use cni_netfilter::iptables::{IptablesRemoval, IptablesRuleset};
use cni_netfilter::nftables;

/// One of the two network namespaces that a plugin works in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ns {
    /// The namespace that the plugin was started in.
    Host,
    /// The namespace of the container, `CNI_NETNS`.
    Container,
}

/// To whom the object of a step belongs, which decides what happens to it when a later step fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// The attachment's alone: undone.
    Owned,
    /// Part of an owned object, with which it goes.
    Within,
    /// Everybody's: ensured, never undone. SPEC "Lifecycle & Ordering" lets runtimes add different
    /// containers to a network in parallel.
    Shared,
}

/// A kernel parameter, by the components of its path below `/proc/sys`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sysctl(Vec<String>);

impl Sysctl {
    /// A parameter whose name is part of the program.
    pub fn fixed(path: &[&str]) -> Self {
        Self(path.iter().map(|part| (*part).to_owned()).collect())
    }

    /// A parameter of one interface in `net/<family>/conf`. Names with dots are no problem here.
    pub fn interface(family: Family, name: &IfName, parameter: &str) -> Self {
        Self::fixed(&["net", family.word(), "conf", name.as_str(), parameter])
    }

    /// Whether the host forwards packets of a family.
    pub fn forwarding(family: Family) -> Self {
        Self::fixed(family.forwarding_key())
    }

    /// The path below `/proc/sys`.
    pub fn path(&self) -> String {
        self.0.join("/")
    }
}

/// What to do when a kernel parameter cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// The step fails.
    Required,
    /// The plan goes on; the log says so. For parameters that only some kernels have.
    Wanted,
}

/// Whether the kernel looks for another user of an IPv6 address first: RFC 4862 section 5.4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dad {
    /// The address may be used at once; IPAM guarantees that it is unique.
    Skip,
    /// The address is tentative for about a second.
    Perform,
}

/// One change.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Creates a bridge unless a link of this name exists.
    CreateBridge {
        /// Name.
        name: IfName,
        /// MTU in bytes, if not the kernel's default.
        mtu: Option<u32>,
        /// Its address, so that it does not change with its ports.
        mac: Mac,
        /// Whether ports are separated by VLAN.
        vlan_filtering: bool,
    },
    /// Creates a veth pair, each end in its namespace; fails if either name is taken.
    CreateVeth {
        /// Name in the container.
        container: IfName,
        /// Address of the container's end.
        container_mac: Mac,
        /// Name on the host.
        host: IfName,
        /// Address of the host's end.
        host_mac: Mac,
        /// MTU of both ends in bytes.
        mtu: Option<u32>,
    },
    /// Removes a link; absence is success.
    RemoveLink {
        /// Where.
        ns: Ns,
        /// Its name.
        name: IfName,
    },
    /// Sets a link up.
    SetUp {
        /// Where.
        ns: Ns,
        /// Its name.
        name: IfName,
    },
    /// Sets a link down; absence is success.
    SetDown {
        /// Where.
        ns: Ns,
        /// Its name.
        name: IfName,
    },
    /// Lets a link on the host receive every frame.
    SetPromisc {
        /// Its name.
        name: IfName,
    },
    /// Sets the address of a link on the host, so that the kernel does not choose another.
    SetMac {
        /// Its name.
        name: IfName,
        /// The address.
        mac: Mac,
    },
    /// Writes down whose a link on the host is.
    SetAlias {
        /// Its name.
        name: IfName,
        /// `IFLA_IFALIAS`, at most 255 bytes.
        text: String,
    },
    /// Makes a link on the host a port of a bridge.
    AttachPort {
        /// The link.
        name: IfName,
        /// The bridge.
        bridge: IfName,
    },
    /// Sets what a port of a bridge may do.
    SetPort {
        /// The link.
        name: IfName,
        /// Whether frames may leave by the port they came in by.
        hairpin: bool,
        /// Whether frames to other isolated ports are dropped.
        isolated: bool,
    },
    /// Sets the VLANs that a port of a bridge takes part in.
    SetPortVlans {
        /// The link.
        name: IfName,
        /// The VLANs.
        vlans: PortVlans,
    },
    /// Connects the host to a VLAN of a bridge, unless a link of this name does.
    EnsureVlanLink(VlanLink),
    /// Adds an address to a link.
    AddAddress {
        /// Where.
        ns: Ns,
        /// The link.
        name: IfName,
        /// Address and prefix length.
        cidr: Cidr,
        /// Whether to look for another user of it first.
        dad: Dad,
        /// Whether an address that is there already is what was wanted.
        existing: Existing,
    },
    /// Removes an address from a link; absence is success.
    RemoveAddress {
        /// Where.
        ns: Ns,
        /// The link.
        name: IfName,
        /// Address and prefix length.
        cidr: Cidr,
    },
    /// Adds a route in the container.
    AddRoute {
        /// The link that it leaves by.
        name: IfName,
        /// The route, its gateway decided.
        route: Route,
    },
    /// Waits until no address of a link in the container is tentative.
    SettleAddresses {
        /// The link.
        name: IfName,
    },
    /// Waits until a link on the host passes packets.
    AwaitUp {
        /// The link.
        name: IfName,
    },
    /// Writes a kernel parameter, unless it has the value.
    SetSysctl {
        /// Where.
        ns: Ns,
        /// The parameter.
        key: Sysctl,
        /// Its value.
        value: &'static str,
        /// What a failure means.
        need: Need,
    },
    /// Makes rules of the packet filter.
    EnsureRules(IptablesRuleset),
    /// Removes rules of the packet filter; absence is success.
    RemoveRules(IptablesRemoval),
    /// Makes rules of nf_tables, in their own terms.
    EnsureNftables(nftables::NftRuleset),
    /// Removes rules of nf_tables; absence is success.
    RemoveNftables(nftables::NftRemoval),
    /// Lets the kernel forget connections, so that the rules are asked again. A failure is logged: the
    /// kernel forgets them by itself, later.
    ForgetFlows(StaleFlows),
    /// Makes an address a source of a zone of firewalld. What is there already is not taken back.
    AddSource {
        /// The zone.
        zone: Zone,
        /// The address.
        address: IpAddr,
    },
    /// Removes an address from the sources of a zone of firewalld; absence is success, that of firewalld too.
    RemoveSource {
        /// The zone.
        zone: Zone,
        /// The address.
        address: IpAddr,
    },
    /// Writes down whose rules for an address are, since those rules cannot say it, and who keeps them. Who
    /// kept rules for it before may still do so, and stays written down.
    ClaimAddress {
        /// The address.
        address: IpAddr,
        /// Its owner.
        owner: Attachment,
        /// Who keeps the rules.
        keeper: Keeper,
    },
    /// Forgets whose rules for an address are, if they are `owner`'s.
    ReleaseAddress {
        /// The address.
        address: IpAddr,
        /// Its owner.
        owner: Attachment,
    },
}

/// What an object that is there already means to the step that would make it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// Success.
    Accepted,
    /// A failure.
    Refused,
}

impl Step {
    /// The step that takes this one back, where that does not depend on what was there before.
    pub fn inverse(&self) -> Option<Self> {
        match self {
            Self::CreateVeth { container, .. } => Some(Self::RemoveLink { ns: Ns::Container, name: container.clone() }),
            Self::CreateBridge { name, .. } => Some(Self::RemoveLink { ns: Ns::Host, name: name.clone() }),
            Self::SetUp { ns, name } => Some(Self::SetDown { ns: *ns, name: name.clone() }),
            Self::AddAddress { ns, name, cidr, .. } => {
                Some(Self::RemoveAddress { ns: *ns, name: name.clone(), cidr: *cidr })
            }
            Self::RemoveLink { .. }
            | Self::SetDown { .. }
            | Self::SetPromisc { .. }
            | Self::SetMac { .. }
            | Self::SetAlias { .. }
            | Self::AttachPort { .. }
            | Self::SetPort { .. }
            | Self::SetPortVlans { .. }
            | Self::EnsureVlanLink(_)
            | Self::RemoveAddress { .. }
            | Self::AddRoute { .. }
            | Self::SettleAddresses { .. }
            | Self::AwaitUp { .. }
            | Self::SetSysctl { .. }
            | Self::EnsureRules(_)
            | Self::RemoveRules(_)
            | Self::EnsureNftables(_)
            | Self::RemoveNftables(_)
            | Self::ForgetFlows(_)
            | Self::AddSource { .. }
            | Self::RemoveSource { .. }
            | Self::ClaimAddress { .. }
            | Self::ReleaseAddress { .. } => None,
        }
    }
}

impl Step {
    /// The step that takes this one back when it is not known whether it was carried out; none where that
    /// could take away what was there before.
    pub fn inverse_of_attempt(&self) -> Option<Self> {
        if matches!(self, Self::SetUp { .. }) { self.inverse() } else { None }
    }
}

/// Steps in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    steps: Vec<(Sharing, Step)>,
}

impl Plan {
    /// Appends a step that is the attachment's alone.
    pub fn owned(&mut self, step: Step) {
        self.steps.push((Sharing::Owned, step));
    }

    /// Appends a step inside an owned object.
    pub fn within(&mut self, step: Step) {
        self.steps.push((Sharing::Within, step));
    }

    /// Appends a step on something that others use as well.
    pub fn shared(&mut self, step: Step) {
        self.steps.push((Sharing::Shared, step));
    }

    /// The steps in order.
    pub fn steps(&self) -> &[(Sharing, Step)] {
        &self.steps
    }
}

impl fmt::Display for Ns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Host => "host",
            Self::Container => "container",
        })
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.steps.iter().try_for_each(|(sharing, step)| {
            let class = match sharing {
                Sharing::Owned => "owned",
                Sharing::Within => "within",
                Sharing::Shared => "shared",
            };
            writeln!(f, "{class:<6} {step}")
        })
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CreateBridge { name, mtu, vlan_filtering, mac: _ } => {
                write!(f, "host: link add {name} type bridge")?;
                mtu.map_or(Ok(()), |mtu| write!(f, " mtu {mtu}"))?;
                if *vlan_filtering { f.write_str(" vlan_filtering 1") } else { Ok(()) }
            }
            Self::CreateVeth { container, host, mtu, container_mac: _, host_mac: _ } => {
                write!(f, "container: link add {container} type veth peer {host} on host")?;
                mtu.map_or(Ok(()), |mtu| write!(f, " mtu {mtu}"))
            }
            Self::RemoveLink { ns, name } => write!(f, "{ns}: link del {name}"),
            Self::SetUp { ns, name } => write!(f, "{ns}: link set {name} up"),
            Self::SetDown { ns, name } => write!(f, "{ns}: link set {name} down"),
            Self::SetPromisc { name } => write!(f, "host: link set {name} promisc on"),
            Self::SetMac { name, mac } => write!(f, "host: link set {name} address {mac}"),
            Self::SetAlias { name, text } => write!(f, "host: link set {name} alias {text:?}"),
            Self::AttachPort { name, bridge } => write!(f, "host: link set {name} master {bridge}"),
            Self::SetPort { name, hairpin, isolated } => {
                let word = |on: &bool| if *on { "on" } else { "off" };
                write!(f, "host: bridge link set {name} hairpin {} isolated {}", word(hairpin), word(isolated))
            }
            Self::SetPortVlans { name, vlans } => write!(f, "host: bridge vlan set {name} {vlans}"),
            Self::EnsureVlanLink(VlanLink { name, port, bridge, vlans, mac: _, port_mac: _ }) => {
                write!(f, "host: ensure {name} with peer {port} in {bridge} vlan {vlans}")
            }
            Self::AddAddress { ns, name, cidr, dad, existing: _ } => {
                let nodad = if *dad == Dad::Skip && cidr.family() == Family::V6 { " nodad" } else { "" };
                write!(f, "{ns}: addr add {cidr} dev {name}{nodad}")
            }
            Self::RemoveAddress { ns, name, cidr } => write!(f, "{ns}: addr del {cidr} dev {name}"),
            Self::AddRoute { name, route } => {
                write!(f, "container: route add {}", route.dst)?;
                route.gw.map_or(Ok(()), |gw| write!(f, " via {gw}"))?;
                write!(f, " dev {name}")
            }
            Self::SettleAddresses { name } => write!(f, "container: settle addresses of {name}"),
            Self::AwaitUp { name } => write!(f, "host: await {name} up"),
            Self::SetSysctl { ns, key, value, need: _ } => write!(f, "{ns}: sysctl {}={value}", key.path()),
            Self::EnsureRules(ensure) => write!(f, "host: {ensure}"),
            Self::RemoveRules(remove) => write!(f, "host: {remove}"),
            Self::EnsureNftables(ensure) => write!(f, "host: {ensure}"),
            Self::RemoveNftables(remove) => write!(f, "host: {remove}"),
            Self::ForgetFlows(stale) => write!(f, "host: {stale}"),
            Self::AddSource { zone, address } => {
                write!(f, "host: firewalld add source {} to zone {zone}", Cidr::host(*address))
            }
            Self::RemoveSource { zone, address } => {
                write!(f, "host: firewalld remove source {} from zone {zone}", Cidr::host(*address))
            }
            Self::ClaimAddress { address, owner, keeper } => {
                let Attachment { network, container, ifname } = owner;
                write!(f, "host: claim {address} for {network} {container} {ifname}: {keeper}")
            }
            Self::ReleaseAddress { address, owner } => {
                write!(f, "host: release {address} of {} {} {}", owner.network, owner.container, owner.ifname)
            }
        }
    }
}
