//! Finds the link to be moved, and its original name.

use cni_core::error::{Code, Error, Failure};
use cni_core::mac::Mac;
use cni_model::link::Link;
use cni_model::plan::Ns;
use cni_plugin::host::{Host, LinkQuery};

use crate::devices::{DeviceSearch, link_in};
use crate::moved_link::MovedLink;

/// No link, or too many.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// There is no link of the name.
    #[error("failed to find host device: Link not found")]
    NoLink { name: String },
    /// No link has the address.
    #[error("failed to find host device: failed to find physical interface")]
    NoMac { mac: Mac },
    /// Several links have the address, as ports of a bond and links on top of another have.
    #[error("failed to find host device: {} interfaces have the address {mac}", names.len())]
    SeveralMacs { mac: Mac, names: Vec<String> },
    /// The container has another link, in a namespace that lives.
    #[error("{name} is still in {netns}, where an earlier ADD of this container has moved it")]
    StillAway { name: String, netns: String },
}

impl Failure for FindError {
    fn code(&self) -> Code {
        match self {
            Self::NoLink { .. } | Self::NoMac { .. } => Code::InvalidConfig,
            Self::SeveralMacs { .. } => Code::InvalidConfig,
            Self::StillAway { .. } => Code::TryAgain,
        }
    }

    fn details(&self) -> String {
        match self {
            Self::NoLink { name } => format!("the host has no interface {name:?}"),
            Self::NoMac { mac } => format!("no interface of the host has hwaddr {mac}"),
            Self::SeveralMacs { names, .. } => format!("name one of them by device: {}", names.join(", ")),
            Self::StillAway { .. } => "DEL moves it back to the host".to_owned(),
        }
    }
}

/// A link of the host that is to be moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundLink {
    /// As it is.
    pub link: Link,
    /// As it was before the namespace of an earlier container ended and the kernel gave it back under the container's name;
    /// none for a link that has not been away.
    pub earlier: Option<MovedLink>,
}

/// Finds the link of a target.
pub fn find(target: &DeviceSearch, host: &mut dyn Host) -> Result<Option<FoundLink>, Error> {
    let link = match target {
        DeviceSearch::Dpdk => return Ok(None),
        DeviceSearch::Name(name) => return by_name(name, host).map(Some),
        DeviceSearch::Mac(mac) => by_mac(mac, host)?,
        DeviceSearch::Network(directory) => named(&link_in(directory, host.devices())?, host)?,
    };
    let earlier = MovedLink::of_lost(&link, host)?;
    Ok(Some(FoundLink { link, earlier }))
}

fn by_name(name: &str, host: &mut dyn Host) -> Result<FoundLink, Error> {
    if let Some(link) = look_up(name, host)? {
        return Ok(FoundLink { link, earlier: None });
    }
    let lost = find_lost(name, host)?.ok_or_else(|| FindError::NoLink { name: name.to_owned() })?;
    let earlier = MovedLink::of_lost(&lost, host)?.unwrap_or_else(|| MovedLink::by_alias(&lost, name));
    Ok(FoundLink { link: lost, earlier: Some(earlier) })
}

fn named(name: &str, host: &mut dyn Host) -> Result<Link, Error> {
    look_up(name, host)?.ok_or_else(|| FindError::NoLink { name: name.to_owned() }.into())
}

fn look_up(name: &str, host: &mut dyn Host) -> Result<Option<Link>, Error> {
    Ok(host.links(Ns::Host, LinkQuery::Called(name))?.pop())
}

/// Finds hardware whose alias contains its former name on the host. The kernel moves it back under the container's name
/// when its namespace ends without a DEL.
pub fn find_lost(name: &str, host: &mut dyn Host) -> Result<Option<Link>, Error> {
    let is_lost = |link: &Link| link.kind.is_none() && link.alias.as_deref() == Some(name);
    Ok(host.links(Ns::Host, LinkQuery::All)?.into_iter().find(is_lost))
}

/// Finds a link by its MAC address. A bond, a VLAN and a macvlan have the address of another link: so hardware has
/// precedence, then hardware with this permanent address.
fn by_mac(mac: &Mac, host: &mut dyn Host) -> Result<Link, Error> {
    let mut links = host.links(Ns::Host, LinkQuery::All)?;
    links.retain(|link| link.mac.as_ref() == Some(mac));
    let is_hardware = |link: &&Link| link.kind.is_none();
    let is_own = |link: &&Link| link.permanent_mac.as_ref() == Some(mac);
    let only = |found: Vec<&Link>| if let [link] = found[..] { Some(link.clone()) } else { None };
    let chosen = only(links.iter().collect())
        .or_else(|| only(links.iter().filter(is_hardware).collect()))
        .or_else(|| only(links.iter().filter(is_hardware).filter(is_own).collect()));
    Ok(match chosen {
        Some(link) => link,
        None if links.is_empty() => return Err(FindError::NoMac { mac: mac.clone() }.into()),
        None => {
            let names = links.into_iter().map(|link| link.name).collect();
            return Err(FindError::SeveralMacs { mac: mac.clone(), names }.into());
        }
    })
}
