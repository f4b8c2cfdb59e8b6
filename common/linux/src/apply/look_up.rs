//! Finds the link of a step.

use cni_core::error::Error;
use cni_core::names::IfName;
use cni_model::link::Link;
use cni_model::plan::Ns;

use crate::machine::{HostError, LinuxHost};

/// The index of a link that must exist.
pub(super) fn index(host: &mut LinuxHost, ns: Ns, name: &IfName) -> Result<u32, Error> {
    Ok(present(host, ns, name)?.index)
}

/// A link that must exist.
pub(super) fn present(host: &mut LinuxHost, ns: Ns, name: &IfName) -> Result<Link, Error> {
    let link = host.socket(ns)?.link(name.as_str())?;
    link.ok_or_else(|| HostError::NoLink { ns, name: name.to_string() }.into())
}
