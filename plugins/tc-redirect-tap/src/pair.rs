//! Finds the tap device of an attachment: by the result, by its alias, or by the redirect of the interface.

use cni_core::error::Error;
use cni_core::fail;
use cni_core::names::{Attachment, ContainerId, IfName};
use cni_core::result::{CniResult, Interface};
use cni_interface::alias::LinkOwner;
use cni_model::link::Link;
use cni_model::plan::Ns;
use cni_plugin::host::{Host, LinkQuery};

use crate::KIND;

/// The two entries that ADD appends to the result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TapEntries<'a> {
    pub tap: &'a Interface,
    pub guest: &'a Interface,
}

impl<'a> TapEntries<'a> {
    /// Finds them as the original does: the virtual machine by its sandbox, which is the container's id, and the device by
    /// the same name elsewhere.
    pub fn of(result: &'a CniResult, container: &ContainerId) -> Result<Self, Error> {
        let id = container.to_string();
        let refused = |text: String| fail!(InvalidConfig, "{text}", details: "it must be the result of the whole list");
        let mut guests = result.interfaces.iter().filter(|interface| interface.sandbox == id);
        let guest = match (guests.next(), guests.next()) {
            (Some(guest), None) => guest,
            (None, _) => {
                let text = format!("prevResult has no interface with sandbox {id:?}");
                return Err(refused(format!("{text}, which is the virtual machine's")));
            }
            (Some(_), Some(_)) => {
                return Err(refused(format!("expected to find at most 1 interface in sandbox {id:?}")));
            }
        };
        let is_tap = |interface: &&Interface| interface.name == guest.name && interface.sandbox != id;
        let tap = result.interfaces.iter().find(is_tap);
        let no_tap = || refused(format!("prevResult has no tap device of the virtual machine {id:?}"));
        let tap = tap.ok_or_else(no_tap)?;
        Ok(Self { tap, guest })
    }
}

/// Whether a link is a tap device.
pub fn is_tap(link: &Link) -> bool {
    link.kind.as_deref() == Some(KIND) && link.tap.is_some()
}

/// The tap devices of the attachment: ours have its alias; a device of the original has none, and is found by the
/// result, or by the redirect of the interface.
pub fn devices(
    at: &Attachment,
    result: Option<&CniResult>,
    interface: Option<&Link>,
    host: &mut dyn Host,
) -> Result<Vec<Link>, Error> {
    let named = result.and_then(|result| TapEntries::of(result, &at.container).ok()).map(|pair| pair.tap.name.clone());
    let targets = targets(interface, host)?;
    let mut found = Vec::new();
    for link in host.links(Ns::Container, LinkQuery::Kind(KIND))?.into_iter().filter(is_tap) {
        let is_own = match LinkOwner::of(&link, at) {
            LinkOwner::This => true,
            LinkOwner::Another => false,
            LinkOwner::Unlabelled => {
                named.as_deref() == Some(link.name.as_str())
                    || targets.contains(&link.index) && leads_back(&link, interface, host)?
            }
        };
        found.extend(is_own.then_some(link));
    }
    Ok(found)
}

/// The indices of the links to which the frames of an interface go.
pub fn targets(interface: Option<&Link>, host: &mut dyn Host) -> Result<Vec<u32>, Error> {
    interface.map_or(Ok(Vec::new()), |link| Ok(host.devices().traffic_control(Ns::Container, link.index)?.redirects))
}

fn leads_back(tap: &Link, interface: Option<&Link>, host: &mut dyn Host) -> Result<bool, Error> {
    let back = targets(Some(tap), host)?;
    Ok(interface.is_some_and(|link| back.contains(&link.index)))
}

/// The name of a link, which the kernel has accepted.
pub fn name(link: &Link) -> Result<IfName, Error> {
    Ok(IfName::parse(&link.name)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_device_is_found_by_the_name_that_the_guest_has_alone() {
        let of = |entries: &[(&str, &str)]| {
            let interface = |(name, sandbox): &(&str, &str)| Interface {
                name: (*name).to_owned(),
                sandbox: (*sandbox).to_owned(),
                ..Interface::default()
            };
            let result = CniResult { interfaces: entries.iter().map(interface).collect(), ..CniResult::default() };
            let found = TapEntries::of(&result, &ContainerId::parse("c1").expect("an id"));
            found.map(|pair| pair.tap.sandbox.clone()).map_err(|error| error.to_string())
        };
        let no_guest = r#"prevResult has no interface with sandbox "c1", which is the virtual machine's"#;
        let several = r#"expected to find at most 1 interface in sandbox "c1""#;
        let no_tap = r#"prevResult has no tap device of the virtual machine "c1""#;
        assert_eq!(of(&[("eth0", "/n"), ("tap0", "/n"), ("tap0", "c1")]), Ok("/n".to_owned()));
        assert_eq!(of(&[("eth0", "/n"), ("tap0", "/n")]), Err(no_guest.to_owned()));
        assert_eq!(of(&[("tap0", "/n"), ("tap0", "c1"), ("tap0", "c1")]), Err(several.to_owned()));
        assert_eq!(of(&[("eth0", "/n"), ("tap0", "c1")]), Err(no_tap.to_owned()));
    }
}
