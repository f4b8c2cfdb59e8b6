//! A repair of more containers than one change of each table holds.

use cni_conformance::{Attachment, Container, Nomad, PortMapping, Runtime, Sandbox, Spelling, result_cache};

use crate::admin::repair::{repair, words};

/// Two groups: `repair` changes the rules of 512 containers at once.
const CONTAINERS: u16 = 530;

/// One of the second group.
const DELETED: u16 = 520;

/// The rules in the tables of iptables.
fn rules(sandbox: &Sandbox) -> [String; 2] {
    ["iptables -t nat -S", "iptables -S"].map(|line| sandbox.sh(line))
}

#[test]
fn the_rules_of_several_groups_come_back_in_their_order() {
    let sandbox = Sandbox::new();
    let nomad = Nomad::default();
    nomad.ensure_forwarding_rules(&sandbox);
    let list = nomad.conflist();
    let runtime = Runtime::new(&sandbox, list.clone());
    let attached = |number: u16| {
        let container = sandbox.container(&format!("c{number}"));
        let ports = [PortMapping::new(10_000 + number, 80, "tcp")];
        let mut attachment = Attachment::new(container.name(), &container).ports(&ports, Spelling::Go);
        runtime.add(&mut attachment).expect_success();
        result_cache::store(&list, &attachment);
        (container, attachment)
    };
    let all: Vec<(Container, Attachment)> = (0..CONTAINERS).map(attached).collect();
    let before = rules(&sandbox);
    ["iptables -t nat -F", "iptables -F"].iter().for_each(|line| drop(sandbox.sh(line)));
    nomad.ensure_forwarding_rules(&sandbox);
    // It has no interface any more, as during a DEL of other plugins.
    let (deleted, attachment) = &all[usize::from(DELETED)];
    sandbox.sh(&format!("ip -n {} link del eth0", deleted.name()));
    let done = repair(&sandbox, &[]);
    done.expect_success();
    let said = words(&done);
    let repaired = said.iter().filter(|word| word.starts_with("repaired")).count();
    assert_eq!((said.len(), repaired), (all.len(), all.len() - 1), "{done}");
    let address = attachment.result.as_ref().expect("a result")["ips"][0]["address"].as_str().expect("an address");
    let address = address.split('/').next().expect("an address");
    let marks =
        [deleted.name().to_owned(), format!("{address}/"), format!("{address}:"), format!(" {} ", 10_000 + DELETED)];
    let others = |text: &str| -> Vec<String> {
        let is_of_deleted = |line: &&str| marks.iter().any(|mark| line.contains(mark));
        text.lines().filter(|line| !is_of_deleted(line)).map(str::to_owned).collect()
    };
    let after = rules(&sandbox);
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(others(after), others(before));
    }
}
