//! Finds the links of devices in `/sys`, which shows the links of the namespace that it was mounted in.

use std::path::{Path, PathBuf};

use cni_core::error::Error;
use cni_core::fail;
use cni_core::mac::Mac;
use cni_plugin::devices::Devices;

use crate::config::{Config, DeviceId, Selector, no_device};

/// How to find the interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceSearch {
    /// A program drives the device: there is no interface to move.
    Dpdk,
    /// The one of a name.
    Name(String),
    /// The one of a link-layer address.
    Mac(Mac),
    /// The one in a directory of devices.
    Network(PathBuf),
}

/// Drivers that leave a device to a program. Those of vendors have `vfio` in their names.
const DPDK_DRIVERS: [&str; 2] = ["uio_pci_generic", "igb_uio"];

const PCI: &str = "/sys/bus/pci/devices";
const AUXILIARY: &str = "/sys/bus/auxiliary/devices";

/// Resolves the configured device on this machine. A device that the runtime has chosen replaces `pciBusID`; a
/// configured interface has precedence over both.
pub fn resolve(config: &Config, devices: &mut dyn Devices) -> Result<DeviceSearch, Error> {
    let auxiliary = match &config.device_id {
        Some(id) => auxiliary(id, devices)?,
        None => None,
    };
    let pci = match (&config.device_id, &auxiliary) {
        (Some(_), Some(_)) => None,
        (Some(id), None) => Some(id),
        (None, _) => config.pci.as_ref(),
    };
    let dpdk = match pci {
        Some(id) => is_driven_by_program(id, devices)?,
        None => config.dpdk,
    };
    Ok(match (&config.selector, pci, auxiliary) {
        _ if dpdk => DeviceSearch::Dpdk,
        (Some(Selector::Name(name)), ..) => DeviceSearch::Name(name.clone()),
        (Some(Selector::Mac(mac)), ..) => DeviceSearch::Mac(mac.clone()),
        (Some(Selector::KernelPath(path)), ..) => DeviceSearch::Network(path.join("net")),
        (None, Some(id), _) => DeviceSearch::Network(network_of(id, devices)?),
        (None, None, Some(directory)) => DeviceSearch::Network(directory.join("net")),
        (None, None, None) => return Err(no_device()),
    })
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

/// The first link in a directory of devices, in the order of names.
pub fn link_in(directory: &Path, devices: &mut dyn Devices) -> Result<String, Error> {
    let (found, directory) = (devices.entries(directory)?, directory.display());
    let problem = match found.map(|names| names.into_iter().next()) {
        Some(Some(name)) => return Ok(name),
        Some(None) => format!("failed to find network device in path {directory}"),
        None => format!("failed to read directory {directory}: no such file or directory"),
    };
    Err(fail!(InvalidConfig, "failed to find host device: {problem}"))
}
