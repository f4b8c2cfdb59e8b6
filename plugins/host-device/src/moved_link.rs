//! The properties of a link on the host, recorded while it is in a container. The reference keeps only the name, as
//! the link's alias, which the container can change; this plugin sets the alias too, so that the reference finds it.
//!
//! Without a record, as after an ADD of the reference, the alias gives the name, and the link stays down.

use cni_core::error::Error;
use cni_core::names::{Attachment, ContainerId, IfName, NetworkName};
use cni_model::link::Link;
use cni_model::plan::{LinkSetting, Ns};
use cni_model::record::RecordKind;
use cni_plugin::host::Host;
use cni_plugin::json_record::JsonRecord;
use serde::{Deserialize, Serialize};

use crate::proof::LinkIdentity;

/// A link that an attachment has from the host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct MovedLink {
    pub network: String,
    pub container: String,
    pub ifname: String,
    /// `CNI_NETNS` of ADD.
    pub netns: String,
    /// Its name on the host.
    pub name: String,
    /// Its alias on the host.
    pub alias: Option<String>,
    /// Whether it was up.
    pub up: bool,
    /// The bridge or bond that it was a port of.
    pub master: Option<String>,
    /// `IFLA_INFO_KIND`; none for hardware.
    pub kind: Option<String>,
    /// Its link-layer address on the host.
    pub mac: Option<String>,
    /// Its MTU on the host; `None` in records of earlier releases.
    pub mtu: Option<u32>,
    /// Its index in the container, which cannot be changed.
    pub index: u32,
    /// What distinguishes it from links that the container makes; `None` in records of earlier releases.
    pub evidence: Option<LinkIdentity>,
}

impl JsonRecord for MovedLink {
    const KIND: RecordKind = RecordKind::new("devices");

    fn names(&self) -> [&str; 3] {
        [&self.network, &self.container, &self.ifname]
    }
}

impl MovedLink {
    /// The record of a link of the host before it is moved; `master` is the name of its bridge or bond.
    pub fn of(link: &Link, master: Option<&IfName>) -> Self {
        Self {
            name: link.name.clone(),
            alias: link.alias.clone(),
            up: link.up,
            master: master.map(ToString::to_string),
            mtu: Some(link.mtu),
            ..Self::known_by(link)
        }
    }

    /// The record without a file: only the name on the host.
    pub fn by_alias(link: &Link, name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::known_by(link) }
    }

    fn known_by(link: &Link) -> Self {
        let mac = link.mac.as_ref().map(ToString::to_string);
        Self { kind: link.kind.clone(), mac, index: link.index, ..Self::default() }
    }

    /// The same, for an attachment.
    pub fn to(self, at: &Attachment, netns: &str) -> Self {
        let [network, container, ifname] = [at.network.to_string(), at.container.to_string(), at.ifname.to_string()];
        Self { network, container, ifname, netns: netns.to_owned(), ..self }
    }

    /// The attachment that has it.
    pub fn attachment(&self) -> Result<Attachment, Error> {
        let network = NetworkName::parse(&self.network)?;
        let (container, ifname) = (ContainerId::parse(&self.container)?, IfName::parse(&self.ifname)?);
        Ok(Attachment { network, container, ifname })
    }

    /// Whether a link may be the moved one. A container can change its alias and its address, but hardly both by
    /// accident; [`LinkIdentity`] detects intent.
    pub fn is(&self, link: &Link) -> bool {
        let has_mac = || self.mac.is_some() && link.mac.as_ref().map(ToString::to_string) == self.mac;
        link.kind == self.kind && (link.alias.as_deref() == Some(self.name.as_str()) || has_mac())
    }

    /// The settings that give the link, as it is now, its MTU and its address of before. The container may have changed them.
    pub fn settings_back(&self, now: &Link) -> impl Iterator<Item = LinkSetting> + use<> {
        let mtu = self.mtu.filter(|mtu| *mtu != now.mtu);
        let mac = self.mac.as_ref().filter(|_| self.mtu.is_some()).and_then(|mac| mac.parse().ok());
        let mac = mac.filter(|mac| now.mac.as_ref() != Some(mac));
        mtu.map(LinkSetting::Mtu).into_iter().chain(mac.map(LinkSetting::Mac))
    }

    /// Whether the kernel moves it back when its namespace ends. The kernel deletes links that have a kind.
    pub const fn is_hardware(&self) -> bool {
        self.kind.is_none()
    }

    /// The other attachments with a record of this link, which was on the host when this one was made: none of them has it
    /// any more. Hardware is known by its address, and a veth by its other end. All VLANs of one link are alike, as are the channels of
    /// one card: those are told from each other by their names.
    pub fn former_borrowers(&self, at: &Attachment, host: &mut dyn Host) -> Result<Vec<Attachment>, Error> {
        let Some(evidence) = &self.evidence else { return Ok(Vec::new()) };
        let has_end = evidence.other_end.is_some();
        let is_unique = evidence.permanent_mac.is_some() || has_end && self.kind.as_deref() == Some("veth");
        let has_origin = has_end || evidence.device.is_some();
        let is_same = |loan: &Self| {
            loan.evidence.as_ref() == Some(evidence) && (is_unique || has_origin && loan.name == self.name)
        };
        let same = Self::all(host)?.into_iter().filter(|(_, loan)| is_same(loan));
        let mut former = same.map(|(_, loan)| loan.attachment()).collect::<Result<Vec<_>, _>>()?;
        former.retain(|other| other != at);
        Ok(former)
    }

    /// The record of a link of the host whose attachment has lost its namespace.
    pub fn of_lost(link: &Link, host: &mut dyn Host) -> Result<Option<Self>, Error> {
        let has_alias = |loan: &Self| link.alias.as_deref() == Some(loan.name.as_str());
        let is_lost = |loan: &Self| loan.is_hardware() && loan.name != link.name && loan.is(link) && has_alias(loan);
        Ok(Self::all(host)?.into_iter().map(|(_, loan)| loan).find(is_lost))
    }
}

/// The name of the bridge or bond that a link of the host is a port of.
pub fn master_of(link: &Link, host: &mut dyn Host) -> Result<Option<IfName>, Error> {
    let Some(index) = link.master else { return Ok(None) };
    let master = host.link_by_index(Ns::Host, index)?.filter(takes_ports);
    Ok(master.map(|master| IfName::parse(&master.name)).transpose()?)
}

/// Whether links become ports of a link by `IFLA_MASTER`. Those of Open vSwitch do not: the kernel takes them out when they are moved.
pub fn takes_ports(master: &Link) -> bool {
    master.kind.as_deref().is_some_and(|kind| ["bridge", "bond", "team", "vrf", "batadv"].contains(&kind))
}
