//! Claims: which attachments the packet filter's rules for an address belong to.
//!
//! The plugin's rules name only an address, byte for byte as the reference's do. A late DEL of an old container must
//! not remove the rules of the address's new owner. So ADD records, in the entry of the attachment, the back ends that
//! hold rules for each of its addresses.
//!
//! A claim may outlive its owner, since the reference's DEL does not remove it, and several attachments may have one
//! address, in several networks. So the rules for an address in a back end are removed with the last claim to them.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

use cni_core::error::Error;
use cni_core::names::Attachment;
use cni_model::plan::Step;
use cni_netfilter::firewalld::Zone;
use cni_plugin::host::Host;
use cni_plugin::ledger::{ADDRESS, Entry};
use cni_plugin::lock::LockName;
use cni_plugin::namespace::RecordedNamespace;

/// Locks addresses until the plugin ends, in one order, since two plugins would wait for each other otherwise: an ADD that makes rules
/// for an address waits until DEL or GC has looked at the claims to the address and removed its rules.
pub fn lock(addresses: impl IntoIterator<Item = IpAddr>, host: &mut dyn Host) {
    for address in addresses.into_iter().collect::<BTreeSet<_>>() {
        if let Err(error) = host.lock(&LockName::address(address)) {
            log::warn!("another container may get {address} at this moment: {}", error.in_full());
        }
    }
}

/// The addresses that an attachment has claimed.
pub fn addresses(entry: &Entry) -> impl Iterator<Item = IpAddr> {
    entry.parts_about(ADDRESS).filter_map(|(address, _)| address.parse().ok())
}

/// The back ends that may hold an attachment's rules for an address, the last used one last.
pub fn backends(entry: &Entry, address: IpAddr) -> impl Iterator<Item = RuleBackend> {
    let text = entry.part(&ADDRESS.about(address)).unwrap_or_default();
    text.split(' ').filter_map(RuleBackend::parse)
}

/// The step that claims addresses. `backend` is added to the back ends that `earlier`, the entry of the owner, has for an address.
pub fn write(
    owner: &Attachment,
    namespace: Option<&RecordedNamespace>,
    earlier: Option<&Entry>,
    addresses: &[IpAddr],
    backend: &RuleBackend,
) -> Step {
    let claim = |address: &IpAddr| {
        let earlier = earlier.into_iter().flat_map(|entry| backends(entry, *address));
        let words = each_once(earlier.chain([backend.clone()])).iter().map(ToString::to_string).collect::<Vec<_>>();
        (ADDRESS.about(address), Some(words.join(" ")))
    };
    let parts = addresses.iter().map(claim).collect();
    Step::Record { at: owner.clone(), namespace: namespace.map(ToString::to_string), parts }
}

fn each_once(backends: impl IntoIterator<Item = RuleBackend>) -> Vec<RuleBackend> {
    let mut unique = Vec::new();
    for backend in backends {
        unique.retain(|other| *other != backend);
        unique.push(backend);
    }
    unique
}

/// The attachments that have claimed an address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claimants {
    /// Those that no longer have it, or are removed.
    pub leaving: Vec<Entry>,
    /// Those that keep it.
    pub staying: Vec<Entry>,
}

impl Claimants {
    /// Finds them. `stays` tells nothing of one whose claim neither goes nor counts.
    pub fn observe(
        address: IpAddr,
        host: &mut dyn Host,
        stays: impl Fn(&Entry, &mut dyn Host) -> Result<Option<bool>, Error>,
    ) -> Result<Self, Error> {
        let mut found = Self::default();
        let text = address.to_string();
        for entry in host.ledger().holders(ADDRESS, &|thing| thing == text)? {
            match stays(&entry, host)? {
                Some(true) => found.staying.push(entry),
                Some(false) => found.leaving.push(entry),
                None => {}
            }
        }
        Ok(found)
    }

