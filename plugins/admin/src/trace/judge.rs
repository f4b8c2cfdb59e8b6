//! Why a packet ended where it did, and what helps: one sentence.

use cni_core::family::Family;

use super::case::{Aim, Case, ContainerRoute, DroppedBy, Facts, Reply, Subject, Unrouted, Verdict};
use super::listening::Listening;
use super::packet_path::{End, Hook, PacketPath};

const REPAIR: &str = "cni-plugins repair";

/// Judges a trace.
pub fn judge(case: &Case<'_>) -> Verdict {
    let Some(forth) = case.forth else { return unseen(case) };
    if let Some(drop) = &case.drop {
        return dropped("", drop, case);
    }
    if let Some(holder) = &case.facts.holder {
        return taken(case, holder);
    }
    match forth.end() {
        None | Some(End::Rule { .. } | End::Policy(_)) => unseen(case),
        Some(End::Taken(place)) => Verdict::lost(
            format!("a rule of {} gave it to a program (queue)", super::rules::text(place)),
            "look at that program",
        ),
        Some(End::LostAfter(Hook::Prerouting | Hook::Output)) => unrouted("", case),
        Some(End::LostAfter(hook)) => Verdict::lost(
            format!("it was lost after the hook {}, and not by the packet filter", hook.name()),
            "nstat -az shows which counter of errors grows",
        ),
        Some(End::LostInside(hook)) => hidden(hook, case),
        Some(End::Delivered) => delivered(forth, case),
        Some(End::Left { .. }) => left(forth, case),
    }
}

fn named(case: &Case<'_>) -> String {
    let (Aim::In(what) | Aim::Out(what)) = &case.aim;
    what.clone()
}

fn container(facts: &Facts) -> String {
    facts
        .subject
        .as_ref()
        .map_or_else(|| "the container".to_owned(), |subject| format!("container {}", subject.container))
}

/// Nothing was seen.
fn unseen(case: &Case<'_>) -> Verdict {
    let (what, facts) = (named(case), case.facts);
    let who = container(facts);
    if facts.unrouted.is_some() {
        return unrouted("", case);
    }
    if matches!(case.aim, Aim::Out(_))
        && let Some(verdict) = stayed(&what, &who, case)
    {
        return verdict;
    }
    match (&case.reply, &case.aim) {
        (Reply::Answered, _) => {
            Verdict::arrived(format!("{what} answers, and the packet filter did not see the packet"))
        }
        (Reply::Real { seconds }, Aim::In(_)) => Verdict::lost(
            format!("no packet to {what} came within {seconds} seconds"),
            "look at the way to this host, or let --probe send one",
        ),
        (Reply::Real { seconds }, Aim::Out(_)) => Verdict::lost(
            format!("no packet from {who} to {what} came to the host within {seconds} seconds"),
            "let --probe send one",
        ),
        (Reply::Unreachable(why), _) => {
            Verdict::lost(format!("the probe to {what} failed: {why}"), "look at the routes")
        }
        (Reply::Refused, _) => Verdict::lost(
            format!("{what} refuses, and no packet filter saw the packet"),
            "start a program that listens",
        ),
        (Reply::Silent, _) => {
            Verdict::lost(format!("the probe to {what} was not seen by the packet filter"), "look at the routes")
        }
    }
}

/// A packet of the container that did not come to the host.
fn stayed(what: &str, who: &str, case: &Case<'_>) -> Option<Verdict> {
    let is_lost = !matches!(case.reply, Reply::Answered | Reply::Refused);
    match case.facts.route.as_ref()? {
        ContainerRoute::None => Some(Verdict::lost(format!("{who} has no route to {what}"), write_route(case.facts))),
        ContainerRoute::Via { gateway, is_host: false } if is_lost => Some(Verdict::lost(
            format!("the route of {who} to {what} is wrong: it leads to {gateway}, which is no address of this host"),
            "correct the gateway in the list's ipam, and start the container again",
        )),
        ContainerRoute::OnLink if is_lost => Some(Verdict::lost(
            format!(
                "{what} is in the container's own network, where packets do not pass the host's packet filter, and it does not answer"
            ),
            "look whether it exists, and whether a program listens",
        )),
        ContainerRoute::OnLink => Some(Verdict::arrived(format!(
            "{what} is in the container's own network and has answered; such packets do not pass the host's packet filter"
        ))),
        ContainerRoute::Via { .. } | ContainerRoute::Local => None,
    }
}

