//! The entries of the virtual machine in the result: the device that it opens, and the addresses that it takes over.

use cni_core::error::Error;
use cni_core::fail;
use cni_core::names::{Attachment, IfName};
use cni_core::request::Request;
use cni_core::result::{CniResult, Interface, IpConfig};
use cni_core::version::Version;
use cni_interface::result::described;
use cni_model::link::Link;
use cni_plugin::host::Host;

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
                is_own(interface(result, index).ok_or_else(unknown)?)
            }
        };
        found.extend(is_guests.then_some(*ip));
    }
    Ok(found)
}

fn interface(result: &CniResult, index: i64) -> Option<&Interface> {
    usize::try_from(index).ok().and_then(|index| result.interfaces.get(index))
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
}
