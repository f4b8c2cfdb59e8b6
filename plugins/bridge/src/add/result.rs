//! The interfaces in the result of ADD.

use cni_core::error::Error;
use cni_core::names::Attachment;
use cni_core::result::Interface;
use cni_interface::result::described;
use cni_interface::verify::present;
use cni_model::plan::Ns;
use cni_plugin::host::Host;

use super::facts::NewNames;
use crate::config::Config;

/// The place of the container's interface in the result.
pub const CONTAINER: i64 = 2;

/// The bridge, the host's end and the container's end of the veth, and the link to the VLAN if that is the
/// gateway. They are read back: another ADD may have made the bridge in the meantime.
pub fn interfaces(
    config: &Config,
    at: &Attachment,
    names: &NewNames,
    netns: &str,
    host: &mut dyn Host,
) -> Result<Vec<Interface>, Error> {
    let mut interfaces = vec![
        described(&present(Ns::Host, &config.bridge, host)?, ""),
        described(&present(Ns::Host, &names.veth.host, host)?, ""),
        described(&present(Ns::Container, &at.ifname, host)?, netns),
    ];
    if let Some(link) = &config.vlans.gateway {
        interfaces.push(described(&present(Ns::Host, &link.name, host)?, ""));
    }
    Ok(interfaces)
}
