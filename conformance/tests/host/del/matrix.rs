//! Every way in which a DEL can come: what the runtime lost, what an administrator took away.

use cni_conformance::cases::for_each;
use cni_conformance::{Attachment, Container, Flavour, Loss, Nomad, State};

use crate::del::del_host::{Change, DelHost, FIRST};

const ALLOC: &str = "8c0b7f1e-93a2-4a6b-8f8e-2f4b0c8d9e10";
const MASQUERADE_CHAIN: &str = "CNI-f795935c5b000b7816d4ca95";
const PORT_CHAIN: &str = "CNI-DN-f795935c5b000b7816d4c";

/// Does something to the machine, and returns the request that DEL then comes with.
type Before = fn(&DelHost, &Container, Attachment) -> Attachment;

/// What the runtime does not know any more. Go leaves the masquerade behind without a live
/// namespace, the ports without `runtimeConfig`, the filter rules without the result, and fails
/// over a plain file and over arguments.
fn requests() -> impl Iterator<Item = (Loss, impl Fn(&DelHost, &Container, Attachment) -> Attachment)> {
    let all = Loss::ALL.into_iter().chain(Loss::OF_PORTS);
    all.map(|loss| (loss, move |_: &DelHost, container: &Container, request| loss.strike(container, request)))
}

/// What somebody took away; it may have been others' too.
const DAMAGE: [(&str, Before); 11] = [
    ("bridge gone", |machine, _, request| {
        machine.sandbox.sh("ip link del nomad");
        request
    }),
    ("bridge and netns gone", |machine, container, request| {
        machine.sandbox.sh("ip link del nomad");
        container.remove();
        request
    }),
    ("entry rules flushed", |machine, _, request| flushed(machine, "-t nat -F CNI-HOSTPORT-DNAT", request)),
    ("POSTROUTING flushed", |machine, _, request| flushed(machine, "-t nat -F POSTROUTING", request)),
    ("masquerade chain flushed", |machine, _, request| {
        flushed(machine, &format!("-t nat -F {MASQUERADE_CHAIN}"), request)
    }),
    ("chain of ports flushed", |machine, _, request| flushed(machine, &format!("-t nat -F {PORT_CHAIN}"), request)),
    ("CNI-FORWARD flushed", |machine, _, request| flushed(machine, "-F CNI-FORWARD", request)),
    ("FORWARD flushed", |machine, _, request| flushed(machine, "-F FORWARD", request)),
    ("nat flushed", |machine, _, request| flushed(machine, "-t nat -F", request)),
    ("lease gone", |machine, _, request| {
        for address in FIRST.iter().take(machine.programs().len()) {
            machine.sandbox.sh(&format!("rm /run/cni/nomad/{address}"));
        }
        request
    }),
    ("folder of leases gone", |machine, _, request| {
        machine.sandbox.sh("rm -r /run/cni/nomad");
        request
    }),
];

fn flushed(machine: &DelHost, words: &str, request: Attachment) -> Attachment {
    for program in machine.programs() {
        machine.sandbox.sh(&format!("{program} {words}"));
    }
    request
}

/// Adds, lets things happen, deletes, and deletes once more.
fn takes_all_away(
    nomad: &Nomad,
    flavour: Flavour,
    before_del: impl Fn(&DelHost, &Container, Attachment) -> Attachment,
) {
    let machine = DelHost::new(nomad.clone(), flavour);
    let before = machine.host();
    let container = machine.sandbox.container(ALLOC);
    let mut attachment = machine.describe(&container, 8080);
    machine.runtime().add(&mut attachment).expect_success();
    let request = before_del(&machine, &container, attachment);
    for _ in ["first", "again"] {
        machine.runtime().del(&request).expect_success();
        machine.skeleton().assert_nothing_else(&before, || machine.host());
    }
}

/// The same beside a neighbour, which stays as it was and goes on serving.
fn spares_the_neighbour(
    nomad: &Nomad,
    flavour: Flavour,
    before_del: impl Fn(&DelHost, &Container, Attachment) -> Attachment,
) {
    let machine = DelHost::new(nomad.clone(), flavour);
    let neighbour = machine.add("neighbour", 9090);
    let state = || State::capture(&machine.sandbox, &[&neighbour.container]);
    let before = state();
    let container = machine.sandbox.container(ALLOC);
    let mut attachment = machine.describe(&container, 8080);
    machine.runtime().add(&mut attachment).expect_success();
    let request = before_del(&machine, &container, attachment);
    for _ in ["first", "again"] {
        machine.runtime().del(&request).expect_success();
        machine.skeleton().assert_nothing_else(&before, state);
    }
    machine.serves(&neighbour);
}

