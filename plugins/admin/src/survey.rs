//! Which link-layer addresses and addresses there are in the network namespaces of the machine, and what they say of an attachment.
//!
//! Only a survey without gaps shows that something is nowhere.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use cni_core::error::Error;
use cni_linux::netns_survey::{Gaps, NetnsSurvey, SurveyScope};
use cni_model::link::Link;
use cni_model::netns::NetnsView;
use cni_model::plan::Ns;
use cni_plugin::host::Host;
use cni_plugin::namespace::Life;

use crate::cache::Cached;

/// The link-layer address of links that have none, such as `lo`.
const NO_MAC: &str = "00:00:00:00:00:00";

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// Every network namespace but the host's own, in which no container is: an ipvlan has the MAC address of its master there.
    spaces: Vec<Space>,
    /// What could not be seen.
    gaps: Gaps,
}

/// What is in a network namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Space {
    /// What distinguishes it from all others, if the kernel says so.
    identity: Option<String>,
    /// The link-layer addresses of its links, in lower case.
    macs: BTreeSet<String>,
    /// Its addresses.
    addresses: BTreeSet<IpAddr>,
}

impl Space {
    fn of(view: &NetnsView) -> Self {
        let macs = view.links.iter().filter_map(|link| link.mac.as_ref());
        Self {
            identity: view.identity.clone(),
            macs: macs.map(|mac| mac.to_string().to_ascii_lowercase()).collect(),
            addresses: view.addresses.iter().map(|address| address.cidr.address()).collect(),
        }
    }
}

impl Survey {
    /// Looks at the whole machine, except namespaces of other users than root and `user`; `own` is the identity of the host's namespace.
    pub fn take(user: u32, own: Option<&str>) -> Self {
        Self::of(NetnsSurvey::take(SurveyScope::Everything { user }), own)
    }

    fn of(NetnsSurvey { views, gaps, kept: _ }: NetnsSurvey, own: Option<&str>) -> Self {
        let others = views.iter().filter(|view| own.is_none() || view.identity.as_deref() != own);
        Self { spaces: others.map(Space::of).collect(), gaps }
    }
}

/// What an attachment without a record can be recognized by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Signs {
    /// In lower case.
    pub macs: Vec<String>,
    pub addresses: Vec<IpAddr>,
}

impl Signs {
    pub fn of(cached: &Cached) -> Self {
        let macs = cached.macs.iter().map(|mac| mac.to_ascii_lowercase());
        Self {
            macs: macs.filter(|mac| !mac.is_empty() && mac != NO_MAC).collect(),
            addresses: telling(&cached.addresses),
        }
    }

    pub const fn is_empty(&self) -> bool {
        self.macs.is_empty() && self.addresses.is_empty()
    }
}

/// The addresses that tell something: every namespace has those of loopback.
pub fn telling<'a>(addresses: impl IntoIterator<Item = &'a IpAddr>) -> Vec<IpAddr> {
    addresses.into_iter().filter(|address| !address.is_loopback()).copied().collect()
}

/// Whether the interface of an attachment without a record is in the namespace that is entered: a link of its name, with its
/// link-layer address or one of its addresses. If the result names an interface without a link-layer address, the name is enough.
///
/// # Errors
/// When the kernel does not answer.
pub fn has_interface(cached: &Cached, host: &mut dyn Host) -> Result<bool, Error> {
    match host.link(Ns::Container, &cached.at.ifname)? {
        Some(link) => has_signs(cached, &link, host),
        None => Ok(false),
    }
}

/// Whether the interface in the namespace that is entered has the link-layer address in the result.
///
/// # Errors
/// When the kernel does not answer.
pub fn has_mac(cached: &Cached, host: &mut dyn Host) -> Result<bool, Error> {
    let found = host.link(Ns::Container, &cached.at.ifname)?.and_then(|link| link.mac);
    Ok(found.is_some_and(|found| cached.macs.iter().any(|mac| mac.eq_ignore_ascii_case(&found.to_string()))))
}

