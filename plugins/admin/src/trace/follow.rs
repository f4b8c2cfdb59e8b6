//! Follows packets: marks them, reads the messages of the kernel, and collects the facts for the judgement.

use std::collections::HashMap;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use cni_core::error::Error;
use cni_core::fail;
use cni_kernel::netlink::{NetlinkError, RouteQuestion, Socket};
use cni_kernel::netns::Netns;
use cni_kernel::nftables::trace::Mark;
use cni_kernel::nftables::trace::{Keeper, PREFIX, Received, TraceSocket, TraceTable, chains, leftovers};
use serde_json::json;

use super::case::{ContainerRoute, ProbeReply, TraceCase, TraceFacts, TraceVerdict};
use super::judge::judge;
use super::owner::Owners;
use super::packet_path::{PacketPath, PacketPaths, PathEnd, PathHook};
use super::probe::{self, Neighbour, ProbePacket};
use super::queries;
use super::rendering::{RenderedPath, Renderer};
use super::rules::{LegacyCounters, RuleTexts};
use super::traced_flow::{FlowKind, TracedFlow};
use crate::inventory::Inventory;
use crate::output::{print, status};

/// How long the socket waits for the next message.
const TICK: Duration = Duration::from_millis(100);
/// How long messages are still read after an answer, or the end of a path.
const QUIET: Duration = Duration::from_millis(500);
/// The most paths that are recorded.
const ENOUGH: usize = 64;

/// The paths, and the verdict.
pub struct TraceReport {
    ways: Vec<RenderedPath>,
    /// What should be known of the trace itself.
    notes: Vec<String>,
    pub verdict: TraceVerdict,
}

impl TraceReport {
    /// Prints it; returns the exit status.
    pub fn print(&self, as_json: bool) -> ExitCode {
        status(print(&if as_json { self.json() } else { self.text() }), false, !self.verdict.arrived)
    }

    fn text(&self) -> String {
        let ways: String = self.ways.iter().map(RenderedPath::text).collect();
        let notes: String = self.notes.iter().map(|note| format!("note: {note}\n")).collect();
        format!("{ways}{notes}{}\n", self.verdict.text().replace('\n', " "))
    }

    fn json(&self) -> String {
        let Self { ways, notes, verdict } = self;
        let document = json!({
            "packets": ways.iter().map(RenderedPath::json).collect::<Vec<_>>(),
            "notes": notes,
            "arrived": verdict.arrived,
            "why": verdict.why,
            "helps": verdict.helps,
        });
        format!("{document:#}\n")
    }
}

/// What was seen.
struct TraceObservation {
    ways: PacketPaths,
    reply: ProbeReply,
    is_incomplete: bool,
    keeper: Keeper,
    /// Kept until the host was asked about its link.
    _neighbour: Option<Neighbour>,
}

/// Follows packets of a course, for so long.
///
/// # Errors
/// What could not be done.
pub fn follow(
    course: &TracedFlow<'_>,
    found: &Inventory,
    is_probe: bool,
    patience: Duration,
) -> Result<TraceReport, Error> {
    remove_leftovers()?;
    let before = LegacyCounters::read();
    let netns = course.subject.and_then(queries::namespace);
    let seen =
        if is_probe { observe_probe(course, netns.as_ref(), patience)? } else { observe_traffic(course, patience)? };
    let after = LegacyCounters::read();
    let mut host = Socket::open()?;
    let names = queries::links(&mut host)?;
    let owners = owners(found)?;
    let mut rules = RuleTexts::new(chains::socket().ok());
    let mut shower = Renderer { names: &names, owners: &owners, rules: &mut rules };

    let ways = seen.ways.all();
    let forth = ways.iter().find(|way| course.is_followed(way) && !course.is_answer(way));
    let back = ways.iter().find(|way| course.is_answer(way));
    let legacy = after.since(&before);
    let mut facts = facts(course, &mut host, netns.as_ref(), [forth, back], &names)?;
    facts.legacy = legacy.iter().map(|(rule, _)| rule.clone()).collect();
    let case = TraceCase {
        aim: course.aim.clone(),
        reply: seen.reply.clone(),
        forth,
        back,
        drop: forth.and_then(|way| shower.drop(way)),
        back_drop: back.and_then(|way| shower.drop(way)),
        facts: &facts,
    };
    let verdict = judge(&case);
    let is_shown = |way: &&PacketPath| {
        let is_first = [forth, back].into_iter().flatten().any(|one| std::ptr::eq(one, *way));
        is_first || !matches!(way.end(), Some(PathEnd::Left { .. } | PathEnd::Delivered))
    };
    let shown: Vec<&PacketPath> = ways.iter().filter(is_shown).collect();
    Ok(TraceReport { ways: shower.all(&shown), notes: notes(&seen, after.in_use, &legacy), verdict })
}

