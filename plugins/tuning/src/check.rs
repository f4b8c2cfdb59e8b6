//! CHECK: verifies that everything still has the value that ADD set. It compares values, not spellings, and ignores
//! what is not configured.

use cni_core::error::Error;
use cni_core::fail;
use cni_core::names::IfName;
use cni_core::request::Request;
use cni_interface::verify;
use cni_model::link::Link;
use cni_model::plan::{Ns, Sysctl};
use cni_plugin::host::Host;

use crate::config::Config;
use crate::properties::Properties;
use crate::sysctl::{is_same, is_write_only};

pub fn check(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let config = Config::load(request)?;
    verify::prev_result(request)?;
    let name = request.attachment()?.ifname;
    host.enter(request.netns().unwrap_or_default())?;
    for parameter in &config.parameters {
        verify_parameter(&parameter.name.of(&name), &parameter.value, host)?;
    }
    let no_link = || fail!(CheckFailed, "Cannot find container link {name}");
    verify_properties(&config.wanted, &host.link(Ns::Container, &name)?.ok_or_else(no_link)?, &name)
}

/// One that can only be written has no value to compare.
fn verify_parameter(key: &Sysctl, wanted: &str, host: &mut dyn Host) -> Result<(), Error> {
    match host.files().sysctl(Ns::Container, key) {
        Err(_) if is_write_only(key) => Ok(()),
        found => compare(key, wanted, found?),
    }
}

fn compare(key: &Sysctl, wanted: &str, found: Option<String>) -> Result<(), Error> {
    match found {
        Some(found) if is_same(&found, wanted) => Ok(()),
        found => {
            let (path, found) = (key.path(), found.unwrap_or_else(|| "not there".to_owned()));
            let text = format!("configured value of /proc/sys/{path} is {wanted}");
            Err(fail!(CheckFailed, "Error: Tuning {text}, current value is {found}"))
        }
    }
}

fn verify_properties(wanted: &Properties, link: &Link, name: &IfName) -> Result<(), Error> {
    let found = Properties::before(link, wanted);
    let texts = texts(wanted).into_iter().zip(texts(&found));
    for ((property, wanted), (_, found)) in texts {
        if wanted != found {
            let [wanted, found] = [wanted, found].map(|value| value.unwrap_or_else(|| "none".to_owned()));
            let text = format!("configured {property} of {name} is {wanted}");
            return Err(fail!(CheckFailed, "Error: Tuning {text}, current value is {found}"));
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
