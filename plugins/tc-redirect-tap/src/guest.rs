//! The tap device of an attachment and its virtual machine: their entries in the result, and how the device is found, by the
//! result, by its alias, or by the redirect of the interface.

use cni_core::error::Error;
use cni_core::fail;
use cni_core::names::{Attachment, ContainerId, IfName};
use cni_core::request::Request;
use cni_core::result::{CniResult, Interface, IpConfig};
use cni_core::version::Version;
use cni_interface::alias::LinkOwner;
use cni_interface::network::described;
use cni_model::link::Link;
use cni_model::plan::Ns;
use cni_plugin::host::{Host, LinkQuery};

/// The kernel's word for tap devices.
pub const KIND: &str = "tun";

/// The addresses of the interface, which the virtual machine takes over. Those that name no interface are among them, unless
/// they may be another interface's.
pub fn addresses(
    result: &CniResult,
    ifname: &IfName,
    is_inside: impl Fn(&Interface) -> bool,
) -> Result<Vec<IpConfig>, Error> {
    let is_own = |interface: &Interface| interface.name == ifname.as_str() && is_inside(interface);
    let inside = result.interfaces.iter().filter(|interface| is_inside(interface)).count();
    let may_be_own = inside == 1 || !result.interfaces.iter().any(is_own);
    let mut found = Vec::new();
    for ip in &result.ips {
        let is_guests = match ip.interface {
            None => may_be_own,
            Some(index) => {
                let address = ip.address;
                let unknown = || fail!(InvalidConfig, "prevResult has no interface {index} of address {address}");
                let named = usize::try_from(index).ok().and_then(|index| result.interfaces.get(index));
                is_own(named.ok_or_else(unknown)?)
            }
        };
        found.extend(is_guests.then_some(*ip));
    }
    Ok(found)
}

/// The interfaces of a result that are in the container's namespace, by any path of it.
pub fn inside(result: &CniResult, netns: &str, host: &mut dyn Host) -> Result<Vec<Interface>, Error> {
    let mut found = Vec::new();
    for interface in &result.interfaces {
        let path = interface.sandbox.as_str();
        if !path.is_empty() && (path == netns || host.namespaces().leads_to_container(path)?) {
            found.push(interface.clone());
        }
    }
    Ok(found)
}

/// Appends the tap device, the virtual machine under the container's id, and its own copy of each address.
pub fn append(
    result: &mut CniResult,
    request: &Request,
    at: &Attachment,
    (tap, link): (&Link, &Link),
    ips: Vec<IpConfig>,
) {
    let mtu = if request.version == Version::V1_1_0 { tap.mtu.into() } else { 0 };
    let device = Interface { mtu, ..described(tap, request.netns().unwrap_or_default()) };
    let guest = Interface { name: tap.name.clone(), ..described(link, at.container.as_str()) };
    result.interfaces.extend([device, guest]);
    let interface = i64::try_from(result.interfaces.len() - 1).ok();
    result.ips.extend(ips.into_iter().map(|ip| IpConfig { interface, ..ip }));
}

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

#[cfg(test)]
mod tests {
    use super::*;

    const NETNS: &str = "/run/netns/c1";

    fn result(interfaces: &[(&str, &str)], ips: &[Option<i64>]) -> CniResult {
        let interface = |(name, sandbox): &(&str, &str)| Interface {
            name: (*name).to_owned(),
            sandbox: (*sandbox).to_owned(),
            ..Interface::default()
        };
        let ip = |(last, interface): (usize, &Option<i64>)| {
            let address = format!("10.1.2.{}/24", last + 1).parse().expect("an address");
            IpConfig { interface: *interface, address, gateway: None }
        };
        let ips = ips.iter().enumerate().map(ip).collect();
        CniResult { interfaces: interfaces.iter().map(interface).collect(), ips, ..CniResult::default() }
    }

    fn guests(result: &CniResult) -> Result<Vec<String>, Error> {
        let eth0 = IfName::parse("eth0").expect("a name");
        let found = addresses(result, &eth0, |interface| interface.sandbox == NETNS)?;
        Ok(found.iter().map(|ip| ip.address.to_string()).collect())
    }

    #[test]
    fn the_guest_takes_the_addresses_of_the_interface() {
        let bridged = [("br0", ""), ("veth0", ""), ("eth0", NETNS), ("eth1", NETNS), ("eth0", "/run/netns/other")];
        for (interfaces, ips, want) in [
            (&bridged[..], &[Some(2), Some(3), Some(4), Some(0)][..], &["10.1.2.1/24"][..]),
            (&bridged[..], &[Some(2), Some(2)], &["10.1.2.1/24", "10.1.2.2/24"]),
            // It may be eth1's.
            (&bridged[..], &[None, Some(2)], &["10.1.2.2/24"]),
            // As Cilium answers.
            (&bridged[..3], &[None, None], &["10.1.2.1/24", "10.1.2.2/24"]),
            (&[], &[None], &["10.1.2.1/24"]),
            (&[("lxc0", "")], &[None], &["10.1.2.1/24"]),
            (&bridged[..3], &[], &[]),
        ] {
            assert_eq!(guests(&result(interfaces, ips)).expect("readable"), want, "{interfaces:?} {ips:?}");
        }
    }

    #[test]
    fn an_address_of_an_interface_that_does_not_exist_is_refused() {
        for index in [1, -1, i64::MAX] {
            let error = guests(&result(&[("eth0", NETNS)], &[Some(index)])).expect_err("no such index");
            assert_eq!(error.to_string(), format!("prevResult has no interface {index} of address 10.1.2.1/24"));
        }
    }

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