fn write_route(facts: &Facts) -> String {
    let everywhere = family(facts).unspecified();
    format!("write \"routes\": [{{\"dst\": \"{everywhere}/0\"}}] into the list's ipam, and start the container again")
}

/// The family of the packets.
fn family(facts: &Facts) -> Family {
    facts.address.map_or(Family::V4, Family::of)
}

/// A rule or a policy dropped the packet, or the answer.
fn dropped(whose: &str, drop: &DroppedBy, case: &Case<'_>) -> Verdict {
    let DroppedBy { by, owner, rejects, is_forwarding } = drop;
    let verb = if *rejects { "rejected" } else { "dropped" };
    let set = owner.as_ref().map(|owner| format!(", which {owner} sets")).unwrap_or_default();
    let why = format!("{whose}{verb} by {by}{set}");
    let owner = owner.as_deref().unwrap_or_default();
    Verdict::lost(why, if *is_forwarding { open_forward(owner, case) } else { open_host(owner, case) })
}

/// How packets of a container come through the host.
fn open_forward(owner: &str, case: &Case<'_>) -> String {
    let subject = case.facts.subject.as_ref();
    if subject.is_some_and(|subject| !subject.missing.is_empty()) {
        return format!("rules of {} are missing; {REPAIR} restores them", container(case.facts));
    }
    if owner == "the plugin firewall" {
        return "the network's ingressPolicy asks for it; change the list if it is not wanted".to_owned();
    }
    let address = case.facts.address.map_or_else(|| "ADDRESS".to_owned(), |address| address.to_string());
    let (to_from, option) = match case.aim {
        Aim::In(_) => ("to", "-d"),
        Aim::Out(_) => ("from", "-s"),
    };
    let by_hand = match owner {
        "Docker" => format!("{} -I DOCKER-USER {option} {address} -j ACCEPT", family(case.facts).iptables()),
        "ufw" => format!("ufw route allow {to_from} {address}"),
        "firewalld" => format!("firewall-cmd --zone=trusted --add-source={address}"),
        _ => format!("accept packets {to_from} {address} in that chain"),
    };
    if subject.is_some_and(|subject| !subject.has_firewall) {
        format!("add the plugin firewall to the list, which accepts the packets of its containers, or {by_hand}")
    } else {
        by_hand
    }
}

/// How packets come to the host itself.
fn open_host(owner: &str, case: &Case<'_>) -> String {
    let what = named(case);
    let port = what.trim_start_matches("port ");
    match owner {
        "ufw" => format!("ufw allow {port}"),
        "firewalld" => format!("firewall-cmd --add-port={port}"),
        _ => "change or remove that rule if the packet is wanted".to_owned(),
    }
}

/// The port belongs to another container.
fn taken(case: &Case<'_>, holder: &str) -> Verdict {
    let (what, who) = (named(case), container(case.facts));
    Verdict::lost(
        format!("{what} belongs to container {holder}, which asked for it first, and {who} waits for it"),
        format!("publish another port, or delete container {holder}"),
    )
}

