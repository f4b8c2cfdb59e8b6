//! Carries out the steps of a plan. Each is one change, or takes itself back when it fails half-way.

use std::net::IpAddr;
use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

use cni_core::cidr::Cidr;
use cni_core::error::{Code, Error, Failure};
use cni_core::mac::Mac;
use cni_core::names::{Attachment, IfName};
use cni_core::result::Route;
use cni_netfilter::iptables;
use cni_netfilter::nftables;
use cni_plugin::keeper::Keeper;
use cni_plugin::link::{Link, OperState};
use cni_plugin::plan::{Dad, Existing, Need, Ns, Step, Sysctl};

use crate::claims::Claim;
use crate::firewalld::Added;
use crate::host::{HostError, LinuxHost, is_absent};
use crate::netlink::{BridgePort, NetlinkError, NewBridge, NewRoute, NewVeth};
use crate::sysctl;

mod flows;
mod vlan;

/// A step that the kernel refused, where the reference has words of its own for it.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// One of the two names is taken.
    #[error("container veth name ({container:?}) peer provided ({host:?}) already exists")]
    VethExists {
        /// The name inside the container.
        container: String,
        /// The name on the host.
        host: String,
        /// The kernel's word.
        #[source]
        source: NetlinkError,
    },
    /// The bridge takes no port.
    #[error("failed to connect {port:?} to bridge {bridge}")]
    Attach {
        /// The port.
        port: String,
        /// The bridge.
        bridge: String,
        /// The kernel's word.
        #[source]
        source: NetlinkError,
    },
    /// Another host has the address.
    #[error("failed to settle addresses for {name:?}: link {name} has address {address} in DADFAILED state")]
    DuplicateAddress {
        /// The link.
        name: String,
        /// The address.
        address: IpAddr,
    },
    /// Duplicate address detection does not end.
    #[error(
        "failed to settle addresses for {name:?}: link {name} still has tentative addresses after {seconds} seconds"
    )]
    StillTentative {
        /// The link.
        name: String,
        /// How long it was waited.
        seconds: u64,
    },
    /// The port does not pass packets.
    #[error("bridge port in error state: {state}")]
    PortState {
        /// The port.
        name: String,
        /// Its state.
        state: OperState,
    },
}

impl Failure for ApplyError {
    fn code(&self) -> Code {
        match self {
            Self::VethExists { .. } | Self::DuplicateAddress { .. } => Code::Conflict,
            Self::Attach { source, .. } => source.code(),
            Self::StillTentative { .. } | Self::PortState { .. } => Code::Kernel,
        }
    }
}

/// Carries out one step; returns the step that takes it back where only the effect tells.
///
/// # Errors
/// Those of the kernel, of files and of processes, each naming what was tried.
pub fn apply(host: &mut LinuxHost, step: &Step) -> Result<Option<Step>, Error> {
    match step {
        Step::CreateBridge { name, mtu, mac, vlan_filtering } => {
            let bridge = NewBridge { name: name.as_str(), mtu: *mtu, mac, vlan_filtering: *vlan_filtering };
            accept_existing(host.socket(Ns::Host)?.create_bridge(&bridge)).map_err(|source| {
                if *vlan_filtering { vlan::unless_unsupported(name, source, Error::from) } else { source.into() }
            })?;
        }
        Step::CreateVeth { container, container_mac, host: host_end, host_mac, mtu } => {
            create_veth(host, (container, container_mac), (host_end, host_mac), *mtu)?;
        }
        Step::RemoveLink { ns, name } => remove_link(host, *ns, name)?,
        Step::SetUp { ns, name } => {
            let index = index(host, *ns, name)?;
            host.socket(*ns)?.set_link_up(index)?;
        }
        Step::SetDown { ns, name } => {
            if let Some(link) = host.socket(*ns)?.link(name.as_str())? {
                accept_absent(host.socket(*ns)?.set_link_down(link.index))?;
            }
        }
        Step::SetPromisc { name } => {
            let index = index(host, Ns::Host, name)?;
            host.socket(Ns::Host)?.set_promisc(index)?;
        }
        Step::SetMac { name, mac } => {
            let index = index(host, Ns::Host, name)?;
            host.socket(Ns::Host)?.set_mac(index, mac)?;
        }
        Step::SetAlias { name, text } => {
            let index = index(host, Ns::Host, name)?;
            host.socket(Ns::Host)?.set_alias(index, text)?;
        }
        Step::AttachPort { name, bridge } => attach_port(host, name, bridge)?,
        Step::SetPort { name, hairpin, isolated } => {
            let index = index(host, Ns::Host, name)?;
            let port = BridgePort { hairpin: *hairpin, isolated: *isolated };
            host.socket(Ns::Host)?.set_bridge_port(index, port)?;
        }
        Step::SetPortVlans { name, vlans } => vlan::set_port_vlans(host, name, vlans)?,
        Step::EnsureVlanLink(link) => vlan::ensure_link(host, link)?,
        Step::AddAddress { ns, name, cidr, dad, existing } => add_address(host, *ns, name, *cidr, *dad, *existing)?,
        Step::RemoveAddress { ns, name, cidr } => remove_address(host, *ns, name, *cidr)?,
        Step::AddRoute { name, route } => add_route(host, name, route)?,
        Step::SettleAddresses { name } => settle(host, name)?,
        Step::AwaitUp { name } => await_up(host, name)?,
        Step::SetSysctl { ns, key, value, need } => set_sysctl(host, *ns, key, value, *need)?,
        Step::EnsureRules(ensure) => return Ok(iptables::ensure(host.tables_mut(), ensure)?.map(Step::RemoveRules)),
        Step::RemoveRules(remove) => iptables::remove(host.tables_mut(), remove)?,
        Step::EnsureNftables(ensure) => {
            return Ok(nftables::ensure(host.nftables_mut(), ensure)?.map(Step::RemoveNftables));
        }
        Step::RemoveNftables(remove) => nftables::remove(host.nftables_mut(), remove)?,
        Step::ForgetFlows(stale) => flows::forget(host, stale),
        Step::AddSource { zone, address } => {
            let added = host.firewalld_mut().add_source(zone, *address)?;
            let undo = Step::RemoveSource { zone: zone.clone(), address: *address };
            return Ok((added == Added::Now).then_some(undo));
        }
        Step::RemoveSource { zone, address } => host.firewalld_mut().remove_source(zone, *address)?,
        Step::ClaimAddress { address, owner, keeper } => return claim(host, *address, owner, keeper),
        Step::ReleaseAddress { address, owner } => host.claims().release(*address, owner)?,
    }
    Ok(None)
}

