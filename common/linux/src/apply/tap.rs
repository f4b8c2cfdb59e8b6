//! Creates a tap device inside the container, with all its properties, before it is made persistent.

use std::error::Error as _;
use std::io;

use cni_core::error::{Code, Error, Failure};
use cni_model::plan::{NewLink, Ns, TapHeaders, TapOptions};

use super::look_up::index;
use crate::machine::LinuxHost;
use cni_kernel::netlink::Errno;
use cni_kernel::tun::NewTap;

/// Errors of creating a tap device; nothing of it is left.
#[derive(Debug, thiserror::Error)]
enum TapCreateError {
    /// The driver is missing, or refuses.
    #[error("failed to create tap: {}", plain(source))]
    Refused {
        #[source]
        source: io::Error,
    },
    /// There is no SELinux, or it does not have the label.
    #[error("failed to create tap under SELinux label {label:?}: {}", plain(source))]
    Label {
        label: String,
        #[source]
        source: io::Error,
    },
}

fn plain(error: &io::Error) -> String {
    error.raw_os_error().map_or_else(|| error.to_string(), |number| Errno::new(number).to_string())
}

impl Failure for TapCreateError {
    fn code(&self) -> Code {
        match self {
            Self::Refused { source } => match source.raw_os_error() {
                Some(libc::EBUSY) => Code::Conflict,
                Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => Code::UnsupportedField,
                Some(_) | None => Code::Kernel,
            },
            Self::Label { .. } => Code::Kernel,
        }
    }

    fn details(&self) -> String {
        match self {
            Self::Refused { source } if source.kind() == io::ErrorKind::NotFound => {
                "/dev/net/tun does not exist: load the module tun".to_owned()
            }
            Self::Label { .. } => "selinuxContext needs a host with SELinux, and a label that it has".to_owned(),
            Self::Refused { source } => source.source().map(ToString::to_string).unwrap_or_default(),
        }
    }
}

/// The properties of a tap device, besides name, MAC address and MTU.
#[derive(Clone, Copy)]
pub(super) struct TapSettings<'a> {
    pub(super) tap: TapOptions,
    pub(super) headers: TapHeaders,
    pub(super) label: Option<&'a str>,
    pub(super) alias: Option<&'a str>,
}

/// Makes a tap device. It is made persistent last, so nothing is left of one that fails before.
pub(super) fn create(host: &mut LinuxHost, ns: Ns, link: &NewLink, settings: TapSettings<'_>) -> Result<(), Error> {
    let NewLink { name, mac, mtu, .. } = link;
    let TapSettings { tap, headers, label, alias } = settings;
    let failed = |source| match label {
        None => TapCreateError::Refused { source },
        Some(label) => TapCreateError::Label { label: label.to_owned(), source },
    };
    let new = host.side(ns)?.within(|| NewTap::make(name, tap, headers, label)).map_err(failed)?;
    let made = index(host, ns, name)?;
    let socket = host.socket(ns)?;
    mac.as_ref().map_or(Ok(()), |mac| socket.set_mac(made, mac))?;
    mtu.map_or(Ok(()), |mtu| socket.set_mtu(made, mtu))?;
    alias.map_or(Ok(()), |alias| socket.set_alias(made, alias))?;
    Ok(new.keep().map_err(|source| TapCreateError::Refused { source })?)
}
