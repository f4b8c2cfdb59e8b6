//! Whose a rule is: the plugin and container for those of these plugins, the program for those of others.
//!
//! Nothing is asked of the programs: names of tables and chains tell, and comments, as in `repair`.

use cni_core::names::Attachment;
use cni_kernel::nftables::trace::chains::ChainInfo;
use cni_kernel::nftables::trace::event::TraceVerdict;

use super::packet_path::Place;
use crate::cache::Cached;

/// Who has made a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleOwner {
    /// A plugin, for a container or for all of them.
    Plugin {
        plugin: &'static str,
        container: Option<String>,
    },
    Program(&'static str),
}

impl RuleOwner {
    /// As it is shown.
    pub fn text(&self) -> String {
        match self {
            Self::Plugin { plugin, container: None } => format!("plugin {plugin}"),
            Self::Plugin { plugin, container: Some(container) } => format!("plugin {plugin}, container {container}"),
            Self::Program(name) => (*name).to_owned(),
        }
    }

    /// The program, for a sentence.
    pub fn name(&self) -> String {
        match self {
            Self::Plugin { plugin, .. } => format!("the plugin {plugin}"),
            Self::Program(name) => (*name).to_owned(),
        }
    }
}

/// Tables of one program.
const TABLES: [(&str, RuleOwner); 7] = [
    ("cni_hostport", plugin("portmap")),
    ("cni_plugins_localnet", plugin("portmap")),
    ("cni_plugins_masquerade", plugin("bridge or ptp (ipMasq)")),
    ("cni_firewall", plugin("firewall")),
    ("firewalld", RuleOwner::Program("firewalld")),
    ("kube-proxy", RuleOwner::Program("kube-proxy")),
    ("netavark", RuleOwner::Program("podman")),
];

/// Beginnings of names of chains. The first that fits counts.
const CHAINS: [(&str, RuleOwner); 20] = [
    ("CNI-HOSTPORT-", plugin("portmap")),
    ("CNI-DN-", plugin("portmap")),
    ("CNI-SN-", plugin("portmap")),
    ("CNI-FORWARD", plugin("firewall")),
    ("CNI-ADMIN", plugin("firewall")),
    ("CNI-ISOLATION-", plugin("firewall")),
    ("CNI-", plugin("bridge or ptp (ipMasq)")),
    ("CONSUL_", plugin("consul-cni")),
    ("NOMAD-", RuleOwner::Program("Nomad")),
    ("DOCKER", RuleOwner::Program("Docker")),
    ("ufw-", RuleOwner::Program("ufw")),
    ("ufw6-", RuleOwner::Program("ufw")),
    ("KUBE-", RuleOwner::Program("kube-proxy")),
    ("FLANNEL-", RuleOwner::Program("flanneld")),
    ("FLANNEL_", RuleOwner::Program("flanneld")),
    ("cali-", RuleOwner::Program("Calico")),
    ("CILIUM_", RuleOwner::Program("Cilium")),
    ("NETAVARK", RuleOwner::Program("podman")),
    ("LIBVIRT_", RuleOwner::Program("libvirt")),
    ("f2b-", RuleOwner::Program("fail2ban")),
];

/// Programs that set the policies of chains that are not theirs, by the beginnings of their own.
const POLICY_MAKERS: [&str; 4] = ["DOCKER", "ufw-", "ufw6-", "KUBE-"];

const fn plugin(plugin: &'static str) -> RuleOwner {
    RuleOwner::Plugin { plugin, container: None }
}

/// What is needed to find the owners.
#[derive(Debug, Default)]
pub struct Owners<'a> {
    pub chains: Vec<ChainInfo>,
    /// The attachments, by which their rules are known.
    pub known: Vec<&'a Cached>,
}