/// What should be known of the trace itself.
fn notes(seen: &TraceObservation, has_legacy: bool, legacy: &[(String, u64)]) -> Vec<String> {
    let mut notes = Vec::new();
    if seen.keeper == Keeper::NextCall {
        notes.push(
            "this kernel does not delete the table of a killed trace (NFT_TABLE_F_OWNER, Linux 5.12): the next trace does".to_owned(),
        );
    }
    if seen.is_incomplete {
        notes.push("there were more packets than could be read: some are missing here".to_owned());
    }
    if has_legacy {
        notes.push(
            "iptables-legacy has rules, which no trace sees; these have met packets meanwhile, perhaps others"
                .to_owned(),
        );
        notes.extend(legacy.iter().map(|(rule, count)| format!("  {count} packets: {rule}")));
    }
    notes
}

/// Removes the tables of processes that were killed where the kernel does not.
fn remove_leftovers() -> Result<(), NetlinkError> {
    for process in leftovers()? {
        if Path::new(&format!("/proc/{process}")).exists() {
            log::info!("table {PREFIX}{process} belongs to a process that runs");
        } else {
            TraceTable::remove_of(process)?;
        }
    }
    Ok(())
}

fn owners(found: &Inventory) -> Result<Owners<'_>, Error> {
    let mut socket = chains::socket()?;
    let mut chains = chains::list(&mut socket).map_err(|cause| fail!(Kernel, "failed to list the chains: {cause}"))?;
    chains.retain(|chain| !chain.table.starts_with(PREFIX));
    Ok(Owners { chains, known: found.attached.iter().map(|one| &one.cached).collect() })
}

/// Waits for packets of others.
fn observe_traffic(course: &TracedFlow<'_>, patience: Duration) -> Result<TraceObservation, Error> {
    let mut recorder = Recorder::start(&course.marks())?;
    let (end, mut quiet) = (Instant::now() + patience, None::<Instant>);
    while Instant::now() < quiet.unwrap_or(end).min(end) && recorder.ways.all().len() < ENOUGH {
        recorder.receive()?;
        if quiet.is_none() && is_over(course, recorder.ways.all()) {
            quiet = Some(Instant::now() + QUIET);
        }
    }
    recorder.end(ProbeReply::Real { seconds: patience.as_secs() })
}

/// Whether a packet was answered, or dropped by a rule.
fn is_over(course: &TracedFlow<'_>, ways: &[PacketPath]) -> bool {
    let is_dropped = |way: &PacketPath| matches!(way.end(), Some(PathEnd::Rule { .. } | PathEnd::Policy(_)));
    let has_forth = ways.iter().any(|way| course.is_followed(way));
    ways.iter().any(|way| is_dropped(way) || has_forth && course.is_answer(way))
}

/// Sends a probe, and records its path.
fn observe_probe(
    course: &TracedFlow<'_>,
    netns: Option<&Netns>,
    patience: Duration,
) -> Result<TraceObservation, Error> {
    if let FlowKind::From { to, port, protocol } = &course.kind {
        let netns = netns.ok_or_else(|| {
            fail!(Kernel, "the container's network namespace is not to be found: cni-plugins list shows why")
        })?;
        let mut recorder = Recorder::start(&course.marks())?;
        let shot = ProbePacket { to: *to, port: *port, protocol: protocol.unwrap_or_default() };
        let reply = probe::send(netns, shot, patience);
        recorder.drain()?;
        return recorder.end(reply);
    }
    let neighbour = Neighbour::new(course.family()).map_err(|error| {
        let error = error.in_full();
        fail!(Kernel, "failed to prepare the probe: {error}")
    })?;
    let mut recorder = Recorder::start(&TracedFlow::marks_of_probe(&neighbour.link, neighbour.own))?;
    let shot = match &course.kind {
        FlowKind::Published { port, protocol, host_ip, .. } => {
            ProbePacket { to: host_ip.unwrap_or(neighbour.host), port: Some(*port), protocol: *protocol }
        }
        FlowKind::ToContainer | FlowKind::From { .. } => ProbePacket {
            to: course.address.ok_or_else(|| fail!(Kernel, "the container has no address"))?,
            port: None,
            protocol: 0,
        },
    };
    let reply = probe::send(&neighbour.netns, shot, patience);
    recorder.drain()?;
    Ok(TraceObservation { _neighbour: Some(neighbour), ..recorder.end(reply)? })
}