/// An earlier claim of somebody else's is put back when this one is taken back, one of the owner's own stays.
fn claim(host: &LinuxHost, address: IpAddr, owner: &Attachment, keeper: &Keeper) -> Result<Option<Step>, Error> {
    let Some(Claim { owner: former, mut keepers }) = host.claims().claim(address, owner, keeper)? else {
        return Ok(Some(Step::ReleaseAddress { address, owner: owner.clone() }));
    };
    let back = keepers.pop().filter(|_| former != *owner);
    Ok(back.map(|keeper| Step::ClaimAddress { address, owner: former, keeper }))
}

fn index(host: &mut LinuxHost, ns: Ns, name: &IfName) -> Result<u32, Error> {
    Ok(present(host, ns, name)?.index)
}

fn present(host: &mut LinuxHost, ns: Ns, name: &IfName) -> Result<Link, Error> {
    let link = host.socket(ns)?.link(name.as_str())?;
    link.ok_or_else(|| HostError::NoLink { ns, name: name.to_string() }.into())
}

/// Another ADD may have made the same shared object a moment ago.
fn accept_existing(done: Result<(), NetlinkError>) -> Result<(), NetlinkError> {
    done.or_else(|error| if error.errno() == Some(libc::EEXIST) { Ok(()) } else { Err(error) })
}

fn accept_absent(done: Result<(), NetlinkError>) -> Result<(), NetlinkError> {
    done.or_else(|error| if is_absent(&error) { Ok(()) } else { Err(error) })
}

/// Made inside the container with the peer on the host: no end ever has to move or be renamed.
fn create_veth(
    host: &mut LinuxHost,
    (container, container_mac): (&IfName, &Mac),
    (host_end, host_mac): (&IfName, &Mac),
    mtu: Option<u32>,
) -> Result<(), Error> {
    let (socket, host_netns) = host.container_socket_and_host()?;
    let made = socket.create_veth(&NewVeth {
        name: container.as_str(),
        mac: container_mac,
        mtu,
        peer_name: host_end.as_str(),
        peer_mac: host_mac,
        peer_netns: host_netns.as_fd(),
    });
    let Err(source) = made else { return Ok(()) };
    if source.errno() == Some(libc::EEXIST) {
        let (container, host) = (container.to_string(), host_end.to_string());
        return Err(ApplyError::VethExists { container, host, source }.into());
    }
    // The kernel's answer may have been lost on its way. A pair with our random address is ours.
    let ours = socket.link(container.as_str()).ok().flatten().filter(|link| link.mac.as_ref() == Some(container_mac));
    let error = Error::from(source);
    match ours.map(|link| accept_absent(socket.delete_link(link.index))) {
        Some(Err(failed)) => Err(error.with_note(format!("and the pair that was made stays: {failed}"))),
        Some(Ok(())) | None => Err(error),
    }
}

