//! Creates, changes and removes links.

use std::os::fd::AsFd;

use cni_core::error::{Code, Error, Failure};
use cni_core::names::IfName;
use cni_model::link::Link;
use cni_model::plan::{IfPresent, LinkKind, LinkSetting, NewLink, Ns, Step};

use super::child::{self, ChildRequest};
use super::look_up::{index, present};
use super::made::{Creation, accept_absent, accept_existing};
use super::tap::{self, TapSettings};
use super::vlan;
use crate::machine::LinuxHost;
use cni_kernel::netlink::{NetlinkError, Socket};

/// Refusals of the kernel for which the reference has texts of its own.
#[derive(Debug, thiserror::Error)]
enum LinkError {
    /// One of the two names is taken.
    #[error("container veth name ({container:?}) peer provided ({host:?}) already exists")]
    VethExists {
        container: String,
        host: String,
        #[source]
        source: NetlinkError,
    },
    /// The kernel was built without such links.
    #[error(
        "failed to create {kind}: operation not supported: this kernel has no links of kind {kind}, load its module"
    )]
    UnknownKind {
        kind: &'static str,
        #[source]
        source: NetlinkError,
    },
    /// The bridge did not accept the port.
    #[error("failed to connect {port:?} to bridge {bridge}")]
    Attach {
        port: String,
        bridge: String,
        #[source]
        source: NetlinkError,
    },
}

impl Failure for LinkError {
    fn code(&self) -> Code {
        match self {
            Self::VethExists { .. } => Code::Conflict,
            Self::UnknownKind { .. } => Code::UnsupportedField,
            Self::Attach { source, .. } => source.code(),
        }
    }
}

/// Makes a link; returns the step that undoes it if the link did not exist before.
pub(super) fn create(host: &mut LinuxHost, ns: Ns, link: &NewLink) -> Result<Option<Step>, Error> {
    if let LinkKind::Child { master, kind } = &link.kind {
        child::create(host, &ChildRequest { ns, link, master, kind })?;
        return Ok(Some(Step::RemoveLink { ns, name: link.name.clone() }));
    }
    if let LinkKind::Tap { tap, label, headers, alias } = &link.kind {
        let (tap, headers, label, alias) = (*tap, *headers, label.as_deref(), alias.as_deref());
        tap::create(host, ns, link, TapSettings { tap, headers, label, alias })?;
        return Ok(Some(Step::RemoveLink { ns, name: link.name.clone() }));
    }
    let made = try_to_create(host, ns, link)?;
    let made = match link.if_present {
        IfPresent::Accept => accept_existing(made),
        IfPresent::Refuse => made.map(|()| Creation::Now),
    };
    match made {
        Ok(Creation::Now) => {
            settle_mac(host.socket(ns)?, link)?;
            Ok(Some(Step::RemoveLink { ns, name: link.name.clone() }))
        }
        Ok(Creation::Earlier) => Ok(None),
        Err(source) => Err(refusal(host.socket(ns)?, link, source)),
    }
}

/// Sets the MAC address that a new bridge already has, so that it keeps it when ports are added and removed. Another
/// address, even in the request that creates it, would end its carrier until a port is up (`br_stp_change_bridge_id` in
/// `net/bridge/br_stp_if.c`), and its link-local address with it.
fn settle_mac(socket: &mut Socket, link: &NewLink) -> Result<(), Error> {
    let (LinkKind::Bridge { .. }, None) = (&link.kind, &link.mac) else { return Ok(()) };
    if let Some(Link { index, mac: Some(mac), .. }) = socket.link(link.name.as_str())? {
        socket.set_mac(index, &mac)?;
    }
    Ok(())
}

fn try_to_create(host: &mut LinuxHost, ns: Ns, link: &NewLink) -> Result<Result<(), NetlinkError>, Error> {
    let peer = match &link.kind {
        LinkKind::Veth { peer } => Some(peer.ns),
        LinkKind::Bridge { .. }
        | LinkKind::Dummy
        | LinkKind::Ifb
        | LinkKind::Vrf { .. }
        | LinkKind::Tap { .. }
        | LinkKind::Child { .. } => None,
    };
    let (socket, netns) = host.socket_and_netns(ns, peer)?;
    Ok(socket.create_link(link, netns.as_deref().map(AsFd::as_fd)))
}

/// The error for a link that the kernel has refused to make.
fn refusal(socket: &mut Socket, link: &NewLink, source: NetlinkError) -> Error {
    let NewLink { name, if_present, kind, .. } = link;
    let is_taken = source.errno() == Some(libc::EEXIST);
    match kind {
        LinkKind::Veth { peer } if is_taken => {
            LinkError::VethExists { container: name.to_string(), host: peer.name.to_string(), source }.into()
        }
        LinkKind::Bridge { vlan_filtering: true } => vlan::unless_unsupported(name, source, Error::from),
        LinkKind::Bridge { .. }
        | LinkKind::Veth { .. }
        | LinkKind::Dummy
        | LinkKind::Ifb
        | LinkKind::Vrf { .. }
        | LinkKind::Tap { .. }
        | LinkKind::Child { .. }
            if source.errno() == Some(libc::EOPNOTSUPP) =>
        {
            LinkError::UnknownKind { kind: kind.name(), source }.into()
        }
        LinkKind::Bridge { .. }
        | LinkKind::Veth { .. }
        | LinkKind::Dummy
        | LinkKind::Ifb
        | LinkKind::Vrf { .. }
        | LinkKind::Tap { .. }
        | LinkKind::Child { .. } => match if_present {
            IfPresent::Refuse if !is_taken => removed_if_made(socket, link, source),
            IfPresent::Refuse | IfPresent::Accept => source.into(),
        },
    }
}

