//! The paths of packets through the packet filter, assembled from the messages of the kernel.
//!
//! The trace's own table sees a packet at the beginning and the end of each hook: between them the others' rules have
//! been, and between two hooks the kernel has chosen a route.

use cni_kernel::nftables::trace::event::{TraceEvent, TraceKind, TraceVerdict};

use super::packet::TracedPacket;

/// Where in the kernel a packet meets rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathHook {
    Prerouting,
    Input,
    Forward,
    Output,
    Postrouting,
}

impl PathHook {
    const ALL: [Self; 5] = [Self::Prerouting, Self::Input, Self::Forward, Self::Output, Self::Postrouting];

    /// Its name in `nft`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Prerouting => "prerouting",
            Self::Input => "input",
            Self::Forward => "forward",
            Self::Output => "output",
            Self::Postrouting => "postrouting",
        }
    }
}

/// Which side of the rules of a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    First,
    Last,
}

/// A chain.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// A number of `enum nf_proto`.
    pub family: u8,
    pub table: String,
    pub chain: String,
}

/// The packet at the edge of a hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketAtHook {
    pub hook: PathHook,
    pub edge: Edge,
    pub packet: TracedPacket,
    /// The indexes of the links.
    pub input: Option<u32>,
    pub output: Option<u32>,
}

/// A part of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathStep {
    PacketAtHook(PacketAtHook),
    Rule { place: Place, handle: u64, verdict: TraceVerdict },
    Policy { place: Place, accepts: bool },
}

/// The path of one packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketPath {
    number: u32,
    pub steps: Vec<PathStep>,
}

