//! Every way in which a DEL can come: what the runtime lost, what an administrator took away.

use cni_conformance::cases::for_each;
use cni_conformance::{Attachment, Container, Flavour, Loss, Nomad, State};

use crate::del::client::{Change, Client, FIRST};

const ALLOC: &str = "8c0b7f1e-93a2-4a6b-8f8e-2f4b0c8d9e10";
const MASQUERADE_CHAIN: &str = "CNI-f795935c5b000b7816d4ca95";
const PORT_CHAIN: &str = "CNI-DN-f795935c5b000b7816d4c";

/// Does something to the machine, and returns the request that DEL then comes with.
type Before = fn(&Client, &Container, Attachment) -> Attachment;

/// What the runtime does not know any more. Go leaves the masquerade behind without a live
/// namespace, the ports without `runtimeConfig`, the filter rules without the result, and fails
/// over a plain file and over arguments.
fn requests() -> impl Iterator<Item = (Loss, impl Fn(&Client, &Container, Attachment) -> Attachment)> {
    let all = Loss::ALL.into_iter().chain(Loss::OF_PORTS);
    all.map(|loss| (loss, move |_: &Client, container: &Container, request| loss.strike(container, request)))
}

/// What somebody took away; it may have been others' too.
const DAMAGE: [(&str, Before); 11] = [
    ("bridge gone", |client, _, request| {
        client.sandbox.sh("ip link del nomad");
        request
    }),
    ("bridge and netns gone", |client, container, request| {
        client.sandbox.sh("ip link del nomad");
        container.remove();
        request
    }),
    ("entry rules flushed", |client, _, request| flushed(client, "-t nat -F CNI-HOSTPORT-DNAT", request)),
    ("POSTROUTING flushed", |client, _, request| flushed(client, "-t nat -F POSTROUTING", request)),
    ("masquerade chain flushed", |client, _, request| {
        flushed(client, &format!("-t nat -F {MASQUERADE_CHAIN}"), request)
    }),
    ("chain of ports flushed", |client, _, request| flushed(client, &format!("-t nat -F {PORT_CHAIN}"), request)),
    ("CNI-FORWARD flushed", |client, _, request| flushed(client, "-F CNI-FORWARD", request)),
    ("FORWARD flushed", |client, _, request| flushed(client, "-F FORWARD", request)),
    ("nat flushed", |client, _, request| flushed(client, "-t nat -F", request)),
    ("lease gone", |client, _, request| {
        for address in FIRST.iter().take(client.programs().len()) {
            client.sandbox.sh(&format!("rm /run/cni/nomad/{address}"));
        }
        request
    }),
    ("folder of leases gone", |client, _, request| {
        client.sandbox.sh("rm -r /run/cni/nomad");
        request
    }),
];

fn flushed(client: &Client, words: &str, request: Attachment) -> Attachment {
    for program in client.programs() {
        client.sandbox.sh(&format!("{program} {words}"));
    }
    request
}

/// Adds, lets things happen, deletes, and deletes once more.
fn takes_all_away(nomad: &Nomad, flavour: Flavour, before_del: impl Fn(&Client, &Container, Attachment) -> Attachment) {
    let client = Client::new(nomad.clone(), flavour);
    let before = client.host();
    let container = client.sandbox.container(ALLOC);
    let mut attachment = client.describe(&container, 8080);
    client.runtime().add(&mut attachment).expect_success();
    let request = before_del(&client, &container, attachment);
    for _ in ["first", "again"] {
        client.runtime().del(&request).expect_success();
        client.skeleton().assert_nothing_else(&before, || client.host());
    }
}

/// The same beside a neighbour, which stays as it was and goes on serving.
fn spares_the_neighbour(
    nomad: &Nomad,
    flavour: Flavour,
    before_del: impl Fn(&Client, &Container, Attachment) -> Attachment,
) {
    let client = Client::new(nomad.clone(), flavour);
    let neighbour = client.add("neighbour", 9090);
    let state = || State::capture(&client.sandbox, &[&neighbour.container]);
    let before = state();
    let container = client.sandbox.container(ALLOC);
    let mut attachment = client.describe(&container, 8080);
    client.runtime().add(&mut attachment).expect_success();
    let request = before_del(&client, &container, attachment);
    for _ in ["first", "again"] {
        client.runtime().del(&request).expect_success();
        client.skeleton().assert_nothing_else(&before, state);
    }
    client.serves(&neighbour);
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
        takes_all_away(&nomad, Flavour::Nft, |client, _, request| {
            client.sandbox.sh("nft delete table ip nat");
            if client.programs().len() > 1 {
                client.sandbox.sh("nft delete table ip6 nat");
            }
            request
        });
    }
}

/// The kernel leaves `127.0.0.1` on a `lo` that was up once.
#[test]
fn del_leaves_the_container_as_add_found_it() {
    for nomad in [v4(), dual_stack()] {
        let client = Client::new(nomad, Flavour::Nft);
        let container = client.sandbox.container("found");
        let state = || State::capture(&client.sandbox, &[&container]).without("found addresses");
        let before = state();
        let mut attachment = client.describe(&container, 8080);
        client.runtime().add(&mut attachment).expect_success();
        client.runtime().del(&attachment).expect_success();
        client.skeleton().assert_nothing_else(&before, state);
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
            let client = Client::dual_stack(flavour);
            let stranger = client.sandbox.container("stranger");
            let request = change(client.describe(&stranger, 8080));
            let before = State::capture(&client.sandbox, &[&stranger]);
            client.runtime().del(&request).expect_success();
            client.skeleton().assert_nothing_else(&before, || State::capture(&client.sandbox, &[&stranger]));
            let neighbour = client.add("neighbour", 8080);
            let before = State::capture(&client.sandbox, &[&neighbour.container]);
            client.runtime().del(&request).expect_success();
            let after = || State::capture(&client.sandbox, &[&neighbour.container]);
            client.skeleton().assert_nothing_else(&before, after);
            client.serves(&neighbour);
        });
    }
}
