//! The alias of a link on the host (`IFLA_IFALIAS`), which says who owns it:
//! `cni:<network>:<container>:<interface>`. DEL and GC find a container's link by it when the namespace
//! is lost. An alias that would be too long ends with digests of the network and of the attachment.
//!
//! ```
//! use cni_core::names::{Attachment, ContainerId, IfName, NetworkName};
//! use cni_interface::alias;
//!
//! let network = NetworkName::parse("net1")?;
//! let (container, ifname) = (ContainerId::parse("c1")?, IfName::parse("eth0")?);
//! let at = Attachment { network: network.clone(), container, ifname };
//! assert_eq!(alias::of(&at), "cni:net1:c1:eth0");
//! assert_eq!(alias::owner("cni:net1:c1:eth0", &network), Some(at));
//! # Ok::<(), cni_core::error::Error>(())
//! ```

use cni_core::names::{Attachment, ContainerId, IfName, NetworkName, hash_hex};
use cni_model::link::Link;

/// The beginning of every alias.
const PREFIX: &str = "cni:";

/// The longest alias: `IFALIASZ` of `linux/if.h`, less one.
const ALIAS_LEN: usize = 255;

/// The smallest length of a cut alias: it was cut between two characters, which have at most four bytes each.
const CUT_LEN: usize = ALIAS_LEN - 3;

/// The character before each digest. An interface name is too short for a digest, and other names cannot contain this
/// character.
const MARK: char = '#';

/// The number of hexadecimal digits of a digest.
const DIGITS: usize = 32;

/// The alias of an attachment's link. If it is too long, digests of the network and of the whole text replace the end.
pub fn of(at: &Attachment) -> String {
    let mut text = full(at);
    if text.len() > ALIAS_LEN {
        let digests = format!("{}{MARK}{}", network_digest(&at.network), digest(&text));
        cut(&mut text, ALIAS_LEN - digests.len());
        text.push_str(&digests);
    }
    text
}

/// The alias before it is shortened.
fn full(at: &Attachment) -> String {
    format!("{}{}:{}", start(&at.network), at.container, at.ifname)
}

/// The beginning of the aliases of a network's attachments.
fn start(network: &NetworkName) -> String {
    format!("{PREFIX}{network}:")
}

fn digest(text: &str) -> String {
    hash_hex(text)[..DIGITS].to_owned()
}

/// The digest of the network in an alias that would be too long.
fn network_digest(network: &NetworkName) -> String {
    format!("{MARK}{}", digest(network.as_str()))
}

/// Cuts a text between two characters.
fn cut(text: &mut String, len: usize) {
    let end = (0..=len).rfind(|end| text.is_char_boundary(*end)).unwrap_or_default();
    text.truncate(end);
}

/// Whether an alias names an attachment, or may name it: earlier releases cut long aliases without a digest.
pub fn may_name(alias: &str, at: &Attachment) -> bool {
    alias == of(at) || is_cut_of(alias, at)
}

fn is_cut_of(alias: &str, at: &Attachment) -> bool {
    if alias.len() < CUT_LEN {
        return false;
    }
    let mut text = full(at);
    let is_long = text.len() > ALIAS_LEN;
    cut(&mut text, ALIAS_LEN);
    is_long && alias == text
}

/// Whether an alias names an attachment of the network that is not among the kept ones.
pub fn is_stale(alias: &str, network: &NetworkName, kept: &[Attachment]) -> bool {
    is_of_network(alias, network) && !kept.iter().any(|at| may_name(alias, at))
}

fn is_of_network(alias: &str, network: &NetworkName) -> bool {
    alias.starts_with(&start(network)) || has_digest_of(alias, network)
}

/// Whether an alias was too long, and has the digest of the network.
pub fn has_digest_of(alias: &str, network: &NetworkName) -> bool {
    let digests = alias.rsplit_once(MARK).filter(|(_, whole)| whole.len() == DIGITS);
    alias.starts_with(PREFIX) && digests.is_some_and(|(rest, _)| rest.ends_with(&network_digest(network)))
}

/// The owner of a link on the host, according to its alias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkOwner {
    /// The attachment in question.
    This,
    /// Another attachment.
    Another,
    /// The alias names no attachment: the reference plugins set none, the administrator may have set another text, and
    /// a cut alias may be that of several attachments.
    Unlabelled,
}

impl LinkOwner {
    /// Reads the alias of a link on the host, where only root can set it.
    pub fn of(link: &Link, at: &Attachment) -> Self {
        match link.alias.as_deref() {
            Some(alias) if alias == of(at) => Self::This,
            Some(alias) if is_cut_of(alias, at) => Self::Unlabelled,
            Some(alias) if alias.starts_with(PREFIX) => Self::Another,
            Some(_) | None => Self::Unlabelled,
        }
    }
}

