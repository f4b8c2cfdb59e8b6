//! The changes that a plan consists of, and the step that undoes each.

use std::net::{IpAddr, Ipv6Addr};
use std::path::PathBuf;

use cni_core::cidr::Cidr;
use cni_core::names::{Attachment, IfName};
use cni_netfilter::firewalld::Zone;
use cni_netfilter::flows::StaleFlows;
use cni_netfilter::{RuleRemoval, RuleUndo, Ruleset};

use super::link::{LinkMove, LinkSetting, NewLink};
use super::route::{NewGateway, NewRoute};
use super::terms::{Dad, IfPresent, Ns, Sysctl, SysctlNeed};
use crate::daemon::DaemonCall;
use crate::record::PartChanges;
use crate::routing::{FullRoute, SourceRule};
use crate::state_file::StateFile;
use crate::traffic::{FilterRank, Shaper};
use crate::vlan::{PortVlans, VlanLink};

/// One change.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Makes a link.
    CreateLink {
        /// Where; a veth's peer says itself where it is.
        ns: Ns,
        /// The link.
        link: NewLink,
    },
    /// Removes a link; absence is success.
    RemoveLink {
        /// Where.
        ns: Ns,
        /// Its name.
        name: IfName,
    },
    /// Removes a link that was found, by its index: a container may rename its links at any time, and give the former name
    /// to another one. A link that is missing is a failure, since the container may have moved it on in the meantime.
    RemoveLinkByIndex {
        /// Where.
        ns: Ns,
        /// Its index.
        index: u32,
    },
    /// Removes a link of a namespace to which no path may lead; absence of either is success.
    RemoveNumberedLink {
        /// The number of the namespace in the host's.
        number: i32,
        /// The index of the link.
        index: u32,
    },
    /// Sets a property of a link.
    SetLink {
        /// Where.
        ns: Ns,
        /// Its name.
        name: IfName,
        /// The property.
        setting: LinkSetting,
    },
    /// Moves a link to another namespace, under another name. The undo moves it back. Only host-device uses it: its
    /// interface existed before ADD, and cannot be created again.
    MoveLink(LinkMove),
    /// Sets the VLANs that a port of a bridge takes part in. Only bridge has ports.
    SetPortVlans {
        /// Where.
        ns: Ns,
        /// The link.
        name: IfName,
        /// The VLANs.
        vlans: PortVlans,
    },
    /// Connects the host to a VLAN of a bridge, unless a link of this name does; only bridge has VLANs. It is one step, and not some of
    /// the others, since the port may have another name: the one that another ADD has just given it.
    EnsureVlanLink(VlanLink),
    /// Adds an address to a link.
    AddAddress {
        /// Where.
        ns: Ns,
        /// The link.
        name: IfName,
        /// Address and prefix length.
        cidr: Cidr,
        /// Whether duplicate address detection comes first.
        dad: Dad,
        /// What to do if the link has the address already.
        if_present: IfPresent,
    },
    /// Gives a link of the host the address of a gateway, which only bridge shares with other networks. It is one step, since another network may give the link one of
    /// its own in the meantime.
    EnsureGateway(NewGateway),
    /// Removes an address from a link; absence is success.
    RemoveAddress {
        /// Where.
        ns: Ns,
        /// The link.
        name: IfName,
        /// Address and prefix length.
        cidr: Cidr,
    },
    /// Adds a route.
    AddRoute {
        /// Where.
        ns: Ns,
        /// The link that it leaves by.
        name: IfName,
        /// The route.
        route: NewRoute,
    },
    /// Removes a route; absence is success.
    RemoveRoute {
        /// Where.
        ns: Ns,
        /// The link that it leaves by.
        name: IfName,
        /// The route.
        route: NewRoute,
    },
    /// Removes the route that the kernel has made for the network of an address; absence is success. Only ptp needs it: its
    /// container reaches its own network by the gateway.
    RemoveConnectedRoute {
        /// Where.
        ns: Ns,
        /// The link that it leaves by.
        name: IfName,
        /// The network.
        dst: Cidr,
    },
    /// Adds a route with all that the kernel held of it elsewhere; one that is just the same is fine.
    AddFullRoute {
        /// Where.
        ns: Ns,
        /// The route.
        route: FullRoute,
    },
    /// Adds a former route again. A route that the kernel no longer accepts, since its next hop, its source address or
    /// its interface have changed, is logged and left out.
    RestoreRoute {
        /// Where.
        ns: Ns,
        /// The route.
        route: FullRoute,
    },
    /// Removes a route; absence is success.
    RemoveFullRoute {
        /// Where.
        ns: Ns,
        /// The route.
        route: FullRoute,
    },
    /// Adds a rule that chooses a table. Only sbr makes rules by source.
    AddRule {
        /// Where.
        ns: Ns,
        /// The rule.
        rule: SourceRule,
    },
    /// Removes such a rule; absence is success.
    RemoveRule {
        /// Where.
        ns: Ns,
        /// The rule.
        rule: SourceRule,
    },
    /// Limits how fast a link sends, in place of the kernel's own queueing discipline or of another such limit. Only
    /// bandwidth limits and redirects what links send and receive; no other step does anything to traffic control.
    SetShaper {
        /// Where.
        ns: Ns,
        /// The link.
        name: IfName,
        /// The limit.
        shaper: Shaper,
    },
    /// Ends such a limit; absence is success, and any other queueing discipline stays.
    RemoveShaper {
        /// Where.
        ns: Ns,
        /// The link.
        name: IfName,
    },
    /// Redirects everything that a link receives to another link. Redirects to links that no longer exist are removed.
    AddRedirect {
        /// The namespace of both.
        ns: Ns,
        /// The link that receives.
        name: IfName,
        /// The other one.
        to: IfName,
        /// Whether filters of other programs see the packets first.
        rank: FilterRank,
    },
    /// Removes the redirect; a missing one is success. Redirects to links that no longer exist are removed.
    RemoveRedirect {
        /// The namespace of both.
        ns: Ns,
        /// The link that receives.
        name: IfName,
        /// The other one.
        to: IfName,
    },
    /// Waits for a link.
    Await {
        /// Where.
        ns: Ns,
        /// The link.
        name: IfName,
        /// For what.
        until: Until,
    },
    /// Writes a kernel parameter, unless it has the value.
    SetSysctl {
        /// Where.
        ns: Ns,
        /// The parameter.
        key: Sysctl,
        /// Its value.
        value: String,
        /// What to do if it fails.
        need: SysctlNeed,
    },
    /// Makes rules of the packet filter.
    EnsureRules {
        /// Of which namespace.
        ns: Ns,
        /// The rules.
        ruleset: Ruleset,
    },
    /// Removes rules of the packet filter; absence is success.
    RemoveRules {
        /// Of which namespace.
        ns: Ns,
        /// The rules.
        removal: RuleRemoval,
    },
    /// Takes back what [`Step::EnsureRules`] has changed: rules that it replaced are restored.
    UndoRules {
        /// Of which namespace.
        ns: Ns,
        /// The undo of the change.
        undo: RuleUndo,
    },
    /// Lets the kernel forget connections, so that the rules are asked again. A failure is logged: the
    /// kernel forgets them by itself, later. Only portmap needs it: only its rules translate what comes from outside.
    ForgetFlows(StaleFlows),
    /// Makes an address a source of a zone of firewalld. An address that is a source already is not undone. Only
    /// firewall has firewalld as a back end.
    AddSource {
        /// The zone.
        zone: Zone,
        /// The address.
        address: IpAddr,
    },
    /// Removes an address from the sources of a zone of firewalld; absence is success, that of firewalld too.
    RemoveSource {
        /// The zone.
        zone: Zone,
        /// The address.
        address: IpAddr,
    },
    /// Changes what is recorded of an attachment. If nothing can be recorded at all, this is logged and the plan
    /// continues: see [`crate::record`].
    Record {
        /// The attachment.
        at: Attachment,
        /// Its namespace, as a record has it, empty for none; `None` to leave what is recorded.
        namespace: Option<String>,
        /// Other parts stay.
        parts: PartChanges,
    },
    /// Writes a file that only root can read, atomically, and makes its directory if it is missing. Only tuning and
    /// flannel use it, for files that the reference has too.
    WriteStateFile {
        /// Which.
        file: StateFile,
        /// The content.
        text: String,
    },
    /// Removes a file; absence is success.
    RemoveStateFile {
        /// Which.
        file: StateFile,
        /// Directories that are removed with the file if they are empty, the innermost first.
        directories: Vec<PathBuf>,
    },
    /// Sends a message to a plugin's daemon, and ignores the answer. Only dhcp has a daemon.
    TellDaemon(DaemonCall),
}

