//! Finds the link to be moved: its device in `/sys`, which shows the links of the namespace that it was mounted in, and its
//! original name.

use std::path::{Path, PathBuf};

use cni_core::error::Error;
use cni_core::fail;
use cni_core::mac::Mac;
use cni_model::link::Link;
use cni_model::plan::Ns;
use cni_plugin::host::{Devices, Host, LinkQuery};

use crate::config::{Config, DeviceId, Selector, no_device};
use crate::moved_link::MovedLink;

/// Drivers that leave a device to a program. Those of vendors have `vfio` in their names.
const DPDK_DRIVERS: [&str; 2] = ["uio_pci_generic", "igb_uio"];

const PCI: &str = "/sys/bus/pci/devices";
const AUXILIARY: &str = "/sys/bus/auxiliary/devices";

/// Resolves the configured device on this machine. A device that the runtime has chosen replaces `pciBusID`; a
/// configured interface has precedence over both. Returns `None` if a program drives the device: there is no interface to move.
pub fn resolve(config: &Config, devices: &mut dyn Devices) -> Result<Option<Selector>, Error> {
    let auxiliary = config.device_id.as_ref().map_or(Ok(None), |id| auxiliary(id, devices))?;
    let pci = match (&config.device_id, &auxiliary) {
        (Some(_), Some(_)) => None,
        (Some(id), None) => Some(id),
        (None, _) => config.pci.as_ref(),
    };
    let dpdk = pci.map_or(Ok(config.dpdk), |id| is_driven_by_program(id, devices))?;
    match (&config.selector, pci, auxiliary) {
        _ if dpdk => Ok(None),
        (Some(selector), ..) => Ok(Some(selector.clone())),
        (None, Some(id), _) => Ok(Some(Selector::Directory(network_of(id, devices)?))),
        (None, None, Some(directory)) => Ok(Some(Selector::Directory(directory.join("net")))),
        (None, None, None) => Err(no_device()),
    }
}

/// The directory of a device on the auxiliary bus; none for one on the PCI bus.
fn auxiliary(id: &DeviceId, devices: &mut dyn Devices) -> Result<Option<PathBuf>, Error> {
    let [pci, auxiliary] = [PCI, AUXILIARY].map(|bus| Path::new(bus).join(id.as_str()));
    if devices.entries(&pci)?.is_some() {
        return Ok(None);
    }
    match devices.entries(&auxiliary)? {
        Some(_) => Ok(Some(auxiliary)),
        None => {
            let id = id.as_str();
            Err(fail!(InvalidConfig, "runtime config DeviceID {id} not found or unsupported"))
        }
    }
}

fn is_driven_by_program(id: &DeviceId, devices: &mut dyn Devices) -> Result<bool, Error> {
    let driver = devices.leads_to(&Path::new(PCI).join(id.as_str()).join("driver"))?;
    Ok(driver.is_some_and(|driver| DPDK_DRIVERS.contains(&driver.as_str()) || driver.contains("vfio")))
}

/// The directory of the links of a PCI device, which for virtio is below that of another device.
fn network_of(id: &DeviceId, devices: &mut dyn Devices) -> Result<PathBuf, Error> {
    let device = Path::new(PCI).join(id.as_str());
    let inside = devices.entries(&device)?.unwrap_or_default();
    if inside.iter().any(|name| name == "net") {
        return Ok(device.join("net"));
    }
    for name in inside.iter().filter(|name| name.starts_with("virtio")) {
        let network = device.join(name).join("net");
        if devices.entries(&network)?.is_some() {
            return Ok(network);
        }
    }
    // It is not a network device, has no driver, or does not exist.
    let id = id.as_str();
    Err(fail!(InvalidConfig, "failed to find host device: no net directory under pci device {id}"))
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
pub fn find(target: &Selector, host: &mut dyn Host) -> Result<FoundLink, Error> {
    let link = match target {
        Selector::Name(name) => return by_name(name, host),
        Selector::Mac(mac) => by_mac(mac, host)?,
        Selector::Directory(directory) => {
            let name = link_in(directory, host.devices())?;
            look_up(&name, host)?.ok_or_else(|| no_link(&name))?
        }
    };
    let earlier = MovedLink::of_lost(&link, host)?;
    Ok(FoundLink { link, earlier })
}

fn by_name(name: &str, host: &mut dyn Host) -> Result<FoundLink, Error> {
    if let Some(link) = look_up(name, host)? {
        return Ok(FoundLink { link, earlier: None });
    }
    let lost = find_lost(name, host)?.ok_or_else(|| no_link(name))?;
    let earlier = MovedLink::of_lost(&lost, host)?.unwrap_or_else(|| MovedLink::by_alias(&lost, name));
    Ok(FoundLink { link: lost, earlier: Some(earlier) })
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

/// The first link in a directory of devices, in the order of names.
fn link_in(directory: &Path, devices: &mut dyn Devices) -> Result<String, Error> {
    let (found, directory) = (devices.entries(directory)?, directory.display());
    let problem = match found.map(|names| names.into_iter().next()) {
        Some(Some(name)) => return Ok(name),
        Some(None) => format!("failed to find network device in path {directory}"),
        None => format!("failed to read directory {directory}: no such file or directory"),
    };
    Err(fail!(InvalidConfig, "failed to find host device: {problem}"))
}
