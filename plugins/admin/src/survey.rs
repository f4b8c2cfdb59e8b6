//! Which link-layer addresses and addresses there are in the network namespaces of the machine.
//!
//! Only a survey without gaps shows that something is nowhere.

use std::collections::BTreeSet;
use std::net::IpAddr;

use cni_linux::netns_survey::{Gaps, NetnsSurvey, SurveyScope};
use cni_model::netns::NetnsView;

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// Every network namespace but the host's own, in which no container is: an ipvlan has the MAC address of its master there.
    pub spaces: Vec<Space>,
    /// What could not be seen.
    pub gaps: Gaps,
}

/// What is in a network namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// What distinguishes it from all others, if the kernel says so.
    pub identity: Option<String>,
    /// The link-layer addresses of its links, in lower case.
    pub macs: BTreeSet<String>,
    /// Its addresses.
    pub addresses: BTreeSet<IpAddr>,
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
}
