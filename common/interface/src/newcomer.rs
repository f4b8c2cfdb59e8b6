//! Finds the container of other plugins, such as the reference's, that has got the address of one that is gone.
//!
//! These plugins record nothing about their containers, and what they make for an address, such as a rule that names nothing else,
//! looks the same for each container that has it. A container of ours is known by the alias of its veth, and by records.

use std::net::IpAddr;

use cni_core::error::Error;
use cni_core::names::Attachment;
use cni_core::result::CniResult;
use cni_model::link::Link;
use cni_model::plan::Ns;
use cni_plugin::host::{Host, LinkQuery};

use crate::alias::LinkOwner;

/// Finds the veth of a container of other projects' plugins that has `address` now. `gone` is the attachment that had it before;
/// `result` is the result of that attachment's ADD, so that its own veth is not taken for a newcomer's.
///
/// # Errors
/// When the kernel does not answer.
pub fn find(
    address: IpAddr,
    gone: &Attachment,
    result: &CniResult,
    host: &mut dyn Host,
) -> Result<Option<Link>, Error> {
    let is_own = |link: &Link| result.interfaces.iter().any(|one| one.sandbox.is_empty() && one.name == link.name);
    for link in host.links(Ns::Host, LinkQuery::Kind("veth"))? {
        if LinkOwner::of(&link, gone) != LinkOwner::Unlabelled || is_own(&link) {
            continue;
        }
        let found = host.namespaces().peer_addresses(&link)?.unwrap_or_default();
        if found.iter().any(|one| one.cidr.address() == address) {
            return Ok(Some(link));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cni_core::result::Interface;

    use crate::fixtures::{attachment, host_with_veth};

    const ADDRESS: [u8; 4] = [10, 1, 2, 5];

    #[test]
    fn only_a_container_of_other_plugins_with_the_address_is_one() {
        let gone = attachment("gone", "eth0");
        for (alias, address, is_found) in [
            (None, ADDRESS, true),
            (Some("uplink"), ADDRESS, true),
            (None, [10, 1, 2, 6], false),
            (Some("cni:net1:gone:eth0"), ADDRESS, false),
            (Some("cni:net1:c1:eth0"), ADDRESS, false),
        ] {
            let (mut host, end) = host_with_veth(alias, ADDRESS);
            let found = find(address.into(), &gone, &CniResult::default(), &mut host).expect("an answer");
            assert_eq!(found.is_some(), is_found, "{alias:?} {address:?}");
            let interfaces = vec![Interface { name: end.name, ..Interface::default() }];
            let result = CniResult { interfaces, ..CniResult::default() };
            assert_eq!(find(address.into(), &gone, &result, &mut host).expect("an answer"), None, "it is its own");
        }
    }
}
