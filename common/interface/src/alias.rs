//! The alias of a link on the host (`IFLA_IFALIAS`), which says who owns it:
//! `cni:<network>:<container>:<interface>`. DEL and GC find a container's link by it when the namespace
//! is lost.
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
//! # Ok::<(), cni_core::names::NameError>(())
//! ```

use cni_core::names::{Attachment, ContainerId, IfName, NetworkName};
use cni_plugin::link::Link;

/// How every alias begins.
const PREFIX: &str = "cni:";

/// How long an alias may be: `IFALIASZ` of `linux/if.h`, less one.
const ALIAS_LEN: usize = 255;

/// The least that is left of an alias that is cut between two characters, of at most four bytes each.
const CUT_LEN: usize = ALIAS_LEN - 3;

/// The alias of an attachment's link.
pub fn of(at: &Attachment) -> String {
    let mut text = format!("{}{}:{}", start(&at.network), at.container, at.ifname);
    let end = (0..=ALIAS_LEN).rfind(|end| text.is_char_boundary(*end)).unwrap_or_default();
    text.truncate(end);
    text
}

/// How the aliases of a network's attachments begin.
pub fn start(network: &NetworkName) -> String {
    format!("{PREFIX}{network}:")
}

/// Whose a link on the host is, as far as its alias says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkOwner {
    /// The attachment in question.
    This,
    /// Another attachment.
    Another,
    /// It does not say: the reference plugins set no alias, and whoever rules the host may have set one of his own.
    Unsaid,
}

impl LinkOwner {
    /// Reads the alias of a link. Only who rules the host can have set it.
    pub fn of(link: &Link, at: &Attachment) -> Self {
        match link.alias.as_deref() {
            Some(alias) if alias == of(at) => Self::This,
            Some(alias) if alias.starts_with(PREFIX) => Self::Another,
            Some(_) | None => Self::Unsaid,
        }
    }
}

/// Whose a link with an alias is; `None` also where the alias may have been cut.
pub fn owner(alias: &str, network: &NetworkName) -> Option<Attachment> {
    let (container, ifname) = alias.strip_prefix(&start(network))?.rsplit_once(':')?;
    let (container, ifname) = (ContainerId::parse(container).ok()?, IfName::parse(ifname).ok()?);
    let at = Attachment { network: network.clone(), container, ifname };
    (alias.len() < CUT_LEN).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::attachment;

    fn at() -> Attachment {
        attachment("id1", "eth0")
    }

    #[test]
    fn a_link_is_somebody_elses_only_if_its_alias_says_so() {
        let owner =
            |alias: Option<&str>| LinkOwner::of(&Link { alias: alias.map(str::to_owned), ..Link::default() }, &at());
        assert_eq!(owner(Some("cni:net1:id1:eth0")), LinkOwner::This);
        for another in ["cni:net1:id1:eth1", "cni:net1:id10:eth0", "cni:net2:id1:eth0"] {
            assert_eq!(owner(Some(another)), LinkOwner::Another, "{another}");
        }
        for unsaid in [None, Some(""), Some("uplink")] {
            assert_eq!(owner(unsaid), LinkOwner::Unsaid, "{unsaid:?}");
        }
    }

    #[test]
    fn an_alias_tells_whose_a_link_is_unless_it_was_cut() {
        let network = at().network;
        assert_eq!(owner(&of(&at()), &network), Some(at()));
        for foreign in ["", "cni:net10:id1:eth0", "cni:net1:id1", "cni:net1::eth0", "uplink"] {
            assert_eq!(owner(foreign, &network), None, "{foreign}");
        }
        let long = Attachment { container: ContainerId::parse(&"x".repeat(300)).expect("container"), ..at() };
        let cut = of(&long);
        assert_eq!((cut.len(), owner(&cut, &network)), (255, None));
        let split = of(&attachment(&"x".repeat(244), "é"));
        assert_eq!((split.len(), owner(&split, &network)), (254, None));
    }
}