/// Whether a link of the namespace that is entered has a link-layer address or an address of the result.
///
/// # Errors
/// When the kernel does not answer.
pub fn has_signs(cached: &Cached, link: &Link, host: &mut dyn Host) -> Result<bool, Error> {
    let found = link.mac.as_ref().map(ToString::to_string).unwrap_or_default();
    if cached.macs.iter().any(|mac| mac.is_empty() || mac.eq_ignore_ascii_case(&found)) {
        return Ok(true);
    }
    let addresses = host.addresses(Ns::Container, Some(link.index), None)?;
    Ok(addresses.iter().any(|address| cached.addresses.contains(&address.cidr.address())))
}

/// The signs of living attachments: for each link-layer address and each address, the namespaces that have it. Two attachments may be the
/// same interface, since a runtime and multus each have an entry for it.
#[derive(Debug, Default)]
pub struct Living {
    macs: BTreeMap<String, BTreeSet<String>>,
    addresses: BTreeMap<IpAddr, BTreeSet<String>>,
}

impl Living {
    /// Adds the signs of an attachment that lives in a namespace.
    pub fn add(&mut self, signs: Signs, namespace: &str) {
        for mac in signs.macs {
            self.macs.entry(mac).or_default().insert(namespace.to_owned());
        }
        for address in signs.addresses {
            self.addresses.entry(address).or_default().insert(namespace.to_owned());
        }
    }

    /// Judges an attachment without a record by all that was seen on the machine.
    pub fn judge(&self, signs: &Signs, survey: &Survey) -> Life {
        if signs.is_empty() {
            return Life::Unknown("nothing is known by which its interface could be found".to_owned());
        }
        if signs.macs.iter().any(|mac| has_others(&survey.spaces, |space| space.macs.contains(mac), self.macs.get(mac)))
        {
            return Life::Alive;
        }
        if let Some(gaps) = survey.gaps.text() {
            return Life::Unknown(format!("not every network namespace of the machine can be seen: {gaps}"));
        }
        self.judge_by_addresses(&signs.addresses, survey)
    }

    /// Judges an attachment by its addresses alone.
    pub fn judge_by_addresses(&self, addresses: &[IpAddr], survey: &Survey) -> Life {
        let is_unexplained = |address: &&IpAddr| {
            has_others(&survey.spaces, |space| space.addresses.contains(*address), self.addresses.get(*address))
        };
        match addresses.iter().find(is_unexplained) {
            Some(address) => Life::Unknown(format!("a network namespace has {address}, and may be its own")),
            None => Life::Dead,
        }
    }
}

