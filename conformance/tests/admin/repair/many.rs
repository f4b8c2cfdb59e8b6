//! A repair of many containers, and for somebody who does not listen.

use std::fs;

use cni_conformance::{Attachment, Container, Nomad, PortMapping, Runtime, Sandbox, Spelling, binaries, result_cache};
use serde_json::json;

use crate::admin::repair::deleted::rules as all_rules;
use crate::admin::repair::{Backend, RepairedContainer, repair, repair_with, shell, words};

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

/// For each change of a table the kernel checks all of it. So containers are repaired together, with one change of each table of each
/// family; on a busy machine it gives its locks back in between, so it takes them some times. One by one they would take three changes
/// each. Who does not listen does not end the work.
#[test]
fn forty_containers_are_repaired_in_few_changes() {
    let sandbox = Backend::Nft.sandbox();
    let attached =
        |number: u16| RepairedContainer::add(&sandbox, &Backend::Nft.list(), &format!("guest-{number}"), 8080 + number);
    let guests: Vec<RepairedContainer<'_>> = (0..40).map(attached).collect();
    let before = all_rules(&sandbox);
    shell(&sandbox, "for p in iptables ip6tables; do for t in nat filter; do $p -t $t -F; $p -t $t -X; done; done");
    let program = binaries::under_test().join("cni-plugins");
    // The programs of iptables, which look for missing chains, use sendmsg.
    let traced = format!("strace -f -e trace=sendto -o /run/trace {} repair", program.display());
    shell(&sandbox, &traced);
    let trace = fs::read_to_string("/run/trace").expect("a trace");
    let changes = trace.lines().filter(|line| line.contains("NFNL_MSG_BATCH_BEGIN")).count();
    assert!((4..=20).contains(&changes), "{changes} changes");
    assert_eq!(all_rules(&sandbox), before);
    guests.iter().for_each(RepairedContainer::check);

    sandbox.sh("nft flush ruleset");
    let deaf = repair_with(&sandbox, &[]).launched_by(&["sh", "-c", "exec \"$0\" \"$@\" >/dev/full"]).run();
    assert_eq!((deaf.code(), deaf.stdout()), (Some(1), ""), "{deaf}");
    assert!(deaf.stderr().contains("failed to write to standard output: No space left"), "{deaf}");
    guests.iter().for_each(RepairedContainer::check);
}