/// The table that marks packets, and the socket that receives the messages about them.
struct Recorder {
    socket: TraceSocket,
    table: TraceTable,
    ways: PacketPaths,
    is_incomplete: bool,
}

impl Recorder {
    fn start(marks: &[Mark]) -> Result<Self, Error> {
        let socket =
            TraceSocket::open(TICK).map_err(|error| fail!(Kernel, "this kernel has no trace of nf_tables: {error}"))?;
        let table = TraceTable::create(marks)?;
        let ways = PacketPaths::new(table.name().to_owned());
        Ok(Self { socket, table, ways, is_incomplete: false })
    }

    /// Waits for a message; returns whether there was one.
    fn receive(&mut self) -> Result<bool, Error> {
        match self.socket.receive().map_err(|error| fail!(Kernel, "failed to read the trace: {error}"))? {
            Received::Events(events) => events.into_iter().for_each(|event| self.ways.add(event)),
            Received::Lost => self.is_incomplete = true,
            Received::Nothing => return Ok(false),
        }
        Ok(true)
    }

    /// Reads what has come already.
    fn drain(&mut self) -> Result<(), Error> {
        let end = Instant::now() + QUIET * 4;
        while self.receive()? && Instant::now() < end && self.ways.all().len() < ENOUGH {}
        Ok(())
    }

    fn end(self, reply: ProbeReply) -> Result<TraceObservation, Error> {
        let Self { socket, table, ways, is_incomplete } = self;
        drop(socket);
        let keeper = table.keeper();
        table.remove()?;
        Ok(TraceObservation { ways, reply, is_incomplete, keeper, _neighbour: None })
    }
}

/// Asks for the facts that the trace itself does not show.
fn facts(
    course: &TracedFlow<'_>,
    host: &mut Socket,
    netns: Option<&Netns>,
    [forth, back]: [Option<&PacketPath>; 2],
    names: &HashMap<u32, String>,
) -> Result<TraceFacts, NetlinkError> {
    let mut facts = TraceFacts {
        holder: course.holder.clone(),
        subject: course.subject.map(queries::subject),
        address: course.address,
        ..TraceFacts::default()
    };
    let lost =
        |way: &&PacketPath| matches!(way.end(), Some(PathEnd::LostAfter(PathHook::Prerouting | PathHook::Output)));
    if let Some(sight) = [forth, back].into_iter().flatten().find(lost).and_then(PacketPath::last) {
        let (to, from) = (sight.packet.destination, Some(sight.packet.source));
        facts.unrouted = queries::unrouted(host, RouteQuestion { to, from, input: sight.input }, names)?;
    }
    if let Some(PathEnd::Left { output: Some(index) }) = forth.and_then(PacketPath::end) {
        facts.left_by = names.get(&index).cloned();
    }
    let (Some(subject), Some(netns)) = (course.subject, netns) else { return Ok(facts) };
    let peer = match &course.kind {
        FlowKind::From { to, .. } => Some(*to),
        FlowKind::Published { .. } | FlowKind::ToContainer => {
            forth.and_then(PacketPath::last).map(|sight| sight.packet.source)
        }
    };
    facts.route = peer.and_then(|peer| queries::container_route(host, netns, subject, peer));
    // Such a host does not even answer when the container asks for its link-layer address.
    if let (None, FlowKind::From { to, .. }, Some(ContainerRoute::Via { gateway, .. })) =
        (forth, &course.kind, &facts.route)
    {
        let input = queries::link_with(host, *gateway)?;
        if input.is_some() {
            facts.unrouted = queries::unrouted(host, RouteQuestion { to: *to, from: course.address, input }, names)?;
        }
    }
    if let (FlowKind::Published { protocol, container_port: Some(port), .. }, Some(address)) =
        (&course.kind, course.address)
    {
        facts.listening = queries::listening(netns, *protocol, address, *port);
    }
    Ok(facts)
}