/// The host did not know where to send it.
fn unrouted(whose: &str, case: &Case<'_>) -> Verdict {
    match &case.facts.unrouted {
        Some(Unrouted::NotForwarding(parameter)) => Verdict::lost(
            format!("{whose}dropped since {parameter} is 0: the host forwards nothing"),
            format!("sysctl -w {parameter}=1, and look in /etc/sysctl.d for who turns it off"),
        ),
        Some(Unrouted::ReversePath { input, expected }) => {
            let expected =
                expected.as_ref().map_or_else(|| "has no route".to_owned(), |link| format!("has a route by {link}"));
            Verdict::lost(
                format!("{whose}dropped by rp_filter: it came by {input}, and to its source the host {expected}"),
                format!("correct the host's route, or sysctl -w net.ipv4.conf.{input}.rp_filter=2"),
            )
        }
        Some(Unrouted::NoRoute(address)) => Verdict::lost(
            format!("{whose}dropped since the host has no route to {address}"),
            format!("ip route get {address} shows it; add the route"),
        ),
        Some(Unrouted::Other(why)) => Verdict::lost(
            format!("{whose}dropped by the kernel's routing: {why}"),
            "ip route and ip rule show the routes",
        ),
        None => Verdict::lost(
            format!("{whose}lost after prerouting, though the host has a route"),
            "nstat -az shows which counter of errors grows",
        ),
    }
}

/// It was dropped where no rule of nf_tables is to be seen.
fn hidden(hook: Hook, case: &Case<'_>) -> Verdict {
    let dropping = case.facts.legacy.iter().find(|rule| rule.contains(" DROP") || rule.contains(" REJECT"));
    match dropping {
        Some(rule) => Verdict::lost(
            format!("dropped in the hook {} by iptables-legacy, whose counter has moved: {rule}", hook.name()),
            "change it, or move to the nft flavour of iptables",
        ),
        None => Verdict::lost(
            format!("lost in the hook {}, and no rule of nf_tables has dropped it", hook.name()),
            "look at iptables-legacy-save, and at programs that use eBPF",
        ),
    }
}

/// It came to the host itself.
fn delivered(forth: &PacketPath, case: &Case<'_>) -> Verdict {
    let what = named(case);
    let came = forth.last().map(|sight| sight.packet.to()).unwrap_or_default();
    match (&case.aim, &case.facts.subject) {
        (Aim::In(_), Some(subject)) => unmapped(&what, subject),
        (Aim::In(_), None) if is_answered(case) => {
            Verdict::arrived(format!("arrived at a program of the host: {what} is published by no container"))
        }
        (Aim::In(_), None) => Verdict::lost(
            format!("no container publishes {what}, and no program of the host answers there"),
            "publish it in the container's portMappings",
        ),
        (Aim::Out(_), _) if is_answered(case) => {
            Verdict::arrived(format!("arrived: {what}, an address of the host, has answered"))
        }
        (Aim::Out(_), _) => Verdict::lost(
            format!("{came} is the host itself, and no program answers there"),
            "start the program, and let it listen on that address",
        ),
    }
}

/// A published port that no rule leads to its container.
fn unmapped(what: &str, subject: &Subject) -> Verdict {
    let Subject { container, missing, .. } = subject;
    let of = if missing.is_empty() { String::new() } else { format!(" ({})", missing.join("; ")) };
    Verdict::lost(
        format!("no rule leads {what} to container {container}: its rules are missing{of}"),
        format!("{REPAIR} restores them"),
    )
}

/// It left the host, to the container or to others.
fn left(forth: &PacketPath, case: &Case<'_>) -> Verdict {
    if let Some(drop) = &case.back_drop {
        return dropped("the answer was ", drop, case);
    }
    if let Some(End::LostAfter(Hook::Prerouting)) = case.back.and_then(PacketPath::end) {
        return unrouted("the answer was ", case);
    }
    match case.aim {
        Aim::In(_) => to_container(case),
        Aim::Out(_) => to_others(forth, case),
    }
}

fn is_answered(case: &Case<'_>) -> bool {
    let is_back = case.back.and_then(PacketPath::first).is_some_and(|sight| !sight.packet.is_refusal());
    match case.reply {
        Reply::Answered => true,
        Reply::Real { .. } => is_back,
        Reply::Refused | Reply::Silent | Reply::Unreachable(_) => false,
    }
}

