//! Each reason has its sentence.

use cni_kernel::nftables::trace::event::{Headers, TraceEvent, TraceKind};

use super::*;
use crate::trace::packet_path::PacketPaths;

/// A way by these chains of the trace's table.
fn way(source: [u8; 4], flags: u8, chains: &[&str]) -> PacketPath {
    let mut network = vec![0; 20];
    network[0] = 0x45;
    network[9] = 6;
    network[12..16].copy_from_slice(&source);
    network[16..20].copy_from_slice(&[192, 0, 2, 9]);
    let mut transport = vec![0; 20];
    transport[3] = 80;
    transport[13] = flags;
    let mut ways = PacketPaths::new("own".to_owned());
    for chain in chains {
        let headers =
            Headers { network: network.clone(), transport: transport.clone(), input: Some(1), output: Some(2) };
        let kind = TraceKind::Policy { accepts: true };
        let (table, chain) = ("own".to_owned(), (*chain).to_owned());
        ways.add(TraceEvent { packet: 1, family: 1, table, chain, kind, headers: Some(headers) });
    }
    ways.all()[0].clone()
}

const OUT: [&str; 3] = ["prerouting-first", "prerouting-last", "postrouting-last"];
const IN: [&str; 3] = ["prerouting-first", "prerouting-last", "input-last"];
const OWN: [u8; 4] = [10, 0, 0, 2];
const HOST: [u8; 4] = [192, 0, 2, 1];

fn subject() -> Subject {
    Subject {
        container: "web".to_owned(),
        addresses: vec![OWN.into()],
        has_firewall: true,
        has_masquerade: true,
        missing: Vec::new(),
    }
}

fn facts() -> TraceFacts {
    TraceFacts {
        subject: Some(subject()),
        address: Some(OWN.into()),
        left_by: Some("eth0".to_owned()),
        ..TraceFacts::default()
    }
}

fn aim_in() -> Aim {
    Aim::In("port 8080/tcp".to_owned())
}

fn aim_out() -> Aim {
    Aim::Out("192.0.2.9:80".to_owned())
}

fn case<'a>(aim: Aim, reply: ProbeReply, forth: Option<&'a PacketPath>, facts: &'a TraceFacts) -> TraceCase<'a> {
    TraceCase { aim, reply, forth, back: None, drop: None, back_drop: None, facts }
}

#[track_caller]
fn says(case: &TraceCase<'_>, sentence: &str) {
    let verdict = judge(case);
    assert_eq!(verdict.text(), sentence);
    assert_eq!(verdict.helps.is_none(), verdict.arrived);
}

fn policy(owner: &str) -> Option<DroppedBy> {
    Some(DroppedBy {
        by: "the policy of table ip filter, chain FORWARD".to_owned(),
        owner: Some(owner.to_owned()),
        rejects: false,
        is_forwarding: true,
    })
}

#[test]
fn a_drop_names_who_sets_it_and_the_command_that_helps() {
    let forth = way(HOST, 2, &OUT[..2]);
    let open = |owner: &str, aim: Aim, facts: &TraceFacts| {
        judge(&TraceCase { drop: policy(owner), ..case(aim, ProbeReply::Silent, Some(&forth), facts) }).text()
    };
    let dropped = "dropped by the policy of table ip filter, chain FORWARD, which";
    assert_eq!(
        open("Docker", aim_in(), &facts()),
        format!("{dropped} Docker sets: iptables -I DOCKER-USER -d 10.0.0.2 -j ACCEPT")
    );
    assert_eq!(open("ufw", aim_out(), &facts()), format!("{dropped} ufw sets: ufw route allow from 10.0.0.2"));
    let missing =
        TraceFacts { subject: Some(Subject { missing: vec!["firewall".to_owned()], ..subject() }), ..facts() };
    assert_eq!(
        open("Docker", aim_in(), &missing),
        format!("{dropped} Docker sets: rules of container web are missing; cni-plugins repair restores them")
    );
    let without = TraceFacts { subject: Some(Subject { has_firewall: false, ..subject() }), ..facts() };
    assert_eq!(
        open("firewalld", aim_out(), &without),
        format!(
            "{dropped} firewalld sets: add the plugin firewall to the list, which accepts the packets of its containers, \
             or firewall-cmd --zone=trusted --add-source=10.0.0.2"
        )
    );
}

