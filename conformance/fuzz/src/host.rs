//! A host that answers every question, carries out every step, and notes it: a plugin comes as far as its input lets it.

use std::net::IpAddr;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use cni_core::error::Error;
use cni_core::family::Family;
use cni_core::names::Attachment;
use cni_core::names::ChainName;
use cni_core::request::{Command, Request};
use cni_model::daemon::{AnswerTimeout, DaemonCall, DaemonError};
use cni_model::link::{Address, KernelRoute, Link, OtherEnd};
use cni_model::netns::{NamespaceNumber, NetnsError, NetnsView, NumberedLink, Occupancy};
use cni_model::plan::{LinkKind, LinkMove, Ns, Step, Sysctl};
use cni_model::record::PartKind;
use cni_model::routing::{FullRoute, KernelRule};
use cni_model::state_file::{StateFile, StateFileReadError};
use cni_model::traffic::{RedirectPart, TrafficControl};
use cni_model::vlan::BridgeVlan;
use cni_netfilter::firewalld::{Firewalld, Zone};
use cni_netfilter::iptables::{Batch, ChainRules, Iptables, IptablesTable, SharedChainsLock};
use cni_netfilter::nftables::{ChainId, Generation, ListedRule, Nftables, SetElements, Transaction};
use cni_netfilter::{Netfilter, NetfilterError};
use cni_plugin::host::{Devices, Files, Host, LinkQuery, NamespaceState, Routing};
use cni_plugin::ledger::{
    CHAIN, Entry, Ledger, TUNING, names, of_container, of_container_in_network, parse_attachment,
};
use cni_plugin::lock::LockName;

/// Methods whose answers do not depend on what is asked.
macro_rules! answers {
    ($(fn $name:ident($($argument:ty),*) -> $result:ty { $answer:expr })*) => {
        $(fn $name(&mut self $(, _: $argument)*) -> $result { $answer })*
    };
}

#[derive(Default)]
pub struct FuzzHost {
    pub links: Vec<(Ns, Link)>,
    pub applied: Vec<String>,
    /// What the IPAM plugin answers.
    pub answer: String,
    /// What each part of an entry says, and each state file, and each file of an administrator.
    pub record: Option<String>,
    pub state_file: Option<String>,
    pub administrators_file: Option<String>,
    pub is_firewalld_running: bool,
}

impl FuzzHost {
    /// A host with a network card, where another plugin has made the container's interface if a chained plugin is to work on it.
    pub fn new(is_chained: bool) -> Self {
        let mut host = Self::default();
        host.add(Ns::Host, "ens1", None);
        host.add(Ns::Container, "lo", None);
        host.add(Ns::Host, "br9", Some("bridge"));
        if is_chained {
            host.add(Ns::Container, "eth0", Some("veth"));
            host.add(Ns::Host, "veth0", Some("veth"));
        }
        host
    }

    fn add(&mut self, ns: Ns, name: &str, kind: Option<&str>) {
        let (mac, index) = ("02:00:00:00:00:0a".parse().ok(), 2 + u32::try_from(self.links.len()).unwrap_or_default());
        let (name, kind) = (name.to_owned(), kind.map(str::to_owned));
        self.links.push((ns, Link { index, name, mac, mtu: 1500, up: true, kind, ..Link::default() }));
    }
}

/// Every part of the host is the host itself.
macro_rules! itself {
    ($($name:ident: $part:ident),*) => {
        $(fn $name(&mut self) -> &mut dyn $part { self })*
    };
}

impl Host for FuzzHost {
    fn links(&mut self, ns: Ns, query: LinkQuery<'_>) -> Result<Vec<Link>, Error> {
        let is_meant = |link: &Link| match query {
            LinkQuery::Name(name) => link.name == name.as_str(),
            LinkQuery::Called(name) => link.name == name,
            LinkQuery::Index(index) => link.index == index,
            LinkQuery::Towards(_) => link.name == "ens1",
            LinkQuery::All => true,
            LinkQuery::Kind(kind) => link.kind.as_deref() == Some(kind),
            LinkQuery::PeerOf(_) => link.name == "veth0",
            LinkQuery::RouteTo(_) | LinkQuery::ChildOf { .. } => false,
        };
        Ok(self.links.iter().filter(|(of, link)| *of == ns && is_meant(link)).map(|(_, link)| link.clone()).collect())
    }

    fn netfilter(&mut self, _ns: Ns) -> Result<&mut dyn Netfilter, Error> {
        Ok(self)
    }