fn is_refused(case: &Case<'_>) -> bool {
    let is_back = case.back.and_then(PacketPath::first).is_some_and(|sight| sight.packet.is_refusal());
    match case.reply {
        Reply::Refused => true,
        Reply::Real { .. } => is_back,
        Reply::Answered | Reply::Silent | Reply::Unreachable(_) => false,
    }
}

fn to_container(case: &Case<'_>) -> Verdict {
    let (what, who, facts) = (named(case), container(case.facts), case.facts);
    if is_answered(case) {
        return Verdict::arrived(format!("arrived: {who} has answered {what}"));
    }
    let end = case.forth.and_then(PacketPath::last).map(|sight| sight.packet.to()).unwrap_or_default();
    let came = format!("it came to {who} at {end}");
    let listen = "let the program listen on 0.0.0.0 or ::";
    match facts.listening {
        Some(Listening::No) => {
            return Verdict::lost(
                format!("{came}, where no program listens"),
                "start the program, or correct containerPort",
            );
        }
        Some(Listening::OnLoopback) => {
            return Verdict::lost(format!("{came}, whose program listens only on its loopback address"), listen);
        }
        Some(Listening::Elsewhere(address)) => {
            return Verdict::lost(format!("{came}, whose program listens only on {address}"), listen);
        }
        Some(Listening::Yes) | None => {}
    }
    match facts.route {
        Some(ContainerRoute::None) => {
            Verdict::lost(format!("{came}, which has no route back: its answer is lost"), write_route(case.facts))
        }
        Some(ContainerRoute::Via { gateway, is_host: false }) => Verdict::lost(
            format!("{came}, whose route back is wrong: it leads to {gateway}, which is no address of this host"),
            "correct the gateway in the list's ipam, and start the container again",
        ),
        Some(ContainerRoute::Via { .. } | ContainerRoute::OnLink | ContainerRoute::Local) | None => {
            unanswered(&came, case)
        }
    }
}

fn unanswered(came: &str, case: &Case<'_>) -> Verdict {
    if is_refused(case) {
        return Verdict::lost(format!("{came}, and was refused"), "look at the packet filter inside of the container");
    }
    if case.facts.listening == Some(Listening::Yes) && named(case).ends_with("/udp") {
        return Verdict::arrived(format!("{came}, whose program need not answer by UDP"));
    }
    Verdict::lost(
        format!("{came}, and no answer came"),
        "look at the packet filter inside of the container, and at its program",
    )
}

fn to_others(forth: &PacketPath, case: &Case<'_>) -> Verdict {
    let (what, who, facts) = (named(case), container(case.facts), case.facts);
    if is_answered(case) {
        return Verdict::arrived(format!("arrived: {what} has answered {who}"));
    }
    if is_refused(case) {
        return Verdict::arrived(format!("arrived: {what} refuses the connection, since no program listens there"));
    }
    let link = facts.left_by.as_ref().map(|link| format!(" by {link}")).unwrap_or_default();
    let source = forth.last().map(|sight| sight.packet.source);
    let own = source.filter(|source| facts.subject.as_ref().is_some_and(|subject| subject.addresses.contains(source)));
    let Some(own) = own else {
        return Verdict::lost(
            format!(
                "it left the host{link} as {}, and no answer came",
                source.map(|source| source.to_string()).unwrap_or_default()
            ),
            "the host has done its part; look at the next router, and at the other end",
        );
    };
    let subject = facts.subject.as_ref();
    let why = format!("it left the host{link} with the container's own address {own}, to which no answer came");
    if subject.is_some_and(|subject| subject.has_masquerade) {
        Verdict::lost(format!("{why}: the masquerade is missing"), format!("{REPAIR} restores it"))
    } else {
        Verdict::lost(
            format!("{why}: the list asks for no masquerade"),
            "write \"ipMasq\": true, or give others a route to the container's network",
        )
    }
}

#[cfg(test)]
#[path = "judge/tests.rs"]
mod tests;
