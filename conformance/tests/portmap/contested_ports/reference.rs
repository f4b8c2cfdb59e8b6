//! One of two containers, or its DEL, is the reference's: the older rules come first, whichever plugins made them.
//!
//! Debian's reference has only iptables. Its ADD and DEL for nftables are written here as scripts of `nft`.

use std::fs;
use std::path::Path;

use cni_conformance::reference;
use cni_conformance::{Invocation, PortMapping, Runtime, Verb, result_cache};

use crate::portmap::contested_ports::{ContestedHost, Engine, PORT, PublishedContainer, SERVICE};

/// Whose plugins make a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Ours,
    Reference,
}

use Side::{Ours, Reference};

/// Who adds the older container, who the newer one, and who deletes the older one.
const HISTORIES: [[Side; 3]; 6] = [
    [Reference, Ours, Reference],
    [Reference, Ours, Ours],
    [Ours, Reference, Ours],
    [Ours, Reference, Reference],
    [Ours, Ours, Reference],
    [Reference, Reference, Ours],
];

/// The table of a family as the reference's ADD makes it, with a port of a container.
fn add_script(family: &str, container: &str, address: &str) -> String {
    let to = if family == "ip6" { format!("[{address}]") } else { address.to_owned() };
    let mut script = String::new();
    for chain in ["hostports", "hostip_hostports", "hostports_all"] {
        script += &format!("add chain {family} cni_hostport {chain}\n");
    }
    script += &format!("flush chain {family} cni_hostport hostports_all\n");
    for chain in ["hostip_hostports", "hostports"] {
        script += &format!("add rule {family} cni_hostport hostports_all jump {chain}\n");
    }
    for (hook, priority) in [("prerouting", -100), ("output", -100)] {
        let chain = format!("{family} cni_hostport {hook}");
        script += &format!("add chain {chain} {{ type nat hook {hook} priority {priority} ; }}\nflush chain {chain}\n");
        script += &format!("add rule {chain} fib daddr type local jump hostports_all\n");
    }
    let masquerading = format!("{family} cni_hostport masquerading");
    script += &format!("add chain {masquerading} {{ type nat hook postrouting priority 100 ; }}\n");
    for proto in ["tcp", "udp"] {
        script += &format!(
            "add rule {family} cni_hostport hostports {proto} dport {PORT} dnat to {to}:{SERVICE} comment \"{container}\"\n"
        );
    }
    script += &format!(
        "add rule {masquerading} {family} saddr {address} {family} daddr {address} masquerade comment \"{container}\"\n"
    );
    format!("add table {family} cni_hostport {{ comment \"CNI portmap plugin\" ; }}\n{script}")
}

impl ContestedHost {
    fn add_by(&self, side: Side, published: &mut PublishedContainer, folder: &Path) {
        match (side, self.engine) {
            (Ours, _) => drop(self.add(published)),
            (Reference, Engine::IptablesNft | Engine::IptablesLegacy) => {
                self.runtime().binaries(folder).add(&mut published.attachment).expect_success();
            }
            (Reference, Engine::Nftables) => {
                self.without_portmap().add(&mut published.attachment).expect_success();
                let result = published.attachment.result.as_ref().expect("a result");
                for ip in result["ips"].as_array().expect("addresses") {
                    let address = ip["address"].as_str().and_then(|text| text.split('/').next()).expect("an address");
                    let family = if address.contains(':') { "ip6" } else { "ip" };
                    let script = add_script(family, published.container.name(), address);
                    fs::write("/run/conformance/script.nft", script).expect("write a script for nft");
                    self.sandbox.sh("nft -f /run/conformance/script.nft");
                }
            }
        }
    }

    fn del_by(&self, side: Side, published: &PublishedContainer, folder: &Path) {
        match (side, self.engine) {
            (Ours, _) => self.del(published),
            (Reference, Engine::IptablesNft | Engine::IptablesLegacy) => {
                self.runtime().binaries(folder).del(&published.attachment).expect_success();
            }
            (Reference, Engine::Nftables) => {
                self.delete_as_reference(published.container.name());
                self.without_portmap().del(&published.attachment).expect_success();
            }
        }
    }

    /// Deletes the rules whose comment is the container's name.
    fn delete_as_reference(&self, name: &str) {
        for (family, chain) in ["ip", "ip6"].into_iter().flat_map(|f| ["hostports", "masquerading"].map(|c| (f, c))) {
            let listed = self.sandbox.sh(&format!("nft -a list chain {family} cni_hostport {chain}"));
            let marked = format!(" comment \"{name}\" # handle ");
            for handle in listed.lines().filter_map(|line| line.split_once(&marked).map(|(_, handle)| handle)) {
                self.sandbox.sh(&format!("nft delete rule {family} cni_hostport {chain} handle {handle}"));
            }
        }
    }