    fn apply(&mut self, step: &Step) -> Result<Option<Step>, Error> {
        self.applied.push(step.to_string());
        if let Step::CreateLink { ns, link } = step {
            self.add(*ns, link.name.as_str(), Some(link.kind.name()));
            if let LinkKind::Veth { peer } = &link.kind {
                self.add(peer.ns, peer.name.as_str(), Some("veth"));
            }
        } else if let Step::MoveLink(LinkMove { to, new_name, .. }) = step {
            self.add(*to, new_name.as_str(), None);
        } else if let Step::EnsureVlanLink(vlan) = step {
            self.add(Ns::Host, vlan.name.as_str(), Some("veth"));
        }
        Ok(None)
    }

    fn delegate(&mut self, _plugin: &str, _command: Command, _: Option<&Request>) -> Result<Vec<u8>, Error> {
        Ok(self.answer.clone().into_bytes())
    }

    fn ask_daemon(&mut self, call: &DaemonCall, _: AnswerTimeout<'_>) -> Result<Vec<u8>, DaemonError> {
        Err(DaemonError::OtherMake { socket: call.socket.clone() })
    }

    answers! {
        fn enter(&str) -> Result<(), NetnsError> { Ok(()) }
        fn is_own_netns(&str) -> Result<bool, Error> { Ok(false) }
        fn addresses(Ns, Option<u32>, Option<Family>) -> Result<Vec<Address>, Error> { Ok(Vec::new()) }
        fn lock(&LockName) -> Result<(), Error> { Ok(()) }
        fn random() -> [u8; 8] { [7; 8] }
    }
    itself!(
        routing: Routing, devices: Devices, namespaces: NamespaceState, ledger: Ledger, files: Files,
        firewalld: Firewalld
    );
}

impl Netfilter for FuzzHost {
    itself!(iptables: Iptables, nftables: Nftables);
}

impl Iptables for FuzzHost {
    fn lock(&mut self) -> Result<SharedChainsLock, NetfilterError> {
        Ok(SharedChainsLock { has_waited: false, held: Box::new(()) })
    }

    answers! {
        fn list(Family, IptablesTable, &ChainName) -> Result<ChainRules, NetfilterError> { Ok(None) }
        fn commit(&Batch) -> Result<(), NetfilterError> { Ok(()) }
        fn absence(Family, IptablesTable) -> Option<NetfilterError> { None }
    }
}

impl Nftables for FuzzHost {
    answers! {
        fn list(&ChainId) -> Result<Option<Vec<ListedRule>>, NetfilterError> { Ok(None) }
        fn held(&SetElements) -> Result<Option<Vec<IpAddr>>, NetfilterError> { Ok(None) }
        fn generation() -> Result<Generation, NetfilterError> { Ok(Generation(1)) }
        fn commit(&Transaction) -> Result<(), NetfilterError> { Ok(()) }
    }
}

impl Routing for FuzzHost {
    fn routes(&mut self, _: Ns, family: Family, _: Option<u32>) -> Result<Vec<KernelRoute>, Error> {
        let (dst, gateways) = (family.default_route(), vec![IpAddr::from([10, 1, 2, 254])]);
        let default = KernelRoute { dst, gateways, links: vec![2], unicast: true, table: 254 };
        Ok(Some(default).filter(|_| family == Family::V4).into_iter().collect())
    }

    answers! {
        fn full_routes(Ns, Family, u32) -> Result<Vec<FullRoute>, Error> { Ok(Vec::new()) }
        fn rules(Ns, Family) -> Result<Vec<KernelRule>, Error> { Ok(Vec::new()) }
    }
}

