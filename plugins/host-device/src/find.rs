//! Finds the link to be moved, and its original name.

use cni_core::error::Error;
use cni_core::fail;
use cni_core::mac::Mac;
use cni_model::link::Link;
use cni_model::plan::Ns;
use cni_plugin::host::{Host, LinkQuery};

use crate::devices::{DeviceSearch, link_in};
use crate::moved_link::MovedLink;

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
    let lost = find_lost(name, host)?.ok_or_else(|| no_link(name))?;
    let earlier = MovedLink::of_lost(&lost, host)?.unwrap_or_else(|| MovedLink::by_alias(&lost, name));
    Ok(FoundLink { link: lost, earlier: Some(earlier) })
}

fn named(name: &str, host: &mut dyn Host) -> Result<Link, Error> {
    look_up(name, host)?.ok_or_else(|| no_link(name))
}

fn no_link(name: &str) -> Error {
    let text = "failed to find host device: Link not found";
    fail!(InvalidConfig, "{text}", details: "the host has no interface {name:?}")
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
        None if links.is_empty() => {
            let text = "failed to find host device: failed to find physical interface";
            return Err(fail!(InvalidConfig, "{text}", details: "no interface of the host has hwaddr {mac}"));
        }
        // As ports of a bond and links on top of another have it.
        None => {
            let text = format!("{} interfaces have the address {mac}", links.len());
            let names: Vec<String> = links.into_iter().map(|link| link.name).collect();
            let details = format!("name one of them by device: {}", names.join(", "));
            return Err(fail!(InvalidConfig, "failed to find host device: {text}", details: "{details}"));
        }
    })
}