    /// What is to be removed of the address: rules of those that leave, unless others need the same ones.
    pub fn leave(&self, address: IpAddr) -> LeavingAddress {
        let of = |entries: &[Entry]| each_once(entries.iter().flat_map(|entry| backends(entry, address)));
        let (mut leaving, needed) = (of(&self.leaving), of(&self.staying));
        leaving.retain(|backend| !needed.contains(backend));
        let owners = self.leaving.iter().map(|entry| entry.at.clone()).collect();
        LeavingAddress { address, owners, backends: leaving }
    }
}

/// What is to be removed of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeavingAddress {
    pub address: IpAddr,
    /// Those whose claims go.
    pub owners: Vec<Attachment>,
    /// The back ends whose rules go. There are none if the rules are another's.
    pub backends: Vec<RuleBackend>,
}

/// The back end that holds the rules for an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleBackend {
    /// The tables of iptables.
    Iptables,
    /// A table of nf_tables.
    Nftables,
    /// firewalld, in a zone.
    Firewalld(Zone),
}

impl RuleBackend {
    /// Reads what [`RuleBackend`] displays: one word.
    pub fn parse(word: &str) -> Option<Self> {
        match word.split_once(':') {
            None if word == "iptables" => Some(Self::Iptables),
            None if word == "nftables" => Some(Self::Nftables),
            Some(("firewalld", zone)) => Zone::parse(zone).ok().map(Self::Firewalld),
            None | Some(_) => None,
        }
    }
}

impl fmt::Display for RuleBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Iptables => f.write_str("iptables"),
            Self::Nftables => f.write_str("nftables"),
            Self::Firewalld(zone) => write!(f, "firewalld:{zone}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESSES: [IpAddr; 2] =
        [IpAddr::V4(std::net::Ipv4Addr::new(10, 1, 2, 3)), IpAddr::V6(std::net::Ipv6Addr::LOCALHOST)];

    fn entry(container: &str, claim: &str) -> Entry {
        Entry::parse(&format!("net {container} eth0\n\naddress-10.1.2.3 {claim}\n")).expect("an entry")
    }

    #[test]
    fn a_claim_has_each_back_end_once_and_the_last_used_one_last() {
        let earlier = entry("web", "iptables other firewalld:work");
        let step = write(&earlier.at, None, Some(&earlier), &ADDRESSES, &RuleBackend::Iptables);
        let Step::Record { at, namespace: None, parts } = step else { panic!("{step}") };
        let (claimed, _) = Entry::changed(None, &at, None, &parts);
        let text = "net web eth0\n\naddress-10.1.2.3 firewalld:work iptables\naddress-::1 iptables\n";
        let claimed = claimed.expect("with parts");
        assert_eq!((claimed.to_string().as_str(), addresses(&claimed).collect::<Vec<_>>()), (text, ADDRESSES.to_vec()));
    }

    #[test]
    fn rules_that_another_needs_stay() {
        let leaving = vec![entry("old", "firewalld:work iptables"), entry("web", "iptables nftables")];
        let leave = |staying: Vec<Entry>| {
            let LeavingAddress { owners, backends, .. } =
                Claimants { leaving: leaving.clone(), staying }.leave(ADDRESSES[0]);
            assert_eq!(owners, [leaving[0].at.clone(), leaving[1].at.clone()]);
            backends.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(leave(vec![]), ["firewalld:work", "iptables", "nftables"]);
        assert_eq!(leave(vec![entry("new", "iptables")]), ["firewalld:work", "nftables"]);
        assert_eq!(leave(vec![entry("a", "iptables firewalld:work"), entry("b", "nftables")]), [""; 0]);
    }

    #[test]
    fn a_back_end_is_one_word_that_is_read_back() {
        for backend in [RuleBackend::Iptables, RuleBackend::Nftables, RuleBackend::Firewalld(Zone::fixed("trusted"))] {
            let word = backend.to_string();
            assert_eq!((RuleBackend::parse(&word), word.contains(' ')), (Some(backend), false));
        }
        for word in ["", "iptables:", "nftables:", "firewalld", "firewalld:", "firewalld:a:b", "other"] {
            assert_eq!(RuleBackend::parse(word), None, "{word}");
        }
    }
}