/// Where a path ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathEnd<'a> {
    /// A rule dropped it.
    Rule { place: &'a Place, handle: u64 },
    /// The policy of a chain dropped it.
    Policy(&'a Place),
    /// It has reached the machine's own programs.
    Delivered,
    /// It has left by a link.
    Left { output: Option<u32> },
    /// A program has taken it, or the kernel keeps it.
    Taken(&'a Place),
    /// It was seen at the beginning of a hook, and not at its end; no rule of nf_tables has dropped it.
    LostInside(PathHook),
    /// It was seen at the end of a hook, and at no other hook after it.
    LostAfter(PathHook),
}

impl PacketPath {
    #[cfg(test)]
    pub const fn of(steps: Vec<PathStep>) -> Self {
        Self { number: 1, steps }
    }

    /// The packet as it was seen first.
    pub fn first(&self) -> Option<&PacketAtHook> {
        self.sights().next()
    }

    /// The packet as it was seen last.
    pub fn last(&self) -> Option<&PacketAtHook> {
        self.sights().last()
    }

    fn sights(&self) -> impl Iterator<Item = &PacketAtHook> {
        self.steps.iter().filter_map(|step| match step {
            PathStep::PacketAtHook(sight) => Some(sight),
            PathStep::Rule { .. } | PathStep::Policy { .. } => None,
        })
    }

    /// Where it ends; `None` for an empty path.
    pub fn end(&self) -> Option<PathEnd<'_>> {
        match self.steps.last()? {
            PathStep::Rule { place, handle, verdict: TraceVerdict::Drop } => {
                return Some(PathEnd::Rule { place, handle: *handle });
            }
            PathStep::Rule { place, verdict: TraceVerdict::Taken, .. } => return Some(PathEnd::Taken(place)),
            PathStep::Policy { place, accepts: false } => return Some(PathEnd::Policy(place)),
            PathStep::Rule { .. } | PathStep::Policy { accepts: true, .. } | PathStep::PacketAtHook(_) => {}
        }
        let PacketAtHook { hook, edge, output, .. } = self.last()?;
        Some(match (hook, edge) {
            (PathHook::Input, Edge::Last) => PathEnd::Delivered,
            (PathHook::Postrouting, Edge::Last) => PathEnd::Left { output: *output },
            (hook, Edge::First) => PathEnd::LostInside(*hook),
            (hook, Edge::Last) => PathEnd::LostAfter(*hook),
        })
    }
}

/// The paths, in the order in which they begin. `own` is the trace's own table.
#[derive(Debug)]
pub struct PacketPaths {
    own: String,
    ways: Vec<PacketPath>,
}

impl PacketPaths {
    /// None yet.
    pub const fn new(own: String) -> Self {
        Self { own, ways: Vec::new() }
    }

    /// Adds what the kernel has told.
    pub fn add(&mut self, event: TraceEvent) {
        let TraceEvent { packet: number, family, table, chain, kind, headers } = event;
        if table == self.own {
            let Some((hook, edge)) = edge_of(&chain) else { return };
            let Some(headers) = headers else { return };
            let Some(packet) = TracedPacket::read(&headers) else { return };
            let sight = PacketAtHook { hook, edge, packet, input: headers.input, output: headers.output };
            let begins = edge == Edge::First && [PathHook::Prerouting, PathHook::Output].contains(&hook);
            match self.way(number).filter(|_| !begins) {
                Some(way) => way.steps.push(PathStep::PacketAtHook(sight)),
                None => self.begin(number, sight),
            }
            return;
        }
        let place = Place { family, table, chain };
        let step = match kind {
            TraceKind::Rule { handle, verdict } => PathStep::Rule { place, handle, verdict },
            TraceKind::Policy { accepts } => PathStep::Policy { place, accepts },
            TraceKind::Return => return,
        };
        if let Some(way) = self.way(number) {
            way.steps.push(step);
        }
    }

    /// A packet with another number. One that a bridge hands to the host has met the first rules in the bridge, where it had
    /// another number.
    fn begin(&mut self, number: u32, sight: PacketAtHook) {
        let is_same = |way: &&mut PacketPath| {
            way.end() == Some(PathEnd::LostAfter(PathHook::Prerouting))
                && way.last().is_some_and(|last| last.packet == sight.packet && last.input == sight.input)
        };
        match self.ways.iter_mut().rev().find(is_same) {
            Some(way) => {
                way.number = number;
                way.steps.push(PathStep::PacketAtHook(sight));
            }
            None => self.ways.push(PacketPath { number, steps: vec![PathStep::PacketAtHook(sight)] }),
        }
    }

    /// The current path of a packet. The kernel may use the number again for a later packet.
    fn way(&mut self, number: u32) -> Option<&mut PacketPath> {
        self.ways.iter_mut().rev().find(|way| way.number == number)
    }

    /// All of them.
    pub fn all(&self) -> &[PacketPath] {
        &self.ways
    }
}

/// The hook and the edge of a chain of the trace's own table.
fn edge_of(chain: &str) -> Option<(PathHook, Edge)> {
    let (hook, edge) = chain.split_once('-')?;
    let hook = PathHook::ALL.into_iter().find(|one| one.name() == hook)?;
    match edge {
        "first" => Some((hook, Edge::First)),
        "last" => Some((hook, Edge::Last)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use cni_kernel::nftables::trace::event::Headers;

    use super::*;

    const OWN: &str = "own";

    fn headers() -> Headers {
        let mut network = vec![0; 20];
        network[0] = 0x45;
        Headers { network, transport: Vec::new(), input: Some(2), output: Some(3) }
    }

    fn sight(number: u32, chain: &str) -> TraceEvent {
        let kind = TraceKind::Policy { accepts: true };
        let (table, chain) = (OWN.to_owned(), chain.to_owned());
        TraceEvent { packet: number, family: 1, table, chain, kind, headers: Some(headers()) }
    }

    fn other(number: u32, chain: &str, kind: TraceKind) -> TraceEvent {
        let (table, chain) = ("filter".to_owned(), chain.to_owned());
        TraceEvent { packet: number, family: 2, table, chain, kind, headers: None }
    }

    fn place(chain: &str) -> Place {
        Place { family: 2, table: "filter".to_owned(), chain: chain.to_owned() }
    }

    fn ways(events: Vec<TraceEvent>) -> PacketPaths {
        let mut ways = PacketPaths::new(OWN.to_owned());
        events.into_iter().for_each(|event| ways.add(event));
        ways
    }

    fn rule(verdict: TraceVerdict) -> TraceKind {
        TraceKind::Rule { handle: 9, verdict }
    }

    #[test]
    fn a_way_ends_where_it_was_seen_last() {
        let begin = || vec![sight(1, "prerouting-first"), sight(1, "prerouting-last")];
        let with = |more: Vec<TraceEvent>| ways([begin(), more].concat());
        let end = |ways: &PacketPaths, want: PathEnd<'_>| assert_eq!(ways.all()[0].end(), Some(want));
        end(&with(vec![]), PathEnd::LostAfter(PathHook::Prerouting));
        end(&with(vec![sight(1, "forward-first")]), PathEnd::LostInside(PathHook::Forward));
        end(&with(vec![sight(1, "input-first"), sight(1, "input-last")]), PathEnd::Delivered);
        end(&with(vec![sight(1, "postrouting-last")]), PathEnd::Left { output: Some(3) });
        let forward = place("FORWARD");
        let dropped = other(1, "FORWARD", rule(TraceVerdict::Drop));
        end(&with(vec![sight(1, "forward-first"), dropped]), PathEnd::Rule { place: &forward, handle: 9 });
        let policy = other(1, "FORWARD", TraceKind::Policy { accepts: false });
        end(&with(vec![sight(1, "forward-first"), policy]), PathEnd::Policy(&forward));
        end(&with(vec![other(1, "FORWARD", rule(TraceVerdict::Taken))]), PathEnd::Taken(&forward));
        let passed = other(1, "FORWARD", rule(TraceVerdict::Accept));
        end(&with(vec![sight(1, "forward-first"), passed]), PathEnd::LostInside(PathHook::Forward));
    }

    #[test]
    fn a_number_that_comes_again_is_another_packet() {
        let twice = ways(vec![
            sight(1, "prerouting-first"),
            sight(1, "postrouting-last"),
            sight(2, "output-first"),
            sight(1, "prerouting-first"),
            sight(1, "prerouting-last"),
        ]);
        let lengths: Vec<usize> = twice.all().iter().map(|way| way.steps.len()).collect();
        assert_eq!(lengths, [2, 1, 2]);
    }

    #[test]
    fn a_packet_that_a_bridge_hands_over_gets_another_number() {
        let twice = ways(vec![
            sight(1, "prerouting-first"),
            sight(1, "prerouting-last"),
            sight(2, "forward-first"),
            sight(2, "postrouting-last"),
        ]);
        let [one] = twice.all() else { panic!("{twice:?}") };
        assert_eq!(one.end(), Some(PathEnd::Left { output: Some(3) }));
    }

    #[test]
    fn what_belongs_to_no_way_is_left_out() {
        let kept = ways(vec![
            other(1, "FORWARD", rule(TraceVerdict::Accept)),
            TraceEvent { headers: None, ..sight(1, "forward-first") },
            sight(1, "elsewhere"),
            TraceEvent { headers: Some(Headers { network: vec![], ..headers() }), ..sight(1, "prerouting-first") },
        ]);
        assert_eq!(kept.all(), []);
    }
}
