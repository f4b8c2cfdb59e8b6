//! What leads elsewhere is forgotten: on ADD, on DEL and on GC.

use cni_conformance::cases::for_each;
use cni_conformance::{Attachment, Flavour, Nomad};

use crate::portmap::conntrack::setup::{ConntrackHost, PORT, udp};

#[test]
fn what_was_sent_before_add_does_not_keep_a_client_from_the_container() {
    for flavour in Flavour::ALL {
        let machine = ConntrackHost::in_use(flavour);
        let clients = machine.clients(PORT);
        clients.are_not_answered();
        let _next = machine.add("next", &[udp(PORT)]);
        clients.are_answered_by(&format!("the next container ({flavour:?})"));
    }
}

/// The reference forgets nothing on DEL, so the host's own server gets no packet of such a client
/// for as long as it keeps sending.
#[test]
fn after_del_a_server_of_the_host_gets_the_packets_of_clients_that_keep_their_port() {
    let requests = |attachment: &Attachment| {
        [
            ("all that ADD knew", attachment.clone()),
            ("no result", attachment.clone().without_result()),
            ("no ports", attachment.clone().without_capabilities()),
            ("neither", attachment.clone().without_result().without_capabilities()),
            ("no namespace", attachment.clone().netns("")),
        ]
    };
    let rows = (0..5).map(|request| (Flavour::Nft, request)).chain([(Flavour::Legacy, 0), (Flavour::Legacy, 3)]);
    for_each(rows.map(|row| (format!("{row:?}"), row)), |(flavour, request)| {
        let machine = ConntrackHost::new(flavour);
        let ports = [PORT, PORT + 1];
        let gone = machine.add("gone", &ports.map(udp));
        let clients = ports.map(|port| machine.clients(port));
        clients.iter().for_each(|clients| clients.are_answered_by("the container"));
        let (what, del) = &requests(&gone.attachment)[request];
        machine.del(del);
        let _servers = ports.map(|port| machine.serve(port));
        clients.iter().for_each(|clients| clients.are_answered_by(&format!("the host, after DEL with {what}")));
    });
}

#[test]
fn a_client_that_keeps_its_port_reaches_the_next_container() {
    for flavour in Flavour::ALL {
        let machine = ConntrackHost::new(flavour);
        let first = machine.add("first", &[udp(PORT)]);
        let clients = machine.clients(PORT);
        clients.are_answered_by("the first container");
        machine.del(&first.attachment);
        first.die();
        clients.are_not_answered();
        let _next = machine.add("next", &[udp(PORT)]);
        clients.are_answered_by(&format!("the next container ({flavour:?})"));
    }
}

/// A container that is gone without DEL, and its successor at the same port.
#[test]
fn gc_forgets_what_leads_to_a_lost_container() {
    let machine = ConntrackHost::of(Nomad::version("1.1.0").dual_stack(), Flavour::Nft);
    let _lost = machine.add("lost", &[udp(PORT)]);
    let clients = machine.clients(PORT);
    clients.are_answered_by("the first container");
    machine.runtime().gc(&[]).expect_success();
    let _server = machine.serve(PORT);
    clients.are_answered_by("the host");
}
