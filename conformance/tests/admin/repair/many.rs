//! A repair of many containers.

use cni_conformance::{Attachment, Container, Nomad, PortMapping, Runtime, Sandbox, Spelling, result_cache};
use serde_json::json;

use crate::admin::repair::{repair, shell, words};

/// More than are locked together where each lacks more than rules of iptables.
const CONTAINERS: u16 = 300;

/// One of the last.
const DELETED: u16 = 290;

/// All rules.
fn rules(sandbox: &Sandbox) -> [String; 3] {
    ["iptables -t nat -S", "iptables -S", "nft list table bridge nat"].map(|line| sandbox.sh(line))
}

/// Returns how many attachments were named and how many of these were repaired.
fn repaired(sandbox: &Sandbox) -> (usize, usize) {
    let done = repair(sandbox, &[]);
    done.expect_success();
    let said = words(&done);
    (said.len(), said.iter().filter(|word| word.starts_with("repaired")).count())
}

#[test]
fn the_rules_of_many_come_back_in_their_order() {
    let sandbox = Sandbox::new();
    let nomad = Nomad::default();
    nomad.ensure_forwarding_rules(&sandbox);
    let mut list = nomad.conflist();
    list["plugins"][1]["macspoofchk"] = json!(true);
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
    shell(&sandbox, "nft flush ruleset");
    nomad.ensure_forwarding_rules(&sandbox);
    assert_eq!(
        repaired(&sandbox),
        (all.len(), all.len()),
        "each by itself, since the check of MAC addresses is missing too"
    );
    assert_eq!(rules(&sandbox), before);

    shell(&sandbox, "iptables -t nat -F && iptables -F");
    nomad.ensure_forwarding_rules(&sandbox);
    // It has no interface any more, as during a DEL of other plugins.
    let (deleted, attachment) = &all[usize::from(DELETED)];
    sandbox.sh(&format!("ip -n {} link del eth0", deleted.name()));
    assert_eq!(repaired(&sandbox), (all.len(), all.len() - 1));
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