impl Owners<'_> {
    /// Whose a rule is; `None` for one that an administrator, or a program without names of its own, has made.
    pub fn of_rule(&self, place: &Place, verdict: &TraceVerdict, text: &str) -> Option<RuleOwner> {
        let target = match verdict {
            TraceVerdict::Jump(target) | TraceVerdict::Goto(target) => Some(target.as_str()),
            TraceVerdict::Accept
            | TraceVerdict::Drop
            | TraceVerdict::Return
            | TraceVerdict::Continue
            | TraceVerdict::Taken => None,
        };
        let of_table = find_exact(&place.table);
        let names = [Some(place.chain.as_str()), target];
        let owner = of_table.or_else(|| names.into_iter().flatten().find_map(find))?;
        Some(match owner {
            RuleOwner::Plugin { plugin, .. } => RuleOwner::Plugin {
                plugin,
                container: self.container([&place.chain, target.unwrap_or_default()], text),
            },
            RuleOwner::Program(_) => owner,
        })
    }

    /// Who sets the policy of a base chain, if that can be told.
    pub fn of_policy(&self, place: &Place) -> Option<RuleOwner> {
        if let Some(owner) = find_exact(&place.table).or_else(|| find(&place.chain)) {
            return Some(owner);
        }
        let of_table = |chain: &&ChainInfo| chain.family == place.family && chain.table == place.table;
        let beside: Vec<&str> = self.chains.iter().filter(of_table).map(|chain| chain.name.as_str()).collect();
        let maker = POLICY_MAKERS.into_iter().find(|start| beside.iter().any(|name| name.starts_with(start)))?;
        find(maker)
    }

    /// The container that a rule is for: by the chain that is its own, its name in a comment, or its address.
    fn container(&self, chains: [&str; 2], text: &str) -> Option<String> {
        let has_chain = |at: &Attachment| {
            let own = [at.dnat_chain(), at.interface_dnat_chain(), at.masquerade_chain(), at.snat_chain()];
            own.iter().any(|own| chains.contains(&own.as_str()))
        };
        let is_named = |known: &&&Cached| {
            let has_address = known.addresses.iter().any(|address| has_word(text, &address.to_string()));
            has_chain(&known.at) || has_word(text, known.at.container.as_str()) || has_address
        };
        self.known.iter().find(is_named).map(|known| known.at.container.to_string())
    }
}

fn find_exact(table: &str) -> Option<RuleOwner> {
    TABLES.iter().find(|(name, _)| *name == table).map(|(_, owner)| owner.clone())
}

fn find(chain: &str) -> Option<RuleOwner> {
    CHAINS.iter().find(|(start, _)| chain.starts_with(start)).map(|(_, owner)| owner.clone())
}

/// Whether a text has a word, and not only as a part of another one.
fn has_word(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '-' || c == '_' || c == '.' || c == ':';
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(|c| is_part(c) && c != ':')
    })
}

#[cfg(test)]
mod tests {
    use cni_core::names::{ContainerId, IfName, NetworkName};

    use super::*;

    fn place(table: &str, chain: &str) -> Place {
        Place { family: 2, table: table.to_owned(), chain: chain.to_owned() }
    }

    fn chain(name: &str) -> ChainInfo {
        ChainInfo { family: 2, table: "filter".to_owned(), name: name.to_owned(), hook: None, kind: None }
    }

    fn web() -> Attachment {
        Attachment {
            network: NetworkName::parse("n1").expect("a network"),
            container: ContainerId::parse("web").expect("a container"),
            ifname: IfName::parse("eth0").expect("an interface"),
        }
    }

    fn owners() -> Owners<'static> {
        Owners { chains: vec![chain("FORWARD"), chain("DOCKER-USER")], known: Vec::new() }
    }

    fn text(place: &Place, verdict: &TraceVerdict, rule: &str) -> Option<String> {
        let mut web = Cached::of_record(web(), []);
        web.addresses = vec!["10.0.0.2".parse().expect("an address")];
        let owners = Owners { known: vec![&web], ..owners() };
        owners.of_rule(place, verdict, rule).map(|owner| owner.text())
    }

    #[test]
    fn a_rule_of_ours_names_plugin_and_container() {
        for (place, verdict, rule, want) in [
            (place("filter", "CNI-FORWARD"), TraceVerdict::Accept, "ip daddr 10.0.0.22 accept", "plugin firewall"),
            (
                place("cni_hostport", "hostports"),
                TraceVerdict::Continue,
                "comment \"web\"",
                "plugin portmap, container web",
            ),
            (place("filter", "FORWARD"), TraceVerdict::Jump("CNI-FORWARD".to_owned()), "", "plugin firewall"),
        ] {
            assert_eq!(text(&place, &verdict, rule).as_deref(), Some(want), "{place:?} {rule}");
        }
    }

    #[test]
    fn programs_are_known_by_their_names() {
        for (table, chain, want) in [("filter", "KUBE-FORWARD", Some("kube-proxy")), ("filter", "FORWARD", None)] {
            assert_eq!(text(&place(table, chain), &TraceVerdict::Drop, "").as_deref(), want, "{chain}");
        }
    }

    #[test]
    fn a_policy_is_of_the_program_that_has_chains_beside_it() {
        let of =
            |owners: &Owners<'_>, table: &str| owners.of_policy(&place(table, "FORWARD")).map(|owner| owner.name());
        assert_eq!(of(&owners(), "filter").as_deref(), Some("Docker"));
        assert_eq!(of(&owners(), "nat"), None);
        assert_eq!(of(&Owners::default(), "filter"), None);
        assert_eq!(of(&Owners::default(), "firewalld").as_deref(), Some("firewalld"));
    }
}
