//! The kind of a difference: the step, and the thing that differs after it. Names of containers, addresses and values
//! do not matter.

use super::difference::Difference;
use super::history::{History, HistoryStep};
use super::replay::FAILS;

/// What two differences have in common if they may have the same cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DifferenceKind {
    /// The step without what it is about.
    deed: Option<String>,
    /// The most important subject that differs, and of several the first: later plugins may only follow an earlier
    /// one's output.
    thing: Option<DifferenceSubject>,
}

/// The subject of a line, the most important first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum DifferenceSubject {
    /// One life has ended, with words of its own.
    End,
    /// One side's plugin has failed.
    Failure { side: char, plugin: String },
    /// The output of a plugin.
    Printed { plugin: String },
    /// One section of what the kernel has, or the files.
    Left { section: String },
}

impl DifferenceKind {
    /// Returns that of a difference which a history has shown.
    pub fn of(history: &History, difference: &Difference) -> Self {
        let things = difference.changes.iter().map(|change| DifferenceSubject::of(change));
        Self { deed: history.steps.get(difference.step).map(deed), thing: things.min_by_key(DifferenceSubject::rank) }
    }
}

fn deed(step: &HistoryStep) -> String {
    let text = step.to_string();
    let about = step.subject().and_then(|name| text.strip_suffix(name));
    about.unwrap_or(&text).to_owned()
}

/// Sections that each namespace has, by their last words.
const OF_NAMESPACES: [&str; 6] = ["links", "addresses", "routes", "settings", "broadcast", "scope"];

/// The first words of sections that only the host has.
const OF_THE_HOST: [&str; 4] = ["iptables", "ip6tables", "nftables", "files"];

impl DifferenceSubject {
    /// Parses a line of a difference: `- ` or `+ `, and a line of one side.
    fn of(change: &str) -> Self {
        let (side, line) = (change.chars().next().unwrap_or_default(), change.get(2..).unwrap_or_default());
        let failed = line.strip_suffix(FAILS).filter(|plugin| !plugin.contains(' '));
        if let Some(plugin) = failed {
            return Self::Failure { side, plugin: plugin.to_owned() };
        }
        if let Some((plugin, text)) = line.split_once(" prints in ") {
            let plugin = plugin.to_owned();
            return if text.contains("\"code\":") { Self::Failure { side, plugin } } else { Self::Printed { plugin } };
        }
        let section = line.split_once(": ").map(|(section, _)| section).unwrap_or_default();
        match section.split_once(' ').unwrap_or((section, "")) {
            ("host", what) if OF_NAMESPACES.contains(&what) => Self::Left { section: section.to_owned() },
            (_, what) if OF_NAMESPACES.contains(&what) => Self::Left { section: format!("container {what}") },
            (first, _) if OF_THE_HOST.contains(&first) => Self::Left { section: section.to_owned() },
            _ => Self::End,
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::End => 0,
            Self::Failure { .. } => 1,
            Self::Printed { .. } => 2,
            Self::Left { .. } => 3,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::DifferenceKind;
    use crate::histories::{Difference, History};

    /// The kind of the difference that these lines make at the first step.
    fn kind(step: &str, changes: &[&str]) -> DifferenceKind {
        let history = serde_json::json!({"iptables": "nft", "networks": {}, "containers": {}, "steps": [step]});
        let history: History = serde_json::from_value(history).expect("a history");
        DifferenceKind::of(
            &history,
            &Difference { step: 0, changes: changes.iter().map(|&change| change.to_owned()).collect() },
        )
    }

    #[test]
    fn names_addresses_and_values_do_not_matter() {
        for (one, other) in [
            (["- portmap prints in 0.3.1: \"version\": \"\","], ["+ portmap prints in 1.0.0:  ]"]),
            (["- c0 routes: 0.0.0.0/0 via 10.1.2.1 dev eth0"], ["+ c3 routes: ::/0 via fd00::1 dev net1"]),
            (["+ iptables nat: -A CNI-a -j b"], ["- iptables nat: -N CNI-c"]),
            (["+ files: /run/cni/n0/10.1.2.3 100600 \"c0\""], ["+ files: /run/cni/n1 40755"]),
            (["+ portmap fails"], ["+ portmap fails"]),
            (["+ must print a result, not hello"], ["+ something else"]),
        ] {
            assert_eq!(kind("ADD c0", &one), kind("ADD c1", &other));
        }
    }

    #[test]
    fn other_things_are_of_another_kind() {
        let lines = [
            "- portmap prints in 0.3.1: ]",
            "- bridge prints in 0.3.1: ]",
            "- bridge prints in 0.3.1: \"code\": 7,",
            "- portmap fails",
            "+ portmap fails",
            "- c0 routes: a",
            "- c0 links: a",
            "- host routes: a",
            "- iptables nat: a",
            "- ip6tables nat: a",
            "- nftables inet cni: a",
            "- files: a",
            "- nonsense",
        ];
        for (at, one) in lines.iter().enumerate() {
            for other in &lines[at + 1..] {
                assert_ne!(kind("ADD c0", &[one]), kind("ADD c0", &[other]));
            }
        }
    }

    #[test]
    fn what_happened_matters() {
        let kinds = ["ADD c0", "DEL c0", "GC n0", "lose the namespace of c0", "run nft flush ruleset"];
        for (at, one) in kinds.iter().enumerate() {
            for other in &kinds[at + 1..] {
                assert_ne!(kind(one, &["+ files: a"]), kind(other, &["+ files: a"]));
            }
        }
    }

    #[test]
    fn the_weightiest_counts_and_then_the_first() {
        let printed = kind("ADD c0", &["- ptp prints in 0.3.1: ]"]);
        assert_eq!(kind("ADD c0", &["- ptp prints in 0.3.1: {", "- portmap prints in 0.3.1: {"]), printed);
        assert_eq!(kind("ADD c0", &["- c0 routes: a", "- ptp prints in 0.3.1: {"]), printed);
        let failed = kind("ADD c0", &["- ptp fails"]);
        assert_eq!(kind("ADD c0", &["+ ptp prints in 0.3.1: {", "- ptp fails", "+ files: a"]), failed);
    }
}
