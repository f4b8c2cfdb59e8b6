//! Finds the container of other plugins, such as the reference's, that has got the address of one that is gone.
//!
//! These plugins record nothing about their containers, and what they make for an address, such as a rule that names nothing else,
//! looks the same for each container that has it. A container of ours is known by the alias of its veth, and by records.

use std::net::IpAddr;

use cni_core::error::Error;
use cni_core::names::{Attachment, IfName};
use cni_core::result::CniResult;
use cni_model::link::Link;
use cni_model::plan::Ns;
use cni_plugin::host::{Host, LinkQuery};
use cni_plugin::namespace::RecordedNamespace;

use crate::alias::LinkOwner;
use crate::earlier;

/// The kind of link.
const VETH: &str = "veth";

/// An attachment that may no longer have an address.
#[derive(Clone, Copy, Debug)]
pub struct FormerHolder<'a> {
    /// The attachment.
    pub at: &'a Attachment,
    /// Its namespace, if it is recorded.
    pub home: Option<&'a RecordedNamespace>,
    /// The result of its ADD, which names its end of a veth on the host; an empty one if it is not known.
    pub result: &'a CniResult,
}

/// Finds the veth of a container of other projects' plugins that has `address` now. Never returns the veth of the former holder itself.
///
/// # Errors
/// When the kernel does not answer.
pub fn find(address: IpAddr, former: FormerHolder<'_>, host: &mut dyn Host) -> Result<Option<Link>, Error> {
    let ends = &former.result.interfaces;
    let is_own = |link: &Link| ends.iter().any(|one| one.sandbox.is_empty() && one.name == link.name);
    for link in host.links(Ns::Host, LinkQuery::Kind(VETH))? {
        if LinkOwner::of(&link, former.at) != LinkOwner::Unlabelled || is_own(&link) {
            continue;
        }
        let found = host.namespaces().peer_addresses(&link)?.unwrap_or_default();
        if found.iter().any(|one| one.cidr.address() == address)
            && !former.home.is_some_and(|home| may_lead_home(&link, home, host))
        {
            return Ok(Some(link));
        }
    }
    Ok(None)
}

/// Whether the other end of a veth is in the recorded namespace, or in one that ends within a moment. A number that the kernel has
/// chosen does not tell: another namespace may have it by now.
fn may_lead_home(link: &Link, home: &RecordedNamespace, host: &mut dyn Host) -> bool {
    let number = home.number.map(|number| number.value);
    if number.is_none() || link.peer_netns != number {
        return false;
    }
    let is_end = |other: &Link| Some(other.index) == link.peer && other.peer == Some(link.index);
    let views = host.namespaces().survey(Some(VETH));
    let view = views.iter().find(|view| view.links.iter().any(is_end));
    match view.and_then(|view| view.identity.as_deref()) {
        Some(identity) => identity == home.identity,
        None => IfName::parse(&link.name).is_ok_and(|name| earlier::await_end(name, host)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cni_core::result::Interface;
    use cni_testkit::FakeContainer;

    use crate::fixtures::{NETNS, attachment, host_with_veth};

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
            let (unknown, interfaces) =
                (CniResult::default(), vec![Interface { name: end.name, ..Interface::default() }]);
            let former = FormerHolder { at: &gone, home: None, result: &unknown };
            let found = find(address.into(), former, &mut host).expect("an answer");
            assert_eq!(found.is_some(), is_found, "{alias:?} {address:?}");
            let known = CniResult { interfaces, ..CniResult::default() };
            let former = FormerHolder { result: &known, ..former };
            assert_eq!(find(address.into(), former, &mut host).expect("an answer"), None, "it is its own");
        }
    }

    #[test]
    fn a_veth_that_leads_to_the_recorded_namespace_is_its_own() {
        let (gone, result) = (attachment("gone", "eth0"), CniResult::default());
        let (mut host, end) = host_with_veth(None, ADDRESS);
        host.set_container(NETNS, FakeContainer::Present(Some("boot:own".to_owned())));
        let recorded = RecordedNamespace::of_entered(NETNS, &mut host).expect("an answer").expect("a namespace");
        let another = RecordedNamespace { identity: "boot:another".to_owned(), ..recorded.clone() };
        let number = recorded.number.map(|number| number.value);
        let inside =
            (&mut host as &mut dyn Host).link(Ns::Container, &gone.ifname).expect("an answer").expect("eth0").index;
        host.change_link(Ns::Host, &end.name, |link| (link.peer, link.peer_netns) = (Some(inside), number));
        host.change_link(Ns::Container, "eth0", |link| link.peer = Some(end.index));
        for (home, is_found) in [(&recorded, false), (&another, true)] {
            let former = FormerHolder { at: &gone, home: Some(home), result: &result };
            assert_eq!(find(ADDRESS.into(), former, &mut host).expect("an answer").is_some(), is_found, "{home:?}");
        }
    }
}
