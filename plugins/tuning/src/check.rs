//! CHECK: verifies that everything still has the value that ADD set. It compares values, not spellings, and ignores
//! what is not configured.

use cni_core::error::{Code, Error, Failure};
use cni_core::names::IfName;
use cni_core::request::Request;
use cni_interface::verify;
use cni_model::link::Link;
use cni_model::plan::{Ns, Sysctl};
use cni_plugin::host::Host;

use crate::config::Config;
use crate::properties::Properties;
use crate::sysctl::{is_same, is_write_only};

/// Something has another value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckError {
    /// A kernel parameter.
    #[error("Error: Tuning configured value of /proc/sys/{path} is {wanted}, current value is {found}")]
    Parameter { path: String, wanted: String, found: String },
    /// The interface is missing.
    #[error("Cannot find container link {name}")]
    NoLink { name: String },
    /// A property of the interface.
    #[error("Error: Tuning configured {property} of {name} is {wanted}, current value is {found}")]
    Property { property: &'static str, name: String, wanted: String, found: String },
}

impl Failure for CheckError {
    fn code(&self) -> Code {
        match self {
            Self::Parameter { .. } | Self::NoLink { .. } | Self::Property { .. } => Code::CheckFailed,
        }
    }
}

pub fn check(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let config = Config::load(request)?;
    verify::prev_result(request)?;
    let name = request.attachment()?.ifname;
    host.enter(request.netns().unwrap_or_default())?;
    for parameter in &config.parameters {
        verify_parameter(&parameter.name.of(&name), &parameter.value, host)?;
    }
    let link = host.link(Ns::Container, &name)?.ok_or_else(|| CheckError::NoLink { name: name.to_string() })?;
    Ok(verify_properties(&config.wanted, &link, &name)?)
}

/// One that can only be written has no value to compare.
fn verify_parameter(key: &Sysctl, wanted: &str, host: &mut dyn Host) -> Result<(), Error> {
    match host.files().sysctl(Ns::Container, key) {
        Err(_) if is_write_only(key) => Ok(()),
        found => Ok(compare(key, wanted, found?)?),
    }
}

fn compare(key: &Sysctl, wanted: &str, found: Option<String>) -> Result<(), CheckError> {
    match found {
        Some(found) if is_same(&found, wanted) => Ok(()),
        found => {
            let found = found.unwrap_or_else(|| "not there".to_owned());
            Err(CheckError::Parameter { path: key.path(), wanted: wanted.to_owned(), found })
        }
    }
}

fn verify_properties(wanted: &Properties, link: &Link, name: &IfName) -> Result<(), CheckError> {
    let found = Properties::before(link, wanted);
    let texts = texts(wanted).into_iter().zip(texts(&found));
    for ((property, wanted), (_, found)) in texts {
        if wanted != found {
            let name = name.to_string();
            let text = |value: Option<String>| value.unwrap_or_else(|| "none".to_owned());
            return Err(CheckError::Property { property, name, wanted: text(wanted), found: text(found) });
        }
    }
    Ok(())
}

/// The properties under the reference's words, in its order.
fn texts(properties: &Properties) -> [(&'static str, Option<String>); 5] {
    let Properties { mac, promisc, mtu, all_multicast, tx_queue_length } = properties;
    [
        ("Ethernet", mac.as_ref().map(ToString::to_string)),
        ("promiscuous mode", promisc.map(|on| on.to_string())),
        ("MTU", mtu.map(|mtu| mtu.to_string())),
        ("all-multicast mode", all_multicast.map(|on| on.to_string())),
        ("Transmit Queue Length", tx_queue_length.map(|packets| packets.to_string())),
    ]
}
