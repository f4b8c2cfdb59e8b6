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
fn a_drop_names_who_sets_it_and_the_command_that_helps() {
    let forth = way(HOST, 2, &OUT[..2]);
    let without = TraceFacts { subject: Some(Subject { has_firewall: false, ..subject() }), ..facts() };
    for (owner, facts, helps) in [
        ("ufw", facts(), "ufw route allow from 10.0.0.2"),
        ("Docker", facts(), "iptables -I DOCKER-USER -s 10.0.0.2 -j ACCEPT"),
        (
            "firewalld",
            without,
            "add the plugin firewall to the list, which accepts the packets of its containers, or firewall-cmd --zone=trusted \
             --add-source=10.0.0.2",
        ),
    ] {
        let (by, owner) = ("the policy of table ip filter, chain FORWARD".to_owned(), owner.to_owned());
        let sentence = format!("dropped by {by}, which {owner} sets: {helps}");
        let drop = Some(DroppedBy { by, owner: Some(owner), rejects: false, is_forwarding: true });
        says(&TraceCase { drop, ..case(aim_out(), ProbeReply::Silent, Some(&forth), &facts) }, &sentence);
    }
}

#[test]
fn a_dead_holder_and_a_silent_end_are_named() {
    let dead = PortHolder { container: "first".to_owned(), is_dead: true };
    let input = way(HOST, 2, &["prerouting-first", "prerouting-last", "input-last"]);
    says(
        &case(aim_in(), ProbeReply::Silent, Some(&input), &TraceFacts { holder: Some(dead), ..facts() }),
        "port 8080/tcp belongs to container first, which is dead, and container web waits for it: cni-plugins gc --remove",
    );
    says(
        &case(aim_out(), ProbeReply::Silent, Some(&way(HOST, 2, &OUT)), &facts()),
        "it left the host by eth0 as 192.0.2.1, and no answer came: the host has done its part; look at the next router, and at \
         the other end",
    );
}
