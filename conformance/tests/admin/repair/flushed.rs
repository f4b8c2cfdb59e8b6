//! Whole tables, chains and rulesets that go, with three containers running.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use cni_conformance::cases::for_each;
use cni_conformance::state::assert_same;
use cni_conformance::traffic::{Echo, Transport, ask, ask_within};
use cni_conformance::{Namespace, Outside, binaries};

use crate::admin::repair::deleted::rules;
use crate::admin::repair::{Backend, RepairedContainer, assert_said, repair, shell, state};

/// How long to wait for an answer that must not come.
const SILENCE: Duration = Duration::from_millis(200);

/// What somebody does to the packet filter: a line of shell.
const EVERYTHING: &str = "nft flush ruleset";
const NAT: &str = "iptables -t nat -F && iptables -t nat -X && ip6tables -t nat -F && ip6tables -t nat -X";
const FILTER: &str = "iptables -F && iptables -X && ip6tables -F && ip6tables -X";

/// The host port of a container, as the outside reaches it.
fn published(attached: &RepairedContainer<'_>) -> [SocketAddr; 2] {
    [IpAddr::V4(Outside::HOST_V4), IpAddr::V6(Outside::HOST_V6)].map(|host| SocketAddr::new(host, attached.port))
}

/// Requires an answer of both families and transports; an IPv6 address needs a moment after ADD.
#[track_caller]
fn assert_answers(outside: &Namespace, attached: &RepairedContainer<'_>) {
    for address in published(attached) {
        for how in Transport::ALL {
            ask(outside, how, address).unwrap_or_else(|error| panic!("{how} {address}: {error}"));
        }
    }
}

#[track_caller]
fn assert_silent(outside: &Namespace, attached: &RepairedContainer<'_>) {
    for address in published(attached) {
        for how in Transport::ALL {
            let answer = ask_within(outside, how, address, SILENCE);
            assert!(answer.is_err(), "{how} {address} was answered: {answer:?}");
        }
    }
}

/// After every kind of flush CHECK fails, `repair` restores the same rules, and so do the ports of
/// servers that were not started again.
fn flush_and_repair((backend, flush): (Backend, &str)) {
    let sandbox = backend.sandbox();
    let outside = sandbox.outside();
    let guests = RepairedContainer::three(&sandbox, &backend.list());
    let _servers: Vec<_> = guests.iter().map(|attached| Echo::everywhere(&attached.container, 80)).collect();
    let before = state(&sandbox, &guests);
    guests.iter().for_each(|attached| assert_answers(&outside, attached));

    shell(&sandbox, flush);
    assert!(guests.iter().all(|attached| !attached.is_whole()), "CHECK finds nothing missing");
    assert_said(&repair(&sandbox, &[]), &["repaired"; 3]);

    assert_same(&before, &state(&sandbox, &guests));
    guests.iter().for_each(RepairedContainer::check);
    guests.iter().for_each(|attached| assert_answers(&outside, attached));
    assert_said(&repair(&sandbox, &[]), &["nothing missing"; 3]);
    assert_same(&before, &state(&sandbox, &guests));
    for attached in &guests {
        attached.tool.del(&attached.container).expect_success();
    }
}

#[test]
fn what_was_flushed_comes_back_as_it_was() {
    let both = format!("{NAT} && {FILTER}");
    for_each(
        [
            ("nft flush ruleset, iptables in nf_tables", (Backend::Nft, EVERYTHING)),
            ("nft flush ruleset, nf_tables alone", (Backend::Native, EVERYTHING)),
            ("iptables -t nat -F, nf_tables", (Backend::Nft, NAT)),
            ("iptables -t nat -F, legacy", (Backend::Legacy, NAT)),
            ("iptables -F, nf_tables", (Backend::Nft, FILTER)),
            ("iptables -F, legacy", (Backend::Legacy, FILTER)),
            ("both and nft flush ruleset, legacy", (Backend::Legacy, &format!("{both} && {EVERYTHING}"))),
        ],
        flush_and_repair,
    );
}

/// For each change of a table the kernel checks all of it. So containers are repaired together, with one change of each table of each
/// family. One by one they would take three changes each.
#[test]
fn forty_containers_are_repaired_in_few_changes() {
    let sandbox = Backend::Nft.sandbox();
    let attached =
        |number: u16| RepairedContainer::add(&sandbox, &Backend::Nft.list(), &format!("guest-{number}"), 8080 + number);
    let guests: Vec<RepairedContainer<'_>> = (0..40).map(attached).collect();
    let before = rules(&sandbox);
    shell(&sandbox, &format!("{NAT} && {FILTER}"));
    let program = binaries::under_test().join("cni-plugins");
    // The programs of iptables, which look for missing chains, use sendmsg.
    let traced = format!("strace -f -e trace=sendto -o /run/trace {} repair", program.display());
    shell(&sandbox, &traced);
    let trace = fs::read_to_string("/run/trace").expect("a trace");
    let changes = trace.lines().filter(|line| line.contains("NFNL_MSG_BATCH_BEGIN")).count();
    assert_eq!(changes, 4);
    assert_eq!(rules(&sandbox), before);
    guests.iter().for_each(RepairedContainer::check);
}

/// The mapping does not only come back: it does not answer before.
#[test]
fn a_published_port_is_silent_until_it_is_repaired() {
    for_each([("iptables", Backend::Nft), ("nftables", Backend::Native)], |backend| {
        let sandbox = backend.sandbox();
        let outside = sandbox.outside();
        let attached = RepairedContainer::add(&sandbox, &backend.list(), "first", 8080);
        let _server = Echo::everywhere(&attached.container, 80);
        shell(&sandbox, EVERYTHING);
        assert_silent(&outside, &attached);
        assert_said(&repair(&sandbox, &[]), &["repaired"]);
        assert_answers(&outside, &attached);
    });
}

/// nftables.service reloads the administrator's rules, which stay as they are.
#[test]
fn rules_of_others_stay_where_they_are() {
    let sandbox = Backend::Nft.sandbox();
    let guests = RepairedContainer::three(&sandbox, &Backend::Nft.list());
    let before = state(&sandbox, &guests);
    shell(&sandbox, EVERYTHING);
    sandbox.sh("iptables -A FORWARD -s 198.51.100.0/24 -j DROP");
    sandbox.sh("iptables -t nat -A POSTROUTING -s 198.51.100.0/24 -j MASQUERADE");
    assert_said(&repair(&sandbox, &[]), &["repaired"; 3]);
    sandbox.sh("iptables -D FORWARD -s 198.51.100.0/24 -j DROP");
    sandbox.sh("iptables -t nat -D POSTROUTING -s 198.51.100.0/24 -j MASQUERADE");
    assert_same(&before, &state(&sandbox, &guests));
}