/// Whether a namespace has a sign that no attachment which is known to live has there: one that is not in `known`. A known namespace that was not seen may be any one without an identity.
fn has_others(spaces: &[Space], has_sign: impl Fn(&Space) -> bool, known: Option<&BTreeSet<String>>) -> bool {
    let mut known = known.cloned().unwrap_or_default();
    let mut is_known = |space: &&Space| space.identity.as_ref().is_some_and(|identity| known.remove(identity));
    let others: Vec<&Space> = spaces.iter().filter(|space| !is_known(space)).filter(|space| has_sign(space)).collect();
    others.len() > known.len() || others.iter().any(|space| space.identity.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_own_namespace_is_left_out_if_it_is_known() {
        let view = |identity: &str| NetnsView { identity: Some(identity.to_owned()), ..NetnsView::default() };
        let unknown = NetnsView::default();
        for (own, want) in [(Some("boot:1"), 2), (Some("boot:9"), 3), (None, 3)] {
            let views = vec![view("boot:1"), view("boot:2"), unknown.clone()];
            let found = NetnsSurvey { views, ..NetnsSurvey::default() };
            assert_eq!(Survey::of(found, own).spaces.len(), want, "{own:?}");
        }
    }

    const MAC: &str = "0a:58:0a:01:02:03";

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 1, 2, last])
    }

    fn signs(mac: Option<&str>, last: u8) -> Signs {
        Signs { macs: mac.map(str::to_owned).into_iter().collect(), addresses: vec![address(last)] }
    }

    fn space(mac: &str, last: u8) -> Space {
        Space { identity: None, macs: BTreeSet::from([mac.to_owned()]), addresses: BTreeSet::from([address(last)]) }
    }

    /// `living` has signs with the namespaces in which they are.
    fn judge(living: &[(&Signs, &str)], signs: &Signs, spaces: &[Space], gap: Option<&str>) -> Life {
        let mut known = Living::default();
        living.iter().for_each(|(signs, namespace)| known.add((*signs).clone(), namespace));
        let mut survey = Survey { spaces: spaces.to_vec(), ..Survey::default() };
        gap.into_iter().for_each(|gap| survey.gaps.add(gap));
        known.judge(signs, &survey)
    }

    #[test]
    fn what_is_nowhere_is_dead_only_if_everything_was_seen() {
        let elsewhere = [space("02:00:00:00:00:09", 9)];
        assert_eq!(judge(&[], &signs(Some(MAC), 3), &elsewhere, None), Life::Dead);
        let reason = "not every network namespace of the machine can be seen: /proc/7/ns/net: refused";
        let unseen = judge(&[], &signs(Some(MAC), 3), &elsewhere, Some("/proc/7/ns/net: refused"));
        assert_eq!(unseen, Life::Unknown(reason.to_owned()));
        assert!(matches!(judge(&[], &Signs::default(), &[], None), Life::Unknown(_)), "nothing is known of it");
    }

    #[test]
    fn its_link_layer_address_shows_that_it_lives_and_its_address_that_it_may() {
        assert_eq!(judge(&[], &signs(Some(MAC), 3), &[space(MAC, 9)], Some("a gap")), Life::Alive);
        let may = Life::Unknown("a network namespace has 10.1.2.3, and may be its own".to_owned());
        assert_eq!(judge(&[], &signs(Some(MAC), 3), &[space("02:00:00:00:00:09", 3)], None), may);
    }

    /// After a reboot containers get the addresses of those from before.
    #[test]
    fn what_belongs_to_another_that_lives_is_no_sign() {
        let heir = signs(Some("02:00:00:00:00:09"), 3);
        let spaces = |identities: &[Option<&str>]| -> Vec<Space> {
            let named = |identity: &Option<&str>| identity.map(str::to_owned);
            identities.iter().map(|one| Space { identity: named(one), ..space("02:00:00:00:00:09", 3) }).collect()
        };
        // A runtime and multus have an entry of the heir each. Some kernels, and some namespaces, have no identity.
        for (living, identities, is_dead) in [
            (&["a"][..], &[Some("a")][..], true),
            (&["a"], &[None], true),
            (&["a", "b"], &[Some("a"), None], true),
            (&["a", "a"], &[Some("a"), Some("b")], false),
            (&["a", "a"], &[None, None], false),
            (&["a", "c"], &[Some("a"), Some("b")], false),
            (&["a"], &[Some("a"), None], false),
        ] {
            let living: Vec<_> = living.iter().map(|namespace| (&heir, *namespace)).collect();
            let life = judge(&living, &signs(Some(MAC), 3), &spaces(identities), None);
            assert!(
                if is_dead { life == Life::Dead } else { matches!(life, Life::Unknown(_)) },
                "{identities:?}: {life:?}"
            );
        }
    }

    #[test]
    fn after_a_killed_add_only_an_address_that_is_seen_counts() {
        let mut survey = Survey { spaces: vec![space(MAC, 3)], ..Survey::default() };
        survey.gaps.add("a gap");
        let judge = |last| Living::default().judge_by_addresses(&[address(last)], &survey);
        assert!(matches!(judge(3), Life::Unknown(_)));
        assert_eq!(judge(4), Life::Dead);
    }

    #[test]
    fn loopback_is_no_sign() {
        let addresses = [IpAddr::from([127, 0, 0, 1]), address(3)];
        assert_eq!(telling(&addresses), [address(3)]);
    }
}