/// The condition that a step waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Until {
    /// No IPv6 address of the link is tentative.
    AddressesSettled,
    /// The kernel accepts packets to these addresses of the link. It adds their local routes in the background, even without duplicate address
    /// detection (`addrconf_dad_work` of net/ipv6/addrconf.c), which takes seconds while others change many links.
    Local(Vec<Ipv6Addr>),
    /// The link passes packets.
    Up,
    /// The other end of the veth is in no namespace that lives. After the last process has ended, the kernel takes a
    /// moment to end what it still has to do for its sockets.
    PeerGone,
    /// A moment has passed: the caller looks at something that ends without help.
    Moment,
}

impl Step {
    /// Sets a property of a link.
    pub fn set_link(ns: Ns, name: &IfName, setting: LinkSetting) -> Self {
        Self::SetLink { ns, name: name.clone(), setting }
    }

    /// Makes rules of the host's packet filter.
    pub fn ensure_rules(ruleset: impl Into<Ruleset>) -> Self {
        Self::EnsureRules { ns: Ns::Host, ruleset: ruleset.into() }
    }

    /// Removes rules of the host's packet filter; absence is success.
    pub fn remove_rules(removal: impl Into<RuleRemoval>) -> Self {
        Self::RemoveRules { ns: Ns::Host, removal: removal.into() }
    }

