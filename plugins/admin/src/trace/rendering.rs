//! A path as it is printed: a line for each rule, policy, translation and routing decision.

use std::collections::HashMap;

use cni_kernel::nftables::trace::event::TraceVerdict;
use serde_json::{Value, json};

use super::case::DroppedBy;
use super::owner::Owners;
use super::packet::TracedPacket;
use super::packet_path::{Edge, PacketAtHook, PacketPath, PathEnd, PathHook, PathStep, Place};
use super::rules::{self, RuleTexts};

/// A line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderedLine {
    /// What it is about: `in`, `rule`, `policy`, `source`, `destination`, `route`, `out`.
    pub about: &'static str,
    /// The chain, of rules and policies.
    pub place: Option<Place>,
    pub text: String,
    pub owner: Option<String>,
}

/// A path, and how many packets took it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderedPath {
    pub packet: TracedPacket,
    pub count: usize,
    pub lines: Vec<RenderedLine>,
}

/// Renders paths.
pub struct Renderer<'a> {
    pub names: &'a HashMap<u32, String>,
    pub owners: &'a Owners<'a>,
    pub rules: &'a mut RuleTexts,
}

impl Renderer<'_> {
    /// Renders each different path once.
    pub fn all(&mut self, ways: &[&PacketPath]) -> Vec<RenderedPath> {
        let mut shown: Vec<RenderedPath> = Vec::new();
        for way in ways {
            let Some(first) = way.first() else { continue };
            let lines = self.lines(way);
            match shown.iter_mut().find(|one| one.lines == lines && is_alike(&one.packet, &first.packet)) {
                Some(one) => one.count += 1,
                None => shown.push(RenderedPath { packet: first.packet.clone(), count: 1, lines }),
            }
        }
        shown
    }

    /// The rule or policy that dropped the packet, if one did.
    pub fn drop(&mut self, way: &PacketPath) -> Option<DroppedBy> {
        let is_forwarding = way.last().is_some_and(|sight| sight.hook == PathHook::Forward);
        match way.end()? {
            PathEnd::Policy(place) => Some(DroppedBy {
                by: format!("the policy of {}", rules::text(place)),
                owner: self.owners.of_policy(place).map(|owner| owner.name()),
                rejects: false,
                is_forwarding,
            }),
            PathEnd::Rule { place, handle } => {
                let rule = self.rules.of(place, handle);
                let owner = self.owners.of_rule(place, &TraceVerdict::Drop, &rule.text);
                Some(DroppedBy {
                    by: format!("the rule \"{}\" of {}", rule.text, rules::text(place)),
                    owner: owner.map(|owner| owner.name()),
                    rejects: rule.rejects,
                    is_forwarding,
                })
            }
            PathEnd::Delivered
            | PathEnd::Left { .. }
            | PathEnd::Taken(_)
            | PathEnd::LostInside(_)
            | PathEnd::LostAfter(_) => None,
        }
    }

    fn lines(&mut self, way: &PacketPath) -> Vec<RenderedLine> {
        let (mut lines, mut before): (Vec<RenderedLine>, Option<&PacketAtHook>) = (Vec::new(), None);
        for step in &way.steps {
            match step {
                PathStep::PacketAtHook(sight) => {
                    lines.extend(self.sight(before, sight));
                    before = Some(sight);
                }
                PathStep::Rule { verdict: TraceVerdict::Return, .. } | PathStep::Policy { accepts: true, .. } => {}
                PathStep::Rule { place, handle, verdict } => {
                    let text = self.rules.of(place, *handle).text;
                    let owner = self.owners.of_rule(place, verdict, &text).map(|owner| owner.text());
                    lines.push(RenderedLine { about: "rule", place: Some(place.clone()), text, owner });
                }
                PathStep::Policy { place, accepts: false } => {
                    let owner = self.owners.of_policy(place).map(|owner| owner.text());
                    let text = "policy drop".to_owned();
                    lines.push(RenderedLine { about: "policy", place: Some(place.clone()), text, owner });
                }
            }
        }
        lines
    }

    /// What has changed since the packet was seen before.
    fn sight(&self, before: Option<&PacketAtHook>, sight: &PacketAtHook) -> Vec<RenderedLine> {
        let line = |about: &'static str, text: String| RenderedLine { about, place: None, text, owner: None };
        let Some(PacketAtHook { packet: earlier, .. }) = before else {
            let text = sight.input.map_or_else(
                || "the host itself sends it".to_owned(),
                |index| format!("it comes by {}", self.name(index)),
            );
            return vec![line("in", text)];
        };
        let mut lines = Vec::new();
        let packet = &sight.packet;
        if earlier.destination != packet.destination || port(earlier, 1) != port(packet, 1) {
            lines.push(line("destination", format!("{} becomes {}", earlier.to(), packet.to())));
        }
        if earlier.source != packet.source {
            lines.push(line("source", format!("{} becomes {}", earlier.from(), packet.from())));
        }
        match (sight.hook, sight.edge) {
            (PathHook::Input, Edge::First) => lines.push(line("route", "to the host itself".to_owned())),
            (PathHook::Forward, Edge::First) => {
                let by =
                    sight.output.map_or_else(|| "elsewhere".to_owned(), |index| format!("by {}", self.name(index)));
                lines.push(line("route", format!("to {} {by}", packet.destination)));
            }
            (PathHook::Postrouting, Edge::Last) => {
                let by = sight.output.map_or_else(String::new, |index| format!(" by {}", self.name(index)));
                lines.push(line("out", format!("it leaves{by}")));
            }
            (PathHook::Prerouting | PathHook::Output, _) | (_, Edge::First | Edge::Last) => {}
        }
        lines
    }

    fn name(&self, index: u32) -> String {
        self.names.get(&index).cloned().unwrap_or_else(|| format!("link {index}"))
    }
}

