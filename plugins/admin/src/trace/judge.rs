//! Why a packet ended where it did, and what helps: one sentence.

use cni_core::family::Family;

use super::case::{
    Aim, ContainerRoute, DroppedBy, Listening, PortHolder, ProbeReply, Subject, TraceCase, TraceFacts, TraceVerdict,
};
use super::packet_path::{PacketPath, PathEnd, PathHook};

const REPAIR: &str = "cni-plugins repair";

/// Judges a trace.
pub fn judge(case: &TraceCase<'_>) -> TraceVerdict {
    let Some(forth) = case.forth else { return unseen(case) };
    if let Some(drop) = &case.drop {
        return dropped("", drop, case);
    }
    if let Some(holder) = &case.facts.holder {
        return taken(case, holder);
    }
    match forth.end() {
        None | Some(PathEnd::Rule { .. } | PathEnd::Policy(_)) => unseen(case),
        Some(PathEnd::Taken(place)) => TraceVerdict::lost(
            format!("a rule of {} gave it to a program (queue)", super::rules::text(place)),
            "look at that program",
        ),
        Some(PathEnd::LostAfter(PathHook::Prerouting | PathHook::Output)) => unrouted("", case),
        Some(PathEnd::LostAfter(hook)) => TraceVerdict::lost(
            format!("it was lost after the hook {}, and not by the packet filter", hook.name()),
            "nstat -az shows which counter of errors grows",
        ),
        Some(PathEnd::LostInside(hook)) => hidden(hook, case),
        Some(PathEnd::Delivered) => delivered(forth, case),
        Some(PathEnd::Left { .. }) => left(forth, case),
    }
}

fn named(case: &TraceCase<'_>) -> String {
    let (Aim::In(what) | Aim::Out(what)) = &case.aim;
    what.clone()
}

fn container(facts: &TraceFacts) -> String {
    facts
        .subject
        .as_ref()
        .map_or_else(|| "the container".to_owned(), |subject| format!("container {}", subject.container))
}

/// Nothing was seen.
fn unseen(case: &TraceCase<'_>) -> TraceVerdict {
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
        (ProbeReply::Answered, _) => {
            TraceVerdict::arrived(format!("{what} answers, and the packet filter did not see the packet"))
        }
        (ProbeReply::Real { seconds }, Aim::In(_)) => TraceVerdict::lost(
            format!("no packet to {what} came within {seconds} seconds"),
            "look at the way to this host, or let --probe send one",
        ),
        (ProbeReply::Real { seconds }, Aim::Out(_)) => TraceVerdict::lost(
            format!("no packet from {who} to {what} came to the host within {seconds} seconds"),
            "let --probe send one",
        ),
        (ProbeReply::Unreachable(why), _) => {
            TraceVerdict::lost(format!("the probe to {what} failed: {why}"), "look at the routes")
        }
        (ProbeReply::Refused, _) => TraceVerdict::lost(
            format!("{what} refuses, and no packet filter saw the packet"),
            "start a program that listens",
        ),
        (ProbeReply::Silent, _) => {
            TraceVerdict::lost(format!("the probe to {what} was not seen by the packet filter"), "look at the routes")
        }
    }
}

/// A packet of the container that did not come to the host.
fn stayed(what: &str, who: &str, case: &TraceCase<'_>) -> Option<TraceVerdict> {
    let is_lost = !matches!(case.reply, ProbeReply::Answered | ProbeReply::Refused);
    match case.facts.route.as_ref()? {
        ContainerRoute::None => {
            Some(TraceVerdict::lost(format!("{who} has no route to {what}"), write_route(case.facts)))
        }
        ContainerRoute::Via { gateway, is_host: false } if is_lost => Some(TraceVerdict::lost(
            format!("the route of {who} to {what} is wrong: it leads to {gateway}, which is no address of this host"),
            "correct the gateway in the list's ipam, and start the container again",
        )),
        ContainerRoute::OnLink if is_lost => Some(TraceVerdict::lost(
            format!(
                "{what} is in the container's own network, where packets do not pass the host's packet filter, and it does not answer"
            ),
            "look whether it exists, and whether a program listens",
        )),
        ContainerRoute::OnLink => Some(TraceVerdict::arrived(format!(
            "{what} is in the container's own network and has answered; such packets do not pass the host's packet filter"
        ))),
        ContainerRoute::Via { .. } | ContainerRoute::Local => None,
    }
}

fn write_route(facts: &TraceFacts) -> String {
    let everywhere = family(facts).unspecified();
    format!("write \"routes\": [{{\"dst\": \"{everywhere}/0\"}}] into the list's ipam, and start the container again")
}