fn remove_link(host: &mut LinuxHost, ns: Ns, name: &IfName) -> Result<(), Error> {
    if let Some(link) = host.socket(ns)?.link(name.as_str())? {
        accept_absent(host.socket(ns)?.delete_link(link.index))?;
    }
    Ok(())
}

fn attach_port(host: &mut LinuxHost, name: &IfName, bridge: &IfName) -> Result<(), Error> {
    let (port, master) = (index(host, Ns::Host, name)?, index(host, Ns::Host, bridge)?);
    let attached = host.socket(Ns::Host)?.set_master(port, master);
    Ok(attached.map_err(|source| ApplyError::Attach { port: name.to_string(), bridge: bridge.to_string(), source })?)
}

fn add_address(
    host: &mut LinuxHost,
    ns: Ns,
    name: &IfName,
    cidr: Cidr,
    dad: Dad,
    existing: Existing,
) -> Result<(), Error> {
    let index = index(host, ns, name)?;
    let added = host.socket(ns)?.add_address(index, cidr, dad);
    Ok(match existing {
        Existing::Accepted => accept_existing(added),
        Existing::Refused => added,
    }?)
}

fn remove_address(host: &mut LinuxHost, ns: Ns, name: &IfName, cidr: Cidr) -> Result<(), Error> {
    if let Some(link) = host.socket(ns)?.link(name.as_str())? {
        accept_absent(host.socket(ns)?.remove_address(link.index, cidr))?;
    }
    Ok(())
}

/// The plan has checked that the numbers fit.
fn add_route(host: &mut LinuxHost, name: &IfName, route: &Route) -> Result<(), Error> {
    let wide = |value: i64| u32::try_from(value).ok().filter(|value| *value != 0);
    let route = NewRoute {
        dst: route.dst,
        gw: route.gw,
        link: index(host, Ns::Container, name)?,
        table: route.table.and_then(wide),
        priority: wide(route.priority),
        scope: route.scope.and_then(|scope| u8::try_from(scope).ok()),
        mtu: wide(route.mtu),
        advmss: wide(route.advmss),
    };
    Ok(host.socket(Ns::Container)?.add_route(&route)?)
}

/// How long duplicate address detection may take, and how often it is looked at: the reference's numbers.
const SETTLE_LIMIT: Duration = Duration::from_secs(5);
const SETTLE_PAUSE: Duration = Duration::from_millis(50);

fn settle(host: &mut LinuxHost, name: &IfName) -> Result<(), Error> {
    let started = Instant::now();
    loop {
        let link = present(host, Ns::Container, name)?;
        let addresses = host.socket(Ns::Container)?.addresses(Some(link.index), Some(cni_core::family::Family::V6))?;
        if let Some(failed) = addresses.iter().find(|address| address.dad_failed) {
            let address = failed.cidr.address();
            return Err(ApplyError::DuplicateAddress { name: name.to_string(), address }.into());
        }
        let waiting = addresses.iter().any(|address| address.tentative);
        match (waiting, started.elapsed() < SETTLE_LIMIT, link.oper_state) {
            (false, _, _) => return Ok(()),
            (true, true, _) => thread::sleep(SETTLE_PAUSE),
            (true, false, OperState::Up) => {
                let seconds = SETTLE_LIMIT.as_secs();
                return Err(ApplyError::StillTentative { name: name.to_string(), seconds }.into());
            }
            (true, false, _) => return Ok(()),
        }
    }
}

/// The pauses between looks at the port, as long together as the reference's.
const UP_PAUSES: [u64; 8] = [0, 5, 10, 35, 100, 400, 1000, 1000];

fn await_up(host: &mut LinuxHost, name: &IfName) -> Result<(), Error> {
    let mut state = OperState::Unknown;
    for pause in UP_PAUSES {
        thread::sleep(Duration::from_millis(pause));
        state = present(host, Ns::Host, name)?.oper_state;
        if state == OperState::Up {
            return Ok(());
        }
    }
    Err(ApplyError::PortState { name: name.to_string(), state }.into())
}

fn set_sysctl(host: &LinuxHost, ns: Ns, key: &Sysctl, value: &str, need: Need) -> Result<(), Error> {
    let written = host.within(ns, || sysctl::ensure(key, value))?;
    match (written, need) {
        (Ok(()), _) => Ok(()),
        (Err(error), Need::Wanted) => {
            log::debug!("{} stays as it is: {error}", key.path());
            Ok(())
        }
        (Err(source), Need::Required) => {
            Err(HostError::Sysctl { verb: "write", path: sysctl::path(key), source }.into())
        }
    }
}