#[test]
fn what_the_host_does_not_route_has_its_reason() {
    let forth = way(OWN, 2, &OUT[..2]);
    for (unrouted, sentence) in [
        (
            Unrouted::NotForwarding("net.ipv4.ip_forward"),
            "dropped since net.ipv4.ip_forward is 0: the host forwards nothing: sysctl -w net.ipv4.ip_forward=1, and look in \
             /etc/sysctl.d for who turns it off",
        ),
        (
            Unrouted::ReversePath { input: "cni0".to_owned(), expected: Some("eth0".to_owned()) },
            "dropped by rp_filter: it came by cni0, and to its source the host has a route by eth0: correct the host's route, \
             or sysctl -w net.ipv4.conf.cni0.rp_filter=2",
        ),
        (
            Unrouted::NoRoute(HOST.into()),
            "dropped since the host has no route to 192.0.2.1: ip route get 192.0.2.1 shows it; add the route",
        ),
    ] {
        let facts = TraceFacts { unrouted: Some(unrouted), ..facts() };
        says(&case(aim_out(), ProbeReply::Silent, Some(&forth), &facts), sentence);
    }
}

#[test]
fn a_container_that_does_not_answer_has_its_reason() {
    let forth = way(HOST, 2, &OUT);
    let came = "it came to container web at 192.0.2.9:80";
    let judged = |reply: ProbeReply, facts: TraceFacts| judge(&case(aim_in(), reply, Some(&forth), &facts)).text();
    let listens = |listening| TraceFacts { listening: Some(listening), ..facts() };
    assert_eq!(
        judged(ProbeReply::Refused, listens(Listening::No)),
        format!("{came}, where no program listens: start the program, or correct containerPort")
    );
    assert_eq!(
        judged(ProbeReply::Refused, listens(Listening::OnLoopback)),
        format!("{came}, whose program listens only on its loopback address: let the program listen on 0.0.0.0 or ::")
    );
    let via = ContainerRoute::Via { gateway: [10, 0, 0, 9].into(), is_host: false };
    assert_eq!(
        judged(ProbeReply::Silent, TraceFacts { route: Some(via), ..listens(Listening::Yes) }),
        format!(
            "{came}, whose route back is wrong: it leads to 10.0.0.9, which is no address of this host: correct the gateway in \
             the list's ipam, and start the container again"
        )
    );
    assert_eq!(judged(ProbeReply::Answered, facts()), "arrived: container web has answered port 8080/tcp");
}

#[test]
fn an_answer_that_was_seen_is_an_arrival() {
    let (forth, back) = (way(HOST, 2, &OUT), way(OWN, 18, &OUT));
    let (facts, real) = (facts(), ProbeReply::Real { seconds: 10 });
    says(
        &TraceCase { back: Some(&back), ..case(aim_in(), real.clone(), Some(&forth), &facts) },
        "arrived: container web has answered port 8080/tcp",
    );
    let refusal = way(OWN, 20, &OUT);
    let verdict = judge(&TraceCase { back: Some(&refusal), ..case(aim_in(), real.clone(), Some(&forth), &facts) });
    assert!(!verdict.arrived, "{verdict:?}");
    let lost = way(OWN, 18, &OUT[..2]);
    let verdict = judge(&TraceCase { back: Some(&lost), ..case(aim_in(), real, Some(&forth), &facts) });
    assert!(verdict.why.starts_with("the answer was lost after prerouting"), "{verdict:?}");
}

