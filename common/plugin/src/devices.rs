//! Questions about devices, each used by one or two plugins only.

use std::path::Path;

use cni_core::error::Error;
use cni_model::link::{Link, OtherEnd};
use cni_model::plan::Ns;
use cni_model::traffic::{RedirectPart, TrafficControl};
use cni_model::vlan::BridgeVlan;

/// The devices of the machine.
pub trait Devices {
    /// Lists the names in a directory of `/sys` or `/dev`, in order; `None` if the directory is missing.
    fn entries(&mut self, directory: &Path) -> Result<Option<Vec<String>>, Error>;

    /// Returns the last part of a symbolic link's target, which for `driver` is the driver's name; `None` if the link
    /// is missing.
    fn leads_to(&mut self, link: &Path) -> Result<Option<String>, Error>;

    /// Whether the kernel can create links of a kind, such as `dummy`; it loads the module if needed. No link is
    /// created.
    fn has_link_kind(&mut self, kind: &'static str) -> Result<bool, Error>;

    /// Returns where a link leads, in the numbers of the host; `None` when it leads nowhere, or no further than its own
    /// container.
    fn other_end(&mut self, ns: Ns, link: &Link) -> Result<Option<OtherEnd>, Error>;

    /// The VLANs of a bridge's port; none for a link that is no port.
    fn port_vlans(&mut self, ns: Ns, index: u32) -> Result<Vec<BridgeVlan>, Error>;

    /// The traffic control of a link.
    fn traffic_control(&mut self, ns: Ns, index: u32) -> Result<TrafficControl, Error>;

    /// Returns the first part that the kernel lacks for redirecting packets between links; it loads modules if needed.
    /// It is tried in a namespace of its own.
    fn missing_redirect_part(&mut self) -> Result<Option<RedirectPart>, Error>;
}