fn v4() -> Nomad {
    Nomad::default()
}

fn dual_stack() -> Nomad {
    Nomad::default().dual_stack()
}

#[test]
fn del_needs_nothing_of_the_runtime_but_names_on_ipv4() {
    for_each(requests(), |before| takes_all_away(&v4(), Flavour::Nft, before));
}

#[test]
fn del_needs_nothing_of_the_runtime_but_names_on_both_families() {
    for_each(requests(), |before| takes_all_away(&dual_stack(), Flavour::Nft, before));
}

#[test]
fn del_needs_nothing_of_the_runtime_but_names_on_legacy_iptables() {
    for_each(requests(), |before| takes_all_away(&dual_stack(), Flavour::Legacy, before));
}

#[test]
fn del_copes_with_what_others_took_away_on_ipv4() {
    for_each(DAMAGE, |before| takes_all_away(&v4(), Flavour::Nft, before));
}

#[test]
fn del_copes_with_what_others_took_away_on_both_families() {
    for_each(DAMAGE, |before| takes_all_away(&dual_stack(), Flavour::Nft, before));
}

#[test]
fn del_copes_with_what_others_took_away_on_legacy_iptables() {
    for_each(DAMAGE, |before| takes_all_away(&dual_stack(), Flavour::Legacy, before));
}

#[test]
fn del_spares_neighbours_whatever_the_runtime_lost_on_ipv4() {
    for_each(requests(), |before| spares_the_neighbour(&v4(), Flavour::Nft, before));
}

#[test]
fn del_spares_neighbours_whatever_the_runtime_lost_on_both_families() {
    for_each(requests(), |before| spares_the_neighbour(&dual_stack(), Flavour::Nft, before));
}

#[test]
fn del_spares_neighbours_whatever_the_runtime_lost_on_legacy_iptables() {
    for_each(requests(), |before| spares_the_neighbour(&dual_stack(), Flavour::Legacy, before));
}

/// A program that writes the whole table may also take it away, which legacy iptables cannot.
#[test]
fn del_copes_with_a_table_that_is_gone() {
    for nomad in [v4(), dual_stack()] {
        takes_all_away(&nomad, Flavour::Nft, |machine, _, request| {
            machine.sandbox.sh("nft delete table ip nat");
            if machine.programs().len() > 1 {
                machine.sandbox.sh("nft delete table ip6 nat");
            }
            request
        });
    }
}

/// The kernel leaves `127.0.0.1` on a `lo` that was up once.
#[test]
fn del_leaves_the_container_as_add_found_it() {
    for nomad in [v4(), dual_stack()] {
        let machine = DelHost::new(nomad, Flavour::Nft);
        let container = machine.sandbox.container("found");
        let state = || State::capture(&machine.sandbox, &[&container]).without("found addresses");
        let before = state();
        let mut attachment = machine.describe(&container, 8080);
        machine.runtime().add(&mut attachment).expect_success();
        machine.runtime().del(&attachment).expect_success();
        machine.skeleton().assert_nothing_else(&before, state);
    }
}

#[test]
fn del_of_a_container_that_was_never_added_changes_nothing() {
    let requests: [(&str, Change); 4] = [
        ("with a netns", |request| request),
        ("with an empty netns", |request| request.netns("")),
        ("with a netns that never was", |request| request.netns("/run/netns/never")),
        ("without ports", Attachment::without_capabilities),
    ];
    for flavour in Flavour::ALL {
        for_each(requests, |change| {
            let machine = DelHost::dual_stack(flavour);
            let stranger = machine.sandbox.container("stranger");
            let request = change(machine.describe(&stranger, 8080));
            let before = State::capture(&machine.sandbox, &[&stranger]);
            machine.runtime().del(&request).expect_success();
            machine.skeleton().assert_nothing_else(&before, || State::capture(&machine.sandbox, &[&stranger]));
            let neighbour = machine.add("neighbour", 8080);
            let before = State::capture(&machine.sandbox, &[&neighbour.container]);
            machine.runtime().del(&request).expect_success();
            let after = || State::capture(&machine.sandbox, &[&neighbour.container]);
            machine.skeleton().assert_nothing_else(&before, after);
            machine.serves(&neighbour);
        });
    }
}
