//! Two containers that live: the newer one comes first, and a warning names the other.

use cni_conformance::{Attachment, Outside, PortMapping, Spelling, Verb, at_once};

use crate::{Client, Engine, PORT, SERVICE, Task, localhost};

/// Two containers have a port; the newer one goes before the other, or after it.
fn the_port_of_two(engine: Engine) {
    let client = Client::new(engine);
    let old = client.run("old");
    let mut new = client.task("new", &PortMapping::twins(PORT, SERVICE));
    let added = client.add(&mut new);
    client.leads_to(&new);
    let warning = added.step("portmap").stderr();
    assert!(warning.contains("container old (network nomad") && warning.contains("tcp 0.0.0.0:8080"), "{warning}");
    for task in [&old, &new] {
        client.runtime().check(&task.attachment).expect_success();
    }
    client.del(&new);
    client.leads_to(&old);
    client.add(&mut new);
    client.leads_to(&new);
    client.del(&old);
    client.leads_to(&new);
    assert!(client.records().contains("/ports/8080"), "the record is the newer one's");
    client.runtime().check(&new.attachment).expect_success();
    client.del(&new);
    assert_eq!((client.entries(), client.records().as_str()), (vec![], ""), "{engine:?}");
}

#[test]
fn the_newer_of_two_has_the_port_while_it_lives_on_nft_iptables() {
    the_port_of_two(Engine::IptablesNft);
}

#[test]
fn the_newer_of_two_has_the_port_while_it_lives_on_legacy_iptables() {
    the_port_of_two(Engine::IptablesLegacy);
}

#[test]
fn the_newer_of_two_has_the_port_while_it_lives_in_nftables() {
    the_port_of_two(Engine::Nftables);
}

/// A mapping of one address takes that address from one of all addresses, and the other way round.
#[test]
fn one_address_and_every_address_are_in_conflict_there_only() {
    let one = [PortMapping::new(PORT, SERVICE, "tcp").on(&Outside::HOST_V4.to_string())];
    let all = [PortMapping::new(PORT, SERVICE, "tcp")];
    for engine in Engine::ALL {
        let client = Client::new(engine);
        let mut wide = client.task("wide", &all);
        client.add(&mut wide);
        let mut narrow = client.task("narrow", &one);
        let warned = client.add(&mut narrow);
        assert!(warned.step("portmap").stderr().contains("container wide "), "{engine:?}");
        client.reaches(&narrow, Outside::HOST_V4.into());
        client.misses(&narrow, localhost());
        client.reaches(&wide, localhost());
        client.reaches(&wide, Outside::HOST_V6.into());
        let mut wider = client.task("wider", &all);
        client.add(&mut wider);
        for address in [Outside::HOST_V4.into(), localhost(), Outside::HOST_V6.into()] {
            client.reaches(&wider, address);
        }
    }
}

/// In the absence of a conflict the order is that of the ADDs, and nobody is warned.
#[test]
fn without_a_conflict_the_order_is_that_of_the_adds() {
    let mapping = |port, proto: &str, ip: &str| PortMapping::new(port, SERVICE, proto).on(ip);
    for engine in Engine::ALL {
        let client = Client::new(engine);
        let pairs = [
            (mapping(PORT, "tcp", ""), mapping(PORT, "udp", "")),
            (mapping(81, "tcp", "192.0.2.201"), mapping(81, "tcp", "192.0.2.202")),
            (mapping(82, "sctp", "0.0.0.0"), mapping(82, "sctp", "::")),
        ];
        let mut names = Vec::new();
        for (number, (one, other)) in pairs.into_iter().enumerate() {
            for (letter, mapping) in [("a", one), ("b", other)] {
                let name = format!("{letter}{number}");
                let mut task = client.task(&name, &[mapping]);
                assert_eq!(client.add(&mut task).step("portmap").stderr(), "", "{engine:?}: {name}");
                names.push(name);
            }
        }
        let entries = client.entries();
        let places: Vec<usize> = names
            .iter()
            .filter_map(|name| {
                entries
                    .iter()
                    .position(|line| line.contains(&format!("{name}\\\"")) || line.contains(&format!("\"{name}\"")))
            })
            .collect();
        assert!(places.len() >= 5 && places.is_sorted_by_key(|place| *place), "{engine:?}: {entries:#?}");
    }
}

#[test]
fn a_second_add_of_the_same_attachment_is_no_conflict() {
    for engine in Engine::ALL {
        let client = Client::new(engine);
        let task = client.run("one");
        let (before, records) = (client.entries(), client.records());
        let mut portmap =
            Attachment::new("one", &task.container).ports(&PortMapping::twins(PORT, SERVICE), Spelling::Go);
        portmap.result.clone_from(&task.attachment.result);
        let list = client.runtime();
        let again = list.invocation(cni_conformance::Verb::Add, "portmap", &portmap, portmap.result.as_ref()).run();
        assert_eq!(again.expect_success().stderr(), "", "{engine:?}");
        assert_eq!((client.entries(), client.records()), (before, records), "{engine:?}");
        client.leads_to(&task);
    }
}

/// All at once: each has its rules once, and the records are whole, so that nothing is left of them in the end.
#[test]
fn those_that_come_and_go_at_the_same_time_are_all_recorded() {
    for engine in Engine::ALL {
        let mut client = Client::new(engine);
        let whole = client.list.clone();
        client.list["plugins"].as_array_mut().expect("plugins").retain(|plugin| plugin["type"] != "portmap");
        let mut tasks: Vec<Task> =
            (0..6).map(|number| client.task(&format!("t{number}"), &PortMapping::twins(PORT, SERVICE))).collect();
        tasks.iter_mut().for_each(|task| drop(client.add(task)));
        client.list = whole;
        let everybody = |verb| {
            let runtime = client.runtime();
            let call =
                |task: &Task| runtime.invocation(verb, "portmap", &task.attachment, task.attachment.result.as_ref());
            at_once(&tasks.iter().map(call).collect::<Vec<_>>())
        };
        everybody(Verb::Add).iter().for_each(|outcome| drop(outcome.result()));
        for task in &tasks {
            // A rule for each protocol and family.
            assert_eq!(client.traces(task.container.name()).len(), 4, "{engine:?}");
        }
        everybody(Verb::Del).iter().for_each(|outcome| assert!(outcome.expect_success().succeeded()));
        assert_eq!((client.entries(), client.records().as_str()), (vec![], ""), "{engine:?}");
    }
}
