//! A container that died without a DEL, as on a machine that lost power or a client that was down.

use cni_conformance::PortMapping;

use crate::portmap::contested_ports::{Client, Engine, PORT, SERVICE};

/// A container has a port, dies, and another one gets the port; then the first one's DEL comes.
fn the_port_of_a_dead_container(engine: Engine) {
    let client = Client::new(engine);
    let old = client.run("old");
    client.leads_to(&old);
    client.end(&old);
    let new = client.run("new");
    client.leads_to(&new);
    assert_eq!(client.traces("old"), [""; 0], "{engine:?}");
    client.runtime().check(&new.attachment).expect_success();
    client.del(&old);
    client.leads_to(&new);
    client.del(&new);
    assert_eq!((client.entries(), client.records().as_str()), (vec![], ""), "{engine:?}");
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
        let client = Client::new(engine);
        let old = client.run("old");
        client.end(&old);
        let _stranger = client.sandbox.container("old");
        let new = client.run("new");
        client.leads_to(&new);
        assert_eq!(client.traces("old"), [""; 0], "{engine:?}");
    }
}

/// Its other ports go as well, and so it has nothing left that a DEL would have to remove.
#[test]
fn nothing_of_a_dead_container_stays_whichever_of_its_ports_is_asked_for() {
    for engine in Engine::ALL {
        let client = Client::new(engine);
        let many: Vec<PortMapping> = ["tcp", "udp", "sctp"]
            .into_iter()
            .flat_map(|proto| (PORT..PORT + 20).map(move |port| PortMapping::new(port, SERVICE, proto)))
            .collect();
        let mut old = client.task("old", &many);
        client.add(&mut old);
        client.end(&old);
        let mut new = client.task("new", &[PortMapping::new(PORT + 17, SERVICE, "sctp")]);
        let warned = client.add(&mut new);
        assert_eq!(warned.step("portmap").stderr(), "", "{engine:?}: it is dead");
        assert_eq!((client.traces("old").len(), client.traces("new").len()), (0, 2), "{engine:?}");
        client.del(&old);
        client.del(&new);
        assert_eq!((client.entries(), client.records().as_str()), (vec![], ""), "{engine:?}");
    }
}

/// An ADD that fails afterwards leaves nothing of its own; what the dead container had is gone all the same.
#[test]
fn an_add_that_fails_leaves_nothing_and_the_next_one_has_the_port() {
    for engine in Engine::ALL {
        let mut client = Client::new(engine);
        let old = client.run("old");
        client.end(&old);
        let bad = match engine {
            Engine::Nftables => serde_json::json!({"conditionsV6": ["ip6", "saddr", "10.0.0.0/8"]}),
            Engine::IptablesNft | Engine::IptablesLegacy => serde_json::json!({"conditionsV6": ["-s", "10.0.0.0/8"]}),
        };
        let good = client.list.clone();
        client.set(&bad);
        let mut new = client.task("new", &PortMapping::twins(PORT, SERVICE));
        assert!(!client.runtime().add(&mut new.attachment).succeeded(), "{engine:?}");
        assert_eq!(client.entries(), [""; 0], "{engine:?}");
        client.list = good;
        client.del(&new);
        client.add(&mut new);
        client.leads_to(&new);
        client.del(&new);
        client.del(&old);
        assert_eq!(client.records(), "", "{engine:?}");
    }
}
