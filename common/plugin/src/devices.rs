//! What the kernel says of devices, beyond what every link has. Each question is one or two plugins' alone.

use std::path::Path;

use cni_core::error::Error;
use cni_model::link::{Link, OtherEnd};
use cni_model::plan::Ns;
use cni_model::traffic::{RedirectPart, TrafficControl};
use cni_model::vlan::BridgeVlan;

/// The devices of the machine.
pub trait Devices {
    /// The names in a directory of `/sys` or `/dev`, in order; `None` when there is no such directory.
    ///
    /// # Errors
    /// When it is there and cannot be read.
    fn entries(&mut self, directory: &Path) -> Result<Option<Vec<String>>, Error>;

    /// The last part of where a symbolic link leads, which for `driver` is the driver's name; `None` when there is no such link.
    ///
    /// # Errors
    /// When it is there and cannot be read.
    fn leads_to(&mut self, link: &Path) -> Result<Option<String>, Error>;

    /// Whether the kernel can make links of a kind, by its own word, such as `dummy`; it loads their module if it has to. No
    /// link is made.
    ///
    /// # Errors
    /// When the kernel does not answer.
    fn has_link_kind(&mut self, kind: &'static str) -> Result<bool, Error>;

    /// Returns where a link leads, in the numbers of the host; `None` when it leads nowhere, or no further than its own
    /// container.
    ///
    /// # Errors
    /// When the kernel does not answer.
    fn other_end(&mut self, ns: Ns, link: &Link) -> Result<Option<OtherEnd>, Error>;

    /// The VLANs of a bridge's port; none for a link that is no port.
    ///
    /// # Errors
    /// When the kernel does not answer.
    fn port_vlans(&mut self, ns: Ns, index: u32) -> Result<Vec<BridgeVlan>, Error>;

    /// The traffic control of a link.
    ///
    /// # Errors
    /// When the kernel does not answer.
    fn traffic_control(&mut self, ns: Ns, index: u32) -> Result<TrafficControl, Error>;

    /// The first part that the kernel lacks to redirect packets from one link to another; it loads modules if it has to. It is
    /// tried in a namespace that nobody else sees.
    ///
    /// # Errors
    /// When no namespace can be made.
    fn missing_redirect_part(&mut self) -> Result<Option<RedirectPart>, Error>;
}