    /// The step that undoes this one, where that does not depend on what existed before.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "what existed before decides about the others, and the host knows it"
    )]
    pub fn inverse(&self) -> Option<Self> {
        match self {
            Self::CreateLink { ns, link } if link.if_present == IfPresent::Refuse => {
                Some(Self::RemoveLink { ns: *ns, name: link.name.clone() })
            }
            Self::AddAddress { ns, name, cidr, dad: _, if_present: IfPresent::Refuse } => {
                Some(Self::RemoveAddress { ns: *ns, name: name.clone(), cidr: *cidr })
            }
            Self::AddRoute { ns, name, route } => {
                Some(Self::RemoveRoute { ns: *ns, name: name.clone(), route: route.clone() })
            }
            Self::AddRule { ns, rule } => Some(Self::RemoveRule { ns: *ns, rule: *rule }),
            _ => None,
        }
    }

    /// Whether it removes a link, or gives it back to the host, which takes its addresses off.
    pub const fn takes_link_away(&self) -> bool {
        matches!(
            self,
            Self::RemoveLink { .. }
                | Self::RemoveLinkByIndex { .. }
                | Self::RemoveNumberedLink { .. }
                | Self::MoveLink(LinkMove { to: Ns::Host, .. })
        )
    }

    /// Whether it takes an address off a link of the container.
    pub const fn takes_address_away(&self) -> bool {
        matches!(self, Self::RemoveAddress { ns: Ns::Container, .. })
    }

    /// The step that undoes this one when it is not known whether it was carried out; none where that
    /// could take away what existed before.
    pub fn inverse_of_attempt(&self) -> Option<Self> {
        let Self::SetLink { ns, name, setting } = self else { return None };
        let setting = match setting {
            LinkSetting::Up => LinkSetting::Down,
            LinkSetting::Master(_) => LinkSetting::NoMaster,
            LinkSetting::Down
            | LinkSetting::Mac(_)
            | LinkSetting::Mtu(_)
            | LinkSetting::Alias(_)
            | LinkSetting::Promisc(_)
            | LinkSetting::AllMulticast(_)
            | LinkSetting::TxQueueLength(_)
            | LinkSetting::NoMaster
            | LinkSetting::Port(_) => return None,
        };
        Some(Self::SetLink { ns: *ns, name: name.clone(), setting })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{LinkKind, NewRoute};

    #[test]
    fn what_was_made_again_is_taken_away_and_what_may_have_been_set_is_restored() {
        let (ns, name) = (Ns::Host, || IfName::parse("eth0").expect("a name"));
        let cidr: Cidr = "10.1.2.5/24".parse().expect("CIDR");
        let link = |if_present| {
            let link = NewLink { name: name(), mac: None, mtu: None, if_present, kind: LinkKind::Dummy };
            Step::CreateLink { ns, link }
        };
        let address = |if_present| Step::AddAddress { ns, name: name(), cidr, dad: Dad::Skip, if_present };
        let set = |setting| Step::SetLink { ns, name: name(), setting };
        for (step, inverse, of_attempt) in [
            (link(IfPresent::Refuse), Some("link del eth0"), None),
            (address(IfPresent::Refuse), Some("addr del 10.1.2.5/24 dev eth0"), None),
            (
                Step::AddRoute { ns, name: name(), route: NewRoute::to(cidr) },
                Some("route del 10.1.2.5/24 dev eth0"),
                None,
            ),
            (link(IfPresent::Accept), None, None),
            (address(IfPresent::Accept), None, None),
            (set(LinkSetting::Up), None, Some("link set eth0 down")),
            (set(LinkSetting::Master(name())), None, Some("link set eth0 nomaster")),
            (set(LinkSetting::Mtu(1400)), None, None),
        ] {
            let text = |step: Option<Step>| step.map(|step| step.to_string().replace("host: ", ""));
            let found = (text(step.inverse()), text(step.inverse_of_attempt()));
            assert_eq!((found.0.as_deref(), found.1.as_deref()), (inverse, of_attempt), "{step}");
        }
    }
}
