//! A veth pair between container and host. Each plugin decides how the host's end is used.

use cni_core::error::Error;
use cni_core::fail;
use cni_core::family::Family;
use cni_core::mac::Mac;
use cni_core::names::{Attachment, IfName};
use cni_model::link::Link;
use cni_model::plan::{LinkKind, LinkSetting, Ns, Plan, Step, Sysctl, SysctlNeed, VethPeer};
use cni_plugin::host::{Host, LinkQuery};

use crate::{addressing, alias, naming};

/// The names and addresses of a new veth pair; the runtime names the container's end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewVeth {
    /// Name of the host's end.
    pub host: IfName,
    /// MAC address of the host's end.
    pub host_mac: Mac,
    /// MAC address of the container's end.
    pub container_mac: Mac,
}

impl NewVeth {
    /// Chooses at random, except the MAC address of the container's end if one is configured.
    ///
    /// # Errors
    /// For a name that the container's end cannot have, or when the kernel does not answer.
    pub fn choose(at: &Attachment, mac: Option<&Mac>, host: &mut dyn Host) -> Result<Self, Error> {
        let name = naming::random_name(host);
        naming::refuse_pattern("make veth pair", &at.ifname)?;
        if host.link(Ns::Container, &at.ifname)?.is_some() {
            let (name, peer) = (at.ifname.as_str(), name.as_str());
            return Err(fail!(Conflict, "container veth name ({name:?}) peer provided ({peer:?}) already exists"));
        }
        let container_mac = mac.cloned().unwrap_or_else(|| naming::random_mac(host));
        Ok(Self { host: name, host_mac: naming::random_mac(host), container_mac })
    }

    /// Plans the pair: made with one end in the container, and the host's end with the attachment's alias, and deaf to
    /// routers. Both ends are still down.
    pub fn plan(&self, plan: &mut Plan, at: &Attachment, mtu: Option<u32>) {
        let peer = VethPeer { ns: Ns::Host, name: self.host.clone(), mac: self.host_mac.clone() };
        let (kind, mac) = (LinkKind::Veth { peer }, Some(self.container_mac.clone()));
        plan.owned(naming::create(at.ifname.clone(), kind, mac, mtu));
        plan.within(self.set(LinkSetting::Alias(alias::of(at))));
        plan.within(accept_no_router(&self.host));
    }

    /// The step that sets a property of the host's end.
    pub fn set(&self, setting: LinkSetting) -> Step {
        Step::set_link(Ns::Host, &self.host, setting)
    }
}

/// Lets the kernel use the link-local address of a link at once, since no other link has the link's random MAC address.
/// Otherwise the kernel would check the address for two seconds, and meanwhile look up no neighbour through the link
/// and forward no IPv6 packet there.
pub fn trust_link_local(name: &IfName) -> Step {
    addressing::set(Ns::Host, Sysctl::interface(Family::V6, name, "accept_dad"), "0", SysctlNeed::Wanted)
}

/// Router advertisements of containers must not change the host's routes: CVE-2020-10749.
pub fn accept_no_router(name: &IfName) -> Step {
    addressing::set(Ns::Host, Sysctl::interface(Family::V6, name, "accept_ra"), "0", SysctlNeed::Wanted)
}

/// The host's end of the pair whose other end is this link in the container, under any name. The kernel identifies it,
/// not the indices: a container may give its own link the index of another container's peer.
pub fn host_end(container: &Link, host: &mut dyn Host) -> Result<Option<Link>, Error> {
    Ok(host.links(Ns::Host, LinkQuery::PeerOf(container))?.pop().filter(is_veth))
}

/// Whether a link is an end of a veth pair.
pub fn is_veth(link: &Link) -> bool {
    link.kind.as_deref() == Some("veth")
}