#[test]
fn a_port_that_leads_to_no_container_or_another_one_is_named() {
    let forth = way(HOST, 2, &IN);
    says(
        &case(aim_in(), ProbeReply::Refused, Some(&forth), &facts()),
        "no rule leads port 8080/tcp to container web: its rules are missing: cni-plugins repair restores them",
    );
    let nobody = TraceFacts::default();
    says(
        &case(aim_in(), ProbeReply::Refused, Some(&forth), &nobody),
        "no container publishes port 8080/tcp, and no program of the host answers there: publish it in the container's portMappings",
    );
    says(
        &case(aim_in(), ProbeReply::Answered, Some(&forth), &nobody),
        "arrived at a program of the host: port 8080/tcp is published by no container",
    );
    let taken = TraceFacts { holder: Some(PortHolder { container: "first".to_owned(), is_dead: false }), ..facts() };
    says(
        &case(aim_in(), ProbeReply::Answered, Some(&forth), &taken),
        "port 8080/tcp belongs to container first, which asked for it first, and container web waits for it: publish another \
         port, or delete container first",
    );
    let dead = PortHolder { container: "first".to_owned(), is_dead: true };
    says(
        &case(aim_in(), ProbeReply::Silent, Some(&forth), &TraceFacts { holder: Some(dead), ..facts() }),
        "port 8080/tcp belongs to container first, which is dead, and container web waits for it: cni-plugins gc --remove",
    );
}

#[test]
fn a_packet_without_masquerade_is_told_from_one_that_others_have_lost() {
    let own = way(OWN, 2, &OUT);
    says(
        &case(aim_out(), ProbeReply::Silent, Some(&own), &facts()),
        "it left the host by eth0 with the container's own address 10.0.0.2, to which no answer came: the masquerade is \
         missing: cni-plugins repair restores it",
    );
    let without = TraceFacts { subject: Some(Subject { has_masquerade: false, ..subject() }), ..facts() };
    says(
        &case(aim_out(), ProbeReply::Silent, Some(&own), &without),
        "it left the host by eth0 with the container's own address 10.0.0.2, to which no answer came: the list asks for no \
         masquerade: write \"ipMasq\": true, or give others a route to the container's network",
    );
    says(
        &case(aim_out(), ProbeReply::Silent, Some(&way(HOST, 2, &OUT)), &facts()),
        "it left the host by eth0 as 192.0.2.1, and no answer came: the host has done its part; look at the next router, and at \
         the other end",
    );
}

#[test]
fn a_packet_that_nobody_has_seen_is_looked_for_in_the_container() {
    let judged =
        |route| judge(&case(aim_out(), ProbeReply::Silent, None, &TraceFacts { route: Some(route), ..facts() })).why;
    assert_eq!(judged(ContainerRoute::None), "container web has no route to 192.0.2.9:80");
    assert_eq!(
        judged(ContainerRoute::Via { gateway: HOST.into(), is_host: false }),
        "the route of container web to 192.0.2.9:80 is wrong: it leads to 192.0.2.1, which is no address of this host"
    );
    says(
        &case(aim_in(), ProbeReply::Real { seconds: 10 }, None, &facts()),
        "no packet to port 8080/tcp came within 10 seconds: look at the way to this host, or let --probe send one",
    );
}

#[test]
fn a_drop_that_nf_tables_does_not_show_is_looked_for_in_the_counters() {
    let forth = way(HOST, 2, &["prerouting-first", "prerouting-last", "forward-first"]);
    let rule = "iptables-legacy -t filter -P FORWARD DROP".to_owned();
    let facts = TraceFacts { legacy: vec![rule], ..facts() };
    says(
        &case(aim_in(), ProbeReply::Silent, Some(&forth), &facts),
        "dropped in the hook forward by iptables-legacy, whose counter has moved: iptables-legacy -t filter -P FORWARD DROP: \
         change it, or move to the nft flavour of iptables",
    );
}