fn port(packet: &TracedPacket, end: usize) -> Option<u16> {
    packet.ports.and_then(|ports| ports.get(end).copied())
}

/// Packets of other connections between the same ends are shown as one.
fn is_alike(one: &TracedPacket, other: &TracedPacket) -> bool {
    one.source == other.source
        && one.destination == other.destination
        && one.protocol == other.protocol
        && port(one, 1) == port(other, 1)
}

impl RenderedPath {
    /// Its lines.
    pub fn text(&self) -> String {
        let times = if self.count > 1 { format!(" ({} packets)", self.count) } else { String::new() };
        let lines: String = self.lines.iter().map(RenderedLine::print).collect();
        format!("{}{times}\n{lines}", self.packet)
    }

    /// For programs.
    pub fn json(&self) -> Value {
        let lines: Vec<Value> = self.lines.iter().map(RenderedLine::json).collect();
        json!({"packet": self.packet.to_string(), "count": self.count, "steps": lines})
    }
}

impl RenderedLine {
    fn print(&self) -> String {
        let Self { about, place, text, owner } = self;
        let place = place.as_ref().map(|place| format!("{}: ", rules::text(place))).unwrap_or_default();
        let owner = owner.as_ref().map(|owner| format!("   [{owner}]")).unwrap_or_default();
        format!("  {about:12} {place}{text}{owner}\n")
    }

    fn json(&self) -> Value {
        let Self { about, place, text, owner } = self;
        let place = place.as_ref().map(|place| {
            json!({
                "family": cni_kernel::nftables::trace::chains::family_name(place.family),
                "table": place.table,
                "chain": place.chain,
            })
        });
        json!({"kind": about, "place": place, "text": text, "owner": owner})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sight(hook: PathHook, edge: Edge, packet: TracedPacket) -> PathStep {
        PathStep::PacketAtHook(PacketAtHook { hook, edge, packet, input: Some(1), output: Some(2) })
    }

    fn dropped() -> PacketPath {
        let place = Place { family: 2, table: "filter".to_owned(), chain: "FORWARD".to_owned() };
        let before = TracedPacket::tcp("192.0.2.9", "192.0.2.1", [40000, 8080], 2);
        let after = TracedPacket::tcp("192.0.2.9", "10.0.0.2", [40000, 80], 2);
        PacketPath::of(vec![
            sight(PathHook::Prerouting, Edge::First, before),
            sight(PathHook::Prerouting, Edge::Last, after.clone()),
            sight(PathHook::Forward, Edge::First, after),
            PathStep::Policy { place, accepts: false },
        ])
    }

    #[test]
    fn a_way_is_shown_with_what_has_changed() {
        let names = HashMap::from([(1, "eth0".to_owned()), (2, "cni0".to_owned())]);
        let owners = Owners::default();
        let mut rules = RuleTexts::without_programs();
        let mut shower = Renderer { names: &names, owners: &owners, rules: &mut rules };
        let shown = shower.all(&[&dropped(), &dropped()]);
        let [one] = &shown[..] else { panic!("{shown:?}") };
        let want = "\
tcp 192.0.2.9:40000 -> 192.0.2.1:8080 (2 packets)
  in           it comes by eth0
  destination  192.0.2.1:8080 becomes 10.0.0.2:80
  route        to 10.0.0.2 by cni0
  policy       table ip filter, chain FORWARD: policy drop
";
        assert_eq!(one.text(), want);
        assert_eq!(one.json()["steps"][3]["place"]["table"], "filter");
        let drop = shower.drop(&dropped()).expect("it was dropped");
        assert!(drop.is_forwarding && drop.by == "the policy of table ip filter, chain FORWARD", "{drop:?}");
    }
}