/// Removes the link if it was created although the kernel's answer was lost. A link with the random address that was
/// chosen for it is ours, and so is a VRF with the chosen table, since the name was free a moment ago.
fn removed_if_made(socket: &mut Socket, link: &NewLink, source: NetlinkError) -> Error {
    let has_table = |found: &Link| matches!(link.kind, LinkKind::Vrf { table } if found.vrf_table == Some(table));
    let is_ours = |found: &Link| (link.mac.is_some() && found.mac == link.mac) || has_table(found);
    let ours = socket.link(link.name.as_str()).ok().flatten().filter(is_ours);
    let error = Error::from(source);
    match ours.map(|link| accept_absent(socket.delete_link(link.index))) {
        Some(Err(failed)) => error.with_note(format!("and the new link could not be removed: {failed}")),
        Some(Ok(())) | None => error,
    }
}

/// Sets a property; returns the step that sets it back.
pub(super) fn set(host: &mut LinuxHost, ns: Ns, name: &IfName, setting: &LinkSetting) -> Result<Option<Step>, Error> {
    let before = match setting {
        LinkSetting::Down | LinkSetting::NoMaster => match host.socket(ns)?.link(name.as_str())? {
            Some(link) => link,
            None => return Ok(None),
        },
        LinkSetting::Up
        | LinkSetting::Mac(_)
        | LinkSetting::Mtu(_)
        | LinkSetting::Alias(_)
        | LinkSetting::Promisc(_)
        | LinkSetting::AllMulticast(_)
        | LinkSetting::TxQueueLength(_)
        | LinkSetting::Master(_)
        | LinkSetting::Port(_) => present(host, ns, name)?,
    };
    // Asked first: after the change, a failed answer would leave nothing that undoes it.
    let master = former_master(host.socket(ns)?, &before, setting)?;
    let undo = setting.undo(&before, master.as_ref());
    if let Err(error) = change(host, ns, &before, setting) {
        return Err(restore_if_changed(host, ns, &before, (setting, undo), error));
    }
    Ok(undo.map(|setting| Step::SetLink { ns, name: name.clone(), setting }))
}

fn change(host: &mut LinuxHost, ns: Ns, link: &Link, setting: &LinkSetting) -> Result<(), Error> {
    if let LinkSetting::Master(bridge) = setting {
        return attach(host, ns, link, bridge);
    }
    let (socket, index) = (host.socket(ns)?, link.index);
    Ok(match setting {
        LinkSetting::Up => socket.set_link_up(index),
        LinkSetting::Down => accept_absent(socket.set_link_down(index)),
        LinkSetting::Mac(mac) => socket.set_mac(index, mac),
        LinkSetting::Mtu(mtu) => socket.set_mtu(index, *mtu),
        LinkSetting::Alias(text) => socket.set_alias(index, text),
        LinkSetting::Promisc(on) => socket.set_promisc(index, *on),
        LinkSetting::AllMulticast(on) => socket.set_all_multicast(index, *on),
        LinkSetting::TxQueueLength(packets) => socket.set_tx_queue_length(index, *packets),
        LinkSetting::Master(_) => Ok(()),
        LinkSetting::NoMaster => accept_absent(socket.clear_master(index)),
        LinkSetting::Port(port) => socket.set_bridge_port(index, *port),
    }?)
}

/// Restores a property if it was changed although the kernel's answer was lost.
fn restore_if_changed(
    host: &mut LinuxHost,
    ns: Ns,
    before: &Link,
    (setting, undo): (&LinkSetting, Option<LinkSetting>),
    error: Error,
) -> Error {
    let is_set_back = match setting {
        LinkSetting::Down
        | LinkSetting::NoMaster
        | LinkSetting::Mac(_)
        | LinkSetting::Mtu(_)
        | LinkSetting::Promisc(_)
        | LinkSetting::AllMulticast(_)
        | LinkSetting::TxQueueLength(_) => true,
        LinkSetting::Up | LinkSetting::Alias(_) | LinkSetting::Master(_) | LinkSetting::Port(_) => false,
    };
    let now = host.socket(ns).ok().and_then(|socket| socket.link_by_index(before.index).ok().flatten());
    let has_value = now.is_some_and(|now| setting.undo(&now, None).is_none());
    match undo.filter(|_| is_set_back && has_value).map(|undo| change(host, ns, before, &undo)) {
        Some(Err(failed)) => error.with_note(format!("and it could not be set back: {}", failed.in_full())),
        Some(Ok(())) | None => error,
    }
}

fn attach(host: &mut LinuxHost, ns: Ns, link: &Link, bridge: &IfName) -> Result<(), Error> {
    let master = index(host, ns, bridge)?;
    let attached = host.socket(ns)?.set_master(link.index, master);
    let (port, bridge) = (link.name.clone(), bridge.to_string());
    Ok(attached.map_err(|source| LinkError::Attach { port, bridge, source })?)
}

/// The bridge that a link was a port of, where the setting changes that. `None` as well if this program cannot write its name:
/// a container gives its links any, and DEL must not fail for that.
fn former_master(socket: &mut Socket, before: &Link, setting: &LinkSetting) -> Result<Option<IfName>, Error> {
    let changed = matches!(setting, LinkSetting::Master(_) | LinkSetting::NoMaster);
    match before.master.filter(|_| changed) {
        Some(index) => Ok(socket.link_by_index(index)?.and_then(|link| IfName::parse(&link.name).ok())),
        None => Ok(None),
    }
}
