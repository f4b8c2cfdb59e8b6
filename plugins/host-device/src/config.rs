//! The keys of the host-device plugin, checked before anything is done.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cni_core::error::Error;
use cni_core::fail;
use cni_core::mac::{Mac, MacError};
use cni_core::request::Request;
use cni_core::result::Dns;
use cni_interface::keys::IpamKey;
use serde::Deserialize;
use serde::de::IgnoredAny;

/// The name of a device on a bus, such as `0000:3d:00.1`: one part of a path below `/sys`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceId(String);

impl DeviceId {
    fn parse(key: &'static str, id: String) -> Result<Self, Error> {
        let is_part = !["", ".", ".."].contains(&id.as_str()) && !id.contains(['/', '\0']);
        if is_part { Ok(Self(id)) } else { Err(fail!(InvalidConfig, "{key} {id:?} is not the name of a device")) }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The key that selects the link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    /// By its name, or another one that it has.
    Name(String),
    /// By its link-layer address.
    Mac(Mac),
    /// By the directory of its device's links.
    Directory(PathBuf),
}

/// A configuration that can be carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The link; `None` if only the device is named.
    pub selector: Option<Selector>,
    /// The device on the PCI bus.
    pub pci: Option<DeviceId>,
    /// The device that the runtime has chosen, on the PCI or the auxiliary bus.
    pub device_id: Option<DeviceId>,
    /// Whether a program drives the device, so that the kernel has no link for it.
    pub dpdk: bool,
    /// The IPAM plugin; none for an interface without addresses.
    pub ipam: Option<String>,
    /// Name resolution, instead of the IPAM plugin's.
    pub dns: Dns,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Keys {
    device: String,
    hwaddr: String,
    kernelpath: String,
    #[serde(rename = "pciBusID")]
    pci_bus_id: String,
    #[serde(rename = "DPDKMode")]
    dpdk_mode: bool,
    ipam: IpamKey,
    dns: Dns,
    runtime_config: RuntimeKeys,
    /// Not used by ADD, but a runtime that sends something else than an object is not understood.
    prev_result: BTreeMap<String, IgnoredAny>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RuntimeKeys {
    #[serde(rename = "deviceID")]
    device_id: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct DeviceOnly {
    device: String,
}

/// The interface's name in the configuration, even if the rest is invalid: DEL may have nothing else.
pub fn configured_name(request: &Request) -> Option<String> {
    let DeviceOnly { device } = request.decode().ok()?;
    Some(device).filter(|name| !name.is_empty())
}

impl Config {
    /// Reads and checks every key.
    pub fn load(request: &Request) -> Result<Self, Error> {
        let keys: Keys = request.decode()?;
        let id = |key, id: String| (!id.is_empty()).then(|| DeviceId::parse(key, id)).transpose();
        let pci = id("pciBusID", keys.pci_bus_id)?;
        let device_id = id("deviceID", keys.runtime_config.device_id)?;
        let selector = selector(keys.device, keys.hwaddr, keys.kernelpath)?;
        if selector.is_none() && pci.is_none() && device_id.is_none() {
            return Err(no_device());
        }
        Ok(Self { selector, pci, device_id, dpdk: keys.dpdk_mode, ipam: keys.ipam.plugin(), dns: keys.dns })
    }
}

/// No key says which device.
pub fn no_device() -> Error {
    fail!(InvalidConfig, r#"specify either "device", "hwaddr", "kernelpath" or "pciBusID""#)
}

/// The first that is given; what is given with it is not looked at, as in the reference.
fn selector(device: String, hwaddr: String, kernelpath: String) -> Result<Option<Selector>, Error> {
    Ok(if !device.is_empty() {
        Some(Selector::Name(device))
    } else if !hwaddr.is_empty() {
        let refused = |error: MacError| fail!(InvalidConfig, "failed to parse MAC address {hwaddr:?} of hwaddr", details: "{error}");
        Some(Selector::Mac(hwaddr.parse().map_err(refused)?))
    } else if !kernelpath.is_empty() {
        Some(Selector::Directory(kernel_path(&kernelpath)?.join("net")))
    } else {
        None
    })
}

/// `..` would lead out of the devices.
fn kernel_path(path: &str) -> Result<&Path, Error> {
    let leaves = path.split('/').any(|part| part == "..") || path.contains('\0');
    if path.starts_with("/sys/devices/") && !leaves {
        return Ok(Path::new(path));
    }
    let text = format!("kernel device path {path:?} must be absolute and begin with /sys/devices/");
    Err(fail!(InvalidConfig, "kernelpath: {text}"))
}