impl Devices for FuzzHost {
    answers! {
        fn entries(&Path) -> Result<Option<Vec<String>>, Error> { Ok(Some(vec!["ens1".to_owned()])) }
        fn leads_to(&Path) -> Result<Option<String>, Error> { Ok(Some("vfio-pci".to_owned())) }
        fn has_link_kind(&'static str) -> Result<bool, Error> { Ok(true) }
        fn other_end(Ns, &Link) -> Result<Option<OtherEnd>, Error> {
            Ok(Some(OtherEnd { index: Some(6), netns: None }))
        }
        fn port_vlans(Ns, u32) -> Result<Vec<BridgeVlan>, Error> { Ok(Vec::new()) }
        fn traffic_control(Ns, u32) -> Result<TrafficControl, Error> { Ok(TrafficControl::default()) }
        fn missing_redirect_part() -> Result<Option<RedirectPart>, Error> { Ok(None) }
    }
}

impl NamespaceState for FuzzHost {
    answers! {
        fn identity(Ns) -> Result<Option<String>, Error> { Ok(Some("boot:1".to_owned())) }
        fn leads_to_container(&str) -> Result<bool, Error> { Ok(true) }
        fn keep() -> () { () }
        fn back() -> () { () }
        fn number_container() -> Result<Option<NamespaceNumber>, Error> { Ok(None) }
        fn numbered_link(i32, u32) -> Result<NumberedLink, Error> { Ok(NumberedLink::NoLink) }
        fn numbered_links(i32) -> Result<Option<Vec<Link>>, Error> { Ok(None) }
        fn numbered_addresses(i32) -> Result<Option<Vec<Address>>, Error> { Ok(None) }
        fn peer_addresses(&Link) -> Result<Option<Vec<Address>>, Error> { Ok(None) }
        fn path_by_process(&str) -> Result<Option<String>, Error> { Ok(None) }
        fn occupancy(i32, u32) -> Result<Occupancy, Error> { Ok(Occupancy::Empty) }
        fn survey(Option<&str>) -> Rc<[NetnsView]> { Rc::new([]) }
        fn unseen(Option<&str>) -> Option<String> { None }
    }
}

impl FuzzHost {
    /// The entry of an attachment, in which each part says the same.
    fn entry_of(&self, at: &Attachment) -> Option<Entry> {
        let text = self.record.as_deref()?.replace('\n', " ");
        let hashed = [of_container_in_network(CHAIN, at), of_container(TUNING, at)];
        let words = "added address-10.1.2.5 deletion device masquerade port-8080 refusal routes sbr".split(' ');
        let names_of_parts = words.map(str::to_owned).chain(hashed.map(|part| part.to_string()));
        let parts: String = names_of_parts.map(|name| format!("{name} {text}\n")).collect();
        Entry::parse(&format!("{}\n{text}\n{parts}", names(at)))
    }

    /// Those of the container and of another one.
    fn both(&self) -> Vec<Entry> {
        let both = ["net c1 eth0", "net c2 eth0"].into_iter();
        both.filter_map(|names| self.entry_of(&parse_attachment(&mut names.split(' '))?)).collect()
    }
}

impl Ledger for FuzzHost {
    fn entry(&mut self, at: &Attachment) -> Result<Option<Entry>, Error> {
        Ok(self.entry_of(at))
    }

    fn entries(&mut self, known: &[&Attachment]) -> Result<Vec<Entry>, Error> {
        Ok(self.both().into_iter().filter(|entry| !known.contains(&&entry.at)).collect())
    }

    fn holders(&mut self, _kind: PartKind, _is_meant: &dyn Fn(&str) -> bool) -> Result<Vec<Entry>, Error> {
        Ok(self.both())
    }

    answers! {
        fn since_boot() -> Result<Duration, Error> { Ok(Duration::from_secs(100)) }
        fn now() -> Duration { Duration::from_secs(7) }
    }
}

impl Files for FuzzHost {
    fn administrators_file(&mut self, path: &Path) -> Result<Option<String>, Error> {
        let file = match path.to_str() {
            Some("/etc/passwd") => "root:x:0:0::/root:/bin/sh\nenvoy:x:1337:1337::/:/bin/false\nbroken\n",
            Some("/etc/services") => "http\t80/tcp www # WorldWideWeb\ndomain 53/udp\ndomain 153/tcp\n",
            Some("/run/flannel/subnet.env") => {
                "FLANNEL_NETWORK=10.42.0.0/16\nFLANNEL_SUBNET=10.42.1.1/24\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=true\n"
            }
            _ => return Ok(self.administrators_file.clone()),
        };
        Ok(Some(file.to_owned()))
    }

    fn state_file(&mut self, _file: &StateFile) -> Result<Option<String>, StateFileReadError> {
        Ok(self.state_file.clone())
    }

    answers! {
        fn state_file_names(&Path) -> Result<Vec<String>, Error> { Ok(Vec::new()) }
        fn sysctl(Ns, &Sysctl) -> Result<Option<String>, Error> { Ok(Some("0".to_owned())) }
        fn effective_ids() -> (u32, u32) { (0, 0) }
    }
}

impl Firewalld for FuzzHost {
    fn is_running(&mut self) -> bool {
        self.is_firewalld_running
    }

    answers! { fn has_source(&Zone, IpAddr) -> Result<bool, Error> { Ok(false) } }
}
