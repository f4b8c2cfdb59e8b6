//! A container that died without a DEL, as on a machine that lost power or a client that was down.

use cni_conformance::PortMapping;

use crate::portmap::contested_ports::{ContestedHost, Engine, PORT, SERVICE};

/// A container has a port, dies, and another one gets the port; then the first one's DEL comes.
fn the_port_of_a_dead_container(engine: Engine) {
    let machine = ContestedHost::new(engine);
    let old = machine.run("old");
    machine.leads_to(&old);
    machine.end(&old);
    let new = machine.run("new");
    machine.leads_to(&new);
    assert_eq!(machine.traces("old"), [""; 0], "{engine:?}");
    machine.runtime().check(&new.attachment).expect_success();
    machine.del(&old);
    machine.leads_to(&new);
    machine.del(&new);
    assert_eq!((machine.entries(), machine.records().as_str()), (vec![], ""), "{engine:?}");
}

#[test]
fn a_dead_container_loses_its_port_on_nft_iptables() {
    the_port_of_a_dead_container(Engine::IptablesNft);
}

#[test]
fn a_dead_container_loses_its_port_on_legacy_iptables() {
    the_port_of_a_dead_container(Engine::IptablesLegacy);
}

#[test]
fn a_dead_container_loses_its_port_in_nftables() {
    the_port_of_a_dead_container(Engine::Nftables);
}

/// A path may be given to another container's namespace once the first is gone.
#[test]
fn a_container_is_dead_whose_path_leads_to_another_namespace() {
    for engine in Engine::ALL {
        let machine = ContestedHost::new(engine);
        let old = machine.run("old");
        machine.end(&old);
        let _stranger = machine.sandbox.container("old");
        let new = machine.run("new");
        machine.leads_to(&new);
        assert_eq!(machine.traces("old"), [""; 0], "{engine:?}");
    }
}

/// Its other ports go as well, and so it has nothing left that a DEL would have to remove.
#[test]
fn nothing_of_a_dead_container_stays_whichever_of_its_ports_is_asked_for() {
    for engine in Engine::ALL {
        let machine = ContestedHost::new(engine);
        let many: Vec<PortMapping> = ["tcp", "udp", "sctp"]
            .into_iter()
            .flat_map(|proto| (PORT..PORT + 20).map(move |port| PortMapping::new(port, SERVICE, proto)))
            .collect();
        let mut old = machine.published("old", &many);
        machine.add(&mut old);
        machine.end(&old);
        let mut new = machine.published("new", &[PortMapping::new(PORT + 17, SERVICE, "sctp")]);
        let warned = machine.add(&mut new);
        assert_eq!(warned.step("portmap").stderr(), "", "{engine:?}: it is dead");
        assert_eq!((machine.traces("old").len(), machine.traces("new").len()), (0, 2), "{engine:?}");
        machine.del(&old);
        machine.del(&new);
        assert_eq!((machine.entries(), machine.records().as_str()), (vec![], ""), "{engine:?}");
    }
}

/// An ADD that fails afterwards leaves nothing of its own; what the dead container had is gone all the same.
#[test]
fn an_add_that_fails_leaves_nothing_and_the_next_one_has_the_port() {
    for engine in Engine::ALL {
        let mut machine = ContestedHost::new(engine);
        let old = machine.run("old");
        machine.end(&old);
        let bad = match engine {
            Engine::Nftables => serde_json::json!({"conditionsV6": ["ip6", "saddr", "10.0.0.0/8"]}),
            Engine::IptablesNft | Engine::IptablesLegacy => serde_json::json!({"conditionsV6": ["-s", "10.0.0.0/8"]}),
        };
        let good = machine.list.clone();
        machine.set(&bad);
        let mut new = machine.published("new", &PortMapping::twins(PORT, SERVICE));
        assert!(!machine.runtime().add(&mut new.attachment).succeeded(), "{engine:?}");
        assert_eq!(machine.entries(), [""; 0], "{engine:?}");
        machine.list = good;
        machine.del(&new);
        machine.add(&mut new);
        machine.leads_to(&new);
        machine.del(&new);
        machine.del(&old);
        assert_eq!(machine.records(), "", "{engine:?}");
    }
}