    /// Removes all rules.
    fn flush(&self) {
        let lines = match self.engine {
            Engine::Nftables => &["nft flush ruleset"][..],
            Engine::IptablesNft | Engine::IptablesLegacy => {
                &["iptables -F", "iptables -t nat -F", "ip6tables -F", "ip6tables -t nat -F"]
            }
        };
        lines.iter().for_each(|line| drop(self.sandbox.sh(line)));
    }

    fn without_portmap(&self) -> Runtime<'_> {
        let mut list = self.list.clone();
        list["plugins"].as_array_mut().expect("plugins").retain(|plugin| plugin["type"] != "portmap");
        Runtime::new(&self.sandbox, list)
    }
}

#[test]
fn the_older_one_keeps_the_port_until_its_del_whichever_plugins_are_called() {
    let Some(reference) = reference::find("two containers with one host port") else { return };
    for engine in Engine::ALL {
        for history in HISTORIES {
            let machine = ContestedHost::new(engine);
            let [mut old, mut new] =
                ["old", "new"].map(|name| machine.published(name, &PortMapping::twins(PORT, SERVICE)));
            let [old_by, new_by, del_by] = history;
            eprintln!("{engine:?}: {history:?}");
            machine.add_by(old_by, &mut old, &reference.folder);
            machine.add_by(new_by, &mut new, &reference.folder);
            machine.leads_to(&old);
            machine.del_by(del_by, &old, &reference.folder);
            machine.leads_to(&new);
        }
    }
}

/// The reference's DEL leaves a record, and the container ends. Nobody is warned of it, and the next ADD removes the record.
#[test]
fn a_record_that_the_references_del_has_left_is_removed_by_the_next_add() {
    let Some(reference) = reference::find("records after the reference's DEL") else { return };
    for engine in Engine::ALL {
        let machine = ContestedHost::new(engine);
        let chain = usize::from(engine != Engine::Nftables);
        let ports: Vec<PortMapping> = (PORT..PORT + 3).map(|port| PortMapping::new(port, SERVICE, "tcp")).collect();
        let mut old = machine.published("old", &ports);
        machine.add(&mut old);
        machine.del_by(Reference, &old, &reference.folder);
        machine.end(&old);
        assert_eq!(machine.records().lines().count(), 4 + chain, "{engine:?}: three ports, their owner, its chain");
        let mut new = machine.published("new", &ports[..1]);
        assert_eq!(machine.add(&mut new).step("portmap").stderr(), "", "{engine:?}");
        assert_eq!(machine.records().lines().count(), 2 + chain, "{engine:?}: {}", machine.records());
        machine.del(&new);
        assert_eq!(machine.records(), "", "{engine:?}");
    }
}

/// After a swap to the reference and back: the record of its port is of the namespace before.
#[test]
fn a_container_that_the_reference_has_added_again_keeps_its_port() {
    let Some(reference) = reference::find("the port of a container that the reference has added again") else { return };
    for engine in Engine::ALL {
        let machine = ContestedHost::new(engine);
        let old = machine.run("old");
        machine.del_by(Reference, &old, &reference.folder);
        machine.end(&old);
        let mut again = machine.published("old", &PortMapping::twins(PORT, SERVICE));
        machine.add_by(Reference, &mut again, &reference.folder);
        let new = machine.run("new");
        machine.leads_to(&again);
        machine.del(&new);
        machine.leads_to(&again);
        let newer = machine.run("newer");
        machine.del(&again);
        machine.leads_to(&newer);
        machine.del(&newer);
        assert_eq!((machine.entries(), machine.records().as_str()), (vec![], ""), "{engine:?}");
    }
}

/// Only the first repair records the ports of a container that the reference has made.
#[test]
fn the_older_one_keeps_the_port_however_often_all_rules_are_flushed_and_repaired() {
    let Some(reference) = reference::find("repairs of the port of the reference's container") else { return };
    for engine in Engine::ALL {
        for history in [[Reference, Ours], [Reference, Reference], [Ours, Reference]] {
            let machine = ContestedHost::new(engine);
            let [mut old, mut new] =
                ["old", "new"].map(|name| machine.published(name, &PortMapping::twins(PORT, SERVICE)));
            eprintln!("{engine:?}: {history:?}");
            for (published, by) in [&mut old, &mut new].into_iter().zip(history) {
                machine.add_by(by, published, &reference.folder);
                result_cache::store(&machine.list, &published.attachment);
            }
            for _ in 0..2 {
                machine.flush();
                Invocation::new(&machine.sandbox, "cni-plugins", Verb::Add)
                    .arguments(&["repair"])
                    .run()
                    .expect_success();
                machine.leads_to(&old);
            }
            machine.del(&old);
            machine.leads_to(&new);
            machine.del(&new);
            assert_eq!((machine.entries(), machine.records().as_str()), (vec![], ""), "{engine:?}: {history:?}");
        }
    }
}
