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
    format!("cni:{network}:")
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
