//! The rules that all containers share: made once, by any plugin, and repaired when one is missing.
//!
//! Other plugins and old releases work on the same chains, and leave duplicates when two of them start at the same
//! time.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use cni_conformance::traffic::{Echo, Transport, ask};
use cni_conformance::{Attachment, Nomad, Outside, PortMapping, Runtime, Sandbox, Spelling, Verb, at_once};
use serde_json::Value;

use crate::rules::nomad::{ALLOC, NEIGHBOUR, attach};
use cni_conformance::golden::{PROGRAMS, on_both_flavours, rules};

const TABLES: [&str; 2] = ["nat", "filter"];

const MARK: &str = "CNI portfwd masquerade mark";
const MASQUERADE: &str = "CNI portfwd requiring masquerade";
const FORWARD: &str = "CNI firewall plugin rules";
const ADMIN: &str = "CNI firewall plugin admin overrides";

/// A rule of the skeleton: its table, and its chain and words as iptables takes them.
type Piece = (&'static str, &'static [&'static str]);

const PIECES: [Piece; 7] = [
    ("nat", &["PREROUTING", "-m", "addrtype", "--dst-type", "LOCAL", "-j", "CNI-HOSTPORT-DNAT"]),
    ("nat", &["OUTPUT", "-m", "addrtype", "--dst-type", "LOCAL", "-j", "CNI-HOSTPORT-DNAT"]),
    ("nat", &["POSTROUTING", "-m", "comment", "--comment", MASQUERADE, "-j", "CNI-HOSTPORT-MASQ"]),
    ("nat", &["CNI-HOSTPORT-MASQ", "-m", "mark", "--mark", "0x2000/0x2000", "-j", "MASQUERADE"]),
    (
        "nat",
        &["CNI-HOSTPORT-SETMARK", "-m", "comment", "--comment", MARK, "-j", "MARK", "--set-xmark", "0x2000/0x2000"],
    ),
    ("filter", &["FORWARD", "-m", "comment", "--comment", FORWARD, "-j", "CNI-FORWARD"]),
    ("filter", &["CNI-FORWARD", "-m", "comment", "--comment", ADMIN, "-j", "NOMAD-ADMIN"]),
];

/// Changes one rule of the skeleton as another program would.
#[track_caller]
fn edit(sandbox: &Sandbox, program: &str, verb: &str, (table, words): Piece) {
    let command = [&[program, "--wait", "-t", table, verb], words].concat();
    sandbox.exec(&command).expect_success();
}

/// Returns the rules of both families and tables.
fn all_rules(sandbox: &Sandbox) -> BTreeMap<String, Vec<String>> {
    let places = PROGRAMS.iter().flat_map(|program| TABLES.map(|table| (program, table)));
    places.map(|(program, table)| (format!("{program} {table}"), rules(sandbox, program, table))).collect()
}

fn two_containers(sandbox: &Sandbox, nomad: &Nomad, between: impl Fn()) -> BTreeMap<String, Vec<String>> {
    attach(sandbox, nomad, ALLOC, 8080);
    between();
    attach(sandbox, nomad, NEIGHBOUR, 9090);
    all_rules(sandbox)
}

#[test]
fn a_missing_piece_comes_back_in_its_place_with_the_next_container() {
    on_both_flavours(|sandbox| {
        let nomad = Nomad::default();
        let whole = two_containers(sandbox, &nomad, || ());
        for piece in PIECES {
            let sandbox = Sandbox::with_flavour(sandbox.flavour());
            let mended = two_containers(&sandbox, &nomad, || edit(&sandbox, "iptables", "-D", piece));
            assert_eq!(mended, whole, "without {piece:?} on {:?}", sandbox.flavour());
        }
    });
}

/// As `iptables -F; iptables -X` leaves it, and many a firewall script at its start.
#[test]
fn flushed_tables_are_filled_again_by_the_next_container() {
    on_both_flavours(|sandbox| {
        let nomad = Nomad::default();
        attach(sandbox, &nomad, ALLOC, 8080);
        for table in TABLES {
            for command in ["-F", "-X"] {
                sandbox.sh(&format!("iptables --wait -t {table} {command}"));
            }
        }
        attach(sandbox, &nomad, NEIGHBOUR, 9090);
        for (table, words) in PIECES {
            let check = [&["iptables", "--wait", "-t", table, "-C"], words].concat();
            sandbox.exec(&check).expect_success();
        }
        let nat = rules(sandbox, "iptables", "nat");
        assert!(nat.iter().any(|rule| rule.contains("--to-destination 172.26.64.3:80")), "{nat:#?}");
    });
}

/// Go's check-then-insert doubles shared rules, or fails, when several start at once.
#[test]
fn parallel_adds_make_one_skeleton() {
    const ALLOCS: [&str; 6] = ["a0", "a1", "a2", "a3", "a4", "a5"];
    on_both_flavours(|sandbox| {
        let nomad = Nomad::default().dual_stack();
        nomad.ensure_forwarding_rules(sandbox);
        let runtime = Runtime::new(sandbox, nomad.conflist());
        let attachments: Vec<Attachment> = ALLOCS
            .iter()
            .zip(8080..)
            .map(|(alloc, port)| {
                let ports = PortMapping::twins(port, 80);
                Attachment::new(alloc, &sandbox.container(alloc)).ports(&ports, Spelling::Go)
            })
            .collect();
        let mut results: Vec<Option<Value>> = vec![None; ALLOCS.len()];
        for plugin in ["loopback", "bridge", "firewall", "portmap"] {
            let calls = attachments.iter().zip(&results);
            let calls = calls.map(|(at, result)| runtime.invocation(Verb::Add, plugin, at, result.as_ref()));
            let outcomes = at_once(&calls.collect::<Vec<_>>());
            results = outcomes.iter().map(|outcome| Some(outcome.result())).collect();
        }
        assert_one_of_each(sandbox, ALLOCS.len());
        let mut attachments = attachments;
        for (attachment, result) in attachments.iter_mut().zip(results) {
            attachment.result = result;
            runtime.check(attachment).expect_success();
        }
    });
}

/// Requires each piece once in both families, no rule twice, and the rules of all containers.
#[track_caller]
fn assert_one_of_each(sandbox: &Sandbox, containers: usize) {
    for (place, rules) in all_rules(sandbox) {
        let mut seen = BTreeMap::<&str, usize>::new();
        for rule in &rules {
            *seen.entry(rule).or_default() += 1;
        }
        let twice: Vec<_> = seen.iter().filter(|(_, count)| **count > 1).collect();
        assert!(twice.is_empty(), "{place} on {:?} has rules more than once: {twice:#?}", sandbox.flavour());
        let (part, per_container) =
            if place.ends_with("nat") { ("--to-destination", 2) } else { ("RELATED,ESTABLISHED", 1) };
        let found = rules.iter().filter(|rule| rule.contains(part)).count();
        assert_eq!(found, containers * per_container, "rules with {part} in {place}: {rules:#?}");
    }
    for program in PROGRAMS {
        for (table, words) in PIECES {
            let check = [&[program, "--wait", "-t", table, "-C"], words].concat();
            sandbox.exec(&check).expect_success();
        }
    }
}

/// Two Go plugins that start at once leave shared rules twice; here one rule is also missing.
#[test]
fn duplicates_left_by_others_do_no_harm() {
    on_both_flavours(|sandbox| {
        for missing in [0, 2, 5, 6] {
            let sandbox = Sandbox::with_flavour(sandbox.flavour());
            let nomad = Nomad::default();
            let outside = sandbox.outside();
            sandbox.sh("iptables -P FORWARD DROP");
            attach(&sandbox, &nomad, NEIGHBOUR, 9090);
            for (index, piece) in PIECES.into_iter().enumerate() {
                edit(&sandbox, "iptables", if index == missing { "-D" } else { "-I" }, piece);
            }
            let (container, attachment) = attach(&sandbox, &nomad, ALLOC, 8080);
            for (table, words) in PIECES {
                let check = [&["iptables", "--wait", "-t", table, "-C"], words].concat();
                sandbox.exec(&check).expect_success();
            }
            assert_at_most_twice(&sandbox);
            let serving = Echo::everywhere(&container, 80);
            assert_traffic(&sandbox, &outside);
            drop(serving);
            Runtime::new(&sandbox, nomad.conflist()).del(&attachment).expect_success();
        }
    });
}

#[track_caller]
fn assert_at_most_twice(sandbox: &Sandbox) {
    for (place, rules) in all_rules(sandbox) {
        for rule in &rules {
            let times = rules.iter().filter(|other| *other == rule).count();
            assert!(times <= 2, "{times} times in {place}: {rule}");
        }
    }
}

/// The allocation is reached by its host port, and reaches the outside under the host's address.
#[track_caller]
fn assert_traffic(sandbox: &Sandbox, outside: &Outside) {
    for transport in Transport::ALL {
        let port = SocketAddr::new(Outside::HOST_V4.into(), 8080);
        let seen =
            ask(outside, transport, port).unwrap_or_else(|error| panic!("outside to {transport} {port}: {error}"));
        assert_eq!(seen.ip(), Outside::V4, "source of {transport}");
        let local = SocketAddr::new([127, 0, 0, 1].into(), 8080);
        ask(sandbox.host(), transport, local).unwrap_or_else(|error| panic!("host to {transport} {local}: {error}"));
    }
}