/// The family of the packets.
fn family(facts: &TraceFacts) -> Family {
    facts.address.map_or(Family::V4, Family::of)
}

/// A rule or a policy dropped the packet, or the answer.
fn dropped(whose: &str, drop: &DroppedBy, case: &TraceCase<'_>) -> TraceVerdict {
    let DroppedBy { by, owner, rejects, is_forwarding } = drop;
    let verb = if *rejects { "rejected" } else { "dropped" };
    let set = owner.as_ref().map(|owner| format!(", which {owner} sets")).unwrap_or_default();
    let why = format!("{whose}{verb} by {by}{set}");
    let owner = owner.as_deref().unwrap_or_default();
    TraceVerdict::lost(why, if *is_forwarding { open_forward(owner, case) } else { open_host(owner, case) })
}

/// How packets of a container come through the host.
fn open_forward(owner: &str, case: &TraceCase<'_>) -> String {
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
fn open_host(owner: &str, case: &TraceCase<'_>) -> String {
    let what = named(case);
    let port = what.trim_start_matches("port ");
    match owner {
        "ufw" => format!("ufw allow {port}"),
        "firewalld" => format!("firewall-cmd --add-port={port}"),
        _ => "change or remove that rule if the packet is wanted".to_owned(),
    }
}

/// The port belongs to another container.
fn taken(case: &TraceCase<'_>, PortHolder { container: holder, is_dead }: &PortHolder) -> TraceVerdict {
    let (what, who) = (named(case), container(case.facts));
    if *is_dead {
        return TraceVerdict::lost(
            format!("{what} belongs to container {holder}, which is dead, and {who} waits for it"),
            "cni-plugins gc --remove",
        );
    }
    TraceVerdict::lost(
        format!("{what} belongs to container {holder}, which asked for it first, and {who} waits for it"),
        format!("publish another port, or delete container {holder}"),
    )
}

/// The host did not know where to send it.
fn unrouted(whose: &str, case: &TraceCase<'_>) -> TraceVerdict {
    let lost = || {
        TraceVerdict::lost(
            "lost after prerouting, though the host has a route",
            "nstat -az shows which counter of errors grows",
        )
    };
    let verdict = case.facts.unrouted.clone().unwrap_or_else(lost);
    TraceVerdict { why: format!("{whose}{}", verdict.why), ..verdict }
}

/// It was dropped where no rule of nf_tables is to be seen.
fn hidden(hook: PathHook, case: &TraceCase<'_>) -> TraceVerdict {
    let dropping = case.facts.legacy.iter().find(|rule| rule.contains(" DROP") || rule.contains(" REJECT"));
    match dropping {
        Some(rule) => TraceVerdict::lost(
            format!("dropped in the hook {} by iptables-legacy, whose counter has moved: {rule}", hook.name()),
            "change it, or move to the nft flavour of iptables",
        ),
        None => TraceVerdict::lost(
            format!("lost in the hook {}, and no rule of nf_tables has dropped it", hook.name()),
            "look at iptables-legacy-save, and at programs that use eBPF",
        ),
    }
}

/// It came to the host itself.
fn delivered(forth: &PacketPath, case: &TraceCase<'_>) -> TraceVerdict {
    let what = named(case);
    let came = forth.last().map(|sight| sight.packet.to()).unwrap_or_default();
    match (&case.aim, &case.facts.subject) {
        (Aim::In(_), Some(subject)) => unmapped(&what, subject),
        (Aim::In(_), None) if is_answered(case) => {
            TraceVerdict::arrived(format!("arrived at a program of the host: {what} is published by no container"))
        }
        (Aim::In(_), None) => TraceVerdict::lost(
            format!("no container publishes {what}, and no program of the host answers there"),
            "publish it in the container's portMappings",
        ),
        (Aim::Out(_), _) if is_answered(case) => {
            TraceVerdict::arrived(format!("arrived: {what}, an address of the host, has answered"))
        }
        (Aim::Out(_), _) => TraceVerdict::lost(
            format!("{came} is the host itself, and no program answers there"),
            "start the program, and let it listen on that address",
        ),
    }
}

/// A published port that no rule leads to its container.
fn unmapped(what: &str, subject: &Subject) -> TraceVerdict {
    let Subject { container, missing, .. } = subject;
    let of = if missing.is_empty() { String::new() } else { format!(" ({})", missing.join("; ")) };
    TraceVerdict::lost(
        format!("no rule leads {what} to container {container}: its rules are missing{of}"),
        format!("{REPAIR} restores them"),
    )
}

/// It left the host, to the container or to others.
fn left(forth: &PacketPath, case: &TraceCase<'_>) -> TraceVerdict {
    if let Some(drop) = &case.back_drop {
        return dropped("the answer was ", drop, case);
    }
    if let Some(PathEnd::LostAfter(PathHook::Prerouting)) = case.back.and_then(PacketPath::end) {
        return unrouted("the answer was ", case);
    }
    match case.aim {
        Aim::In(_) => to_container(case),
        Aim::Out(_) => to_others(forth, case),
    }
}

fn is_answered(case: &TraceCase<'_>) -> bool {
    let is_back = case.back.and_then(PacketPath::first).is_some_and(|sight| !sight.packet.is_refusal());
    match case.reply {
        ProbeReply::Answered => true,
        ProbeReply::Real { .. } => is_back,
        ProbeReply::Refused | ProbeReply::Silent | ProbeReply::Unreachable(_) => false,
    }
}

fn is_refused(case: &TraceCase<'_>) -> bool {
    let is_back = case.back.and_then(PacketPath::first).is_some_and(|sight| sight.packet.is_refusal());
    match case.reply {
        ProbeReply::Refused => true,
        ProbeReply::Real { .. } => is_back,
        ProbeReply::Answered | ProbeReply::Silent | ProbeReply::Unreachable(_) => false,
    }
}

fn to_container(case: &TraceCase<'_>) -> TraceVerdict {
    let (what, who, facts) = (named(case), container(case.facts), case.facts);
    if is_answered(case) {
        return TraceVerdict::arrived(format!("arrived: {who} has answered {what}"));
    }
    let end = case.forth.and_then(PacketPath::last).map(|sight| sight.packet.to()).unwrap_or_default();
    let came = format!("it came to {who} at {end}");
    let listen = "let the program listen on 0.0.0.0 or ::";
    match facts.listening {
        Some(Listening::No) => {
            return TraceVerdict::lost(
                format!("{came}, where no program listens"),
                "start the program, or correct containerPort",
            );
        }
        Some(Listening::OnLoopback) => {
            return TraceVerdict::lost(format!("{came}, whose program listens only on its loopback address"), listen);
        }
        Some(Listening::Elsewhere(address)) => {
            return TraceVerdict::lost(format!("{came}, whose program listens only on {address}"), listen);
        }
        Some(Listening::Yes) | None => {}
    }
    match facts.route {
        Some(ContainerRoute::None) => {
            TraceVerdict::lost(format!("{came}, which has no route back: its answer is lost"), write_route(case.facts))
        }
        Some(ContainerRoute::Via { gateway, is_host: false }) => TraceVerdict::lost(
            format!("{came}, whose route back is wrong: it leads to {gateway}, which is no address of this host"),
            "correct the gateway in the list's ipam, and start the container again",
        ),
        Some(ContainerRoute::Via { .. } | ContainerRoute::OnLink | ContainerRoute::Local) | None => {
            unanswered(&came, case)
        }
    }
}

fn unanswered(came: &str, case: &TraceCase<'_>) -> TraceVerdict {
    if is_refused(case) {
        return TraceVerdict::lost(
            format!("{came}, and was refused"),
            "look at the packet filter inside of the container",
        );
    }
    if case.facts.listening == Some(Listening::Yes) && named(case).ends_with("/udp") {
        return TraceVerdict::arrived(format!("{came}; its program may leave UDP unanswered"));
    }
    TraceVerdict::lost(
        format!("{came}, and no answer came"),
        "look at the packet filter inside of the container, and at its program",
    )
}

fn to_others(forth: &PacketPath, case: &TraceCase<'_>) -> TraceVerdict {
    let (what, who, facts) = (named(case), container(case.facts), case.facts);
    if is_answered(case) {
        return TraceVerdict::arrived(format!("arrived: {what} has answered {who}"));
    }
    if is_refused(case) {
        return TraceVerdict::arrived(format!(
            "arrived: {what} refuses the connection, since no program listens there"
        ));
    }
    let link = facts.left_by.as_ref().map(|link| format!(" by {link}")).unwrap_or_default();
    let source = forth.last().map(|sight| sight.packet.source);
    let own = source.filter(|source| facts.subject.as_ref().is_some_and(|subject| subject.addresses.contains(source)));
    let Some(own) = own else {
        return TraceVerdict::lost(
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
        TraceVerdict::lost(format!("{why}: the masquerade is missing"), format!("{REPAIR} restores it"))
    } else {
        TraceVerdict::lost(
            format!("{why}: the list asks for no masquerade"),
            "write \"ipMasq\": true, or give others a route to the container's network",
        )
    }
}

#[cfg(test)]
#[path = "judge/tests.rs"]
mod tests;