/// The attachment that an alias names; `None` if the alias contains digests, or may have been cut.
pub fn owner(alias: &str, network: &NetworkName) -> Option<Attachment> {
    let (container, ifname) = alias.strip_prefix(&start(network))?.rsplit_once(':')?;
    let (container, ifname) = (ContainerId::parse(container).ok()?, IfName::parse(ifname).ok()?);
    let at = Attachment { network: network.clone(), container, ifname };
    (alias.len() < CUT_LEN).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at() -> Attachment {
        in_network("net1", "id1", "eth0")
    }

    /// An attachment of a network whose name has this many letters, with such a container.
    fn long(network: usize, container: &str, ifname: &str) -> Attachment {
        in_network(&"n".repeat(network), &container.repeat(64), ifname)
    }

    #[test]
    fn a_long_alias_tells_attachments_and_networks_apart() {
        for network in [200, 250, 251, 252, 300] {
            let at = long(network, "a", "eth0");
            let others = [long(network, "b", "eth0"), long(network, "a", "eth1"), long(network + 1, "a", "eth0")];
            let alias = of(&at);
            assert!((CUT_LEN..=ALIAS_LEN).contains(&alias.len()), "{alias}");
            let link = Link { alias: Some(alias.clone()), ..Link::default() };
            assert_eq!(LinkOwner::of(&link, &at), LinkOwner::This);
            others.iter().for_each(|other| assert_eq!(LinkOwner::of(&link, other), LinkOwner::Another, "{other:?}"));
            assert_eq!(owner(&alias, &at.network), None);
            let is_stale = |network: &NetworkName, kept: &[Attachment]| is_stale(&alias, network, kept);
            assert!(is_stale(&at.network, &others) && !is_stale(&at.network, std::slice::from_ref(&at)));
            let short = in_network("net1", "a", "eth0").network;
            assert!(!is_stale(&others[2].network, &[]) && !is_stale(&short, &[]));
        }
    }

    #[test]
    fn an_alias_cut_by_an_earlier_release_names_no_owner_and_may_name_each_of_several() {
        let (at, twin, other) = (long(230, "a", "eth0"), long(230, "a", "eth1"), long(230, "b", "eth0"));
        let mut alias = full(&at);
        cut(&mut alias, ALIAS_LEN);
        let link = Link { alias: Some(alias.clone()), ..Link::default() };
        let owners = [&at, &twin, &other].map(|at| LinkOwner::of(&link, at));
        assert_eq!(owners, [LinkOwner::Unlabelled, LinkOwner::Unlabelled, LinkOwner::Another]);
        assert_eq!([&at, &twin, &other].map(|at| may_name(&alias, at)), [true, true, false]);
        assert!(!is_stale(&alias, &at.network, &[twin]) && is_stale(&alias, &at.network, &[other]));
    }

    #[test]
    fn an_alias_names_the_owner_unless_it_was_cut() {
        let network = at().network;
        for (alias, want) in [
            (Some("cni:net1:id1:eth0"), LinkOwner::This),
            (Some("cni:net1:id1:eth1"), LinkOwner::Another),
            (Some("cni:net1:id10:eth0"), LinkOwner::Another),
            (Some("cni:net2:id1:eth0"), LinkOwner::Another),
            (Some("uplink"), LinkOwner::Unlabelled),
            (None, LinkOwner::Unlabelled),
        ] {
            let link = Link { alias: alias.map(str::to_owned), ..Link::default() };
            assert_eq!(LinkOwner::of(&link, &at()), want, "{alias:?}");
        }
        let [short, longer] = [181, 182].map(|letters| long(letters, "a", "eth0"));
        let lengths = [&short, &longer].map(|at| (of(at) == full(at), of(at).len()));
        assert_eq!(lengths, [(true, ALIAS_LEN), (false, ALIAS_LEN)]);
        assert_eq!(owner(&of(&at()), &network), Some(at()));
        for foreign in ["", "cni:net10:id1:eth0", "cni:net1:id1", "cni:net1::eth0", "uplink"] {
            assert_eq!(owner(foreign, &network), None, "{foreign}");
        }
        for (letters, ifname) in [(300, "eth0"), (244, "é")] {
            let cut = of(&in_network("net1", &"x".repeat(letters), ifname));
            assert_eq!((cut.len(), owner(&cut, &network)), (255, None));
        }
    }

    /// An interface of a container in a network.
    fn in_network(network: &str, container: &str, ifname: &str) -> Attachment {
        Attachment {
            network: NetworkName::parse(network).expect("a network"),
            container: ContainerId::parse(container).expect("a container"),
            ifname: IfName::parse(ifname).expect("an interface"),
        }
    }
}
