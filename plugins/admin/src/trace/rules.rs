//! Rules as text, by the program `nft` if there is one that nobody but root can change, else by what the kernel says; and rules of
//! iptables-legacy whose counters have moved.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cni_kernel::netlink::Socket;
use cni_kernel::nftables::trace::chains::{self, family_name};
use cni_linux::process;

use super::packet_path::Place;
use crate::programs;

/// How long `nft` may take to list a chain.
const PATIENCE: Duration = Duration::from_secs(10);

/// A rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TracedRule {
    /// As `nft` writes it, or its comment.
    pub text: String,
    /// Whether the sender is notified (`reject`).
    pub rejects: bool,
}

/// The rules of the chains that packets have met.
pub struct RuleTexts {
    nft: Option<PathBuf>,
    socket: Option<Socket>,
    listed: HashMap<Place, HashMap<u64, String>>,
}

impl RuleTexts {
    /// Reads nothing yet. Without a socket only `nft` is asked.
    pub fn new(socket: Option<Socket>) -> Self {
        Self { nft: programs::trusted("nft"), socket, listed: HashMap::new() }
    }

    /// Knows the numbers of rules, and nothing else.
    #[cfg(test)]
    pub fn without_programs() -> Self {
        Self { nft: None, socket: None, listed: HashMap::new() }
    }

    /// The rule of a chain that has a number.
    pub fn of(&mut self, place: &Place, handle: u64) -> TracedRule {
        let nft = self.nft.clone();
        let listed =
            self.listed.entry(place.clone()).or_insert_with(|| nft.map(|nft| list(&nft, place)).unwrap_or_default());
        if let Some(text) = listed.get(&handle) {
            return TracedRule { rejects: rejects(text), text: text.clone() };
        }
        self.reported(place, handle)
    }

    /// What the kernel says of it.
    fn reported(&mut self, place: &Place, handle: u64) -> TracedRule {
        let nothing = || TracedRule { text: format!("rule {handle}"), rejects: false };
        let Some(socket) = &mut self.socket else { return nothing() };
        match chains::rule(socket, place.family, [&place.table, &place.chain], handle) {
            Ok(Some(rule)) => {
                let comment = rule.comment.map(|comment| format!(", comment {comment:?}")).unwrap_or_default();
                let rejects = rule.expressions.iter().any(|name| name == "reject");
                TracedRule { text: format!("rule {handle}{comment}"), rejects }
            }
            Ok(None) => nothing(),
            Err(cause) => {
                log::warn!("failed to read rule {handle} of {}: {cause}", text(place));
                nothing()
            }
        }
    }
}

/// A chain for a sentence.
pub fn text(place: &Place) -> String {
    format!("table {} {}, chain {}", family_name(place.family), place.table, place.chain)
}

fn list(nft: &Path, place: &Place) -> HashMap<u64, String> {
    let words = ["--handle", "list", "chain", family_name(place.family), &place.table, &place.chain];
    match process::run(nft, &words, b"", &[], PATIENCE) {
        Ok(output) if output.status.success() => parse(&String::from_utf8_lossy(&output.stdout)),
        Ok(output) => {
            log::info!("nft does not list {}: {}", text(place), String::from_utf8_lossy(&output.stderr).trim());
            HashMap::new()
        }
        Err(error) => {
            log::warn!("{error}");
            HashMap::new()
        }
    }
}

/// The rules in what `nft --handle` prints, each with its number. Counters are left out: they say nothing of this packet.
fn parse(listing: &str) -> HashMap<u64, String> {
    let rule = |line: &str| {
        let (text, handle) = line.trim().rsplit_once(" # handle ")?;
        let is_rule = !text.ends_with('{');
        is_rule.then_some((handle.parse().ok()?, without_counter(text)))
    };
    listing.lines().filter_map(rule).collect()
}

/// `counter packets 5 bytes 300` is left out.
fn without_counter(text: &str) -> String {
    let words: Vec<&str> = text.split(' ').collect();
    let mut kept: Vec<&str> = Vec::new();
    let mut rest = &words[..];
    while let [word, following @ ..] = rest {
        rest = match following {
            ["packets", packets, "bytes", bytes, after @ ..]
                if *word == "counter" && is_number(packets) && is_number(bytes) =>
            {
                after
            }
            // `nft` leaves a blank for a match that it does not show.
            _ => {
                kept.extend(Some(*word).filter(|word| !word.is_empty()));
                following
            }
        };
    }
    kept.join(" ")
}

fn is_number(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_digit())
}

fn rejects(text: &str) -> bool {
    text.split(' ').any(|word| word == "reject" || word == "REJECT")
}

/// How long a program may take to list all rules.
const LEGACY_PATIENCE: Duration = Duration::from_secs(20);

/// What the legacy programs list, and whether their tables are in use.
const FAMILIES: [(&str, &str); 2] =
    [("iptables-legacy-save", "/proc/net/ip_tables_names"), ("ip6tables-legacy-save", "/proc/net/ip6_tables_names")];

/// The rules of iptables-legacy with their counters. They are not in nf_tables, so no trace sees them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LegacyCounters {
    /// How often each rule, and each policy, has met a packet.
    counted: BTreeMap<String, u64>,
    /// Whether there are tables.
    pub in_use: bool,
}

impl LegacyCounters {
    /// Reads them.
    pub fn read() -> Self {
        let mut all = Self::default();
        for (program, names) in FAMILIES {
            if fs::read_to_string(names).is_ok_and(|names| !names.trim().is_empty()) {
                all.in_use = true;
                all.counted.extend(listed(program));
            }
        }
        all
    }

    /// The rules that have met packets since an earlier moment, with how many.
    pub fn since(&self, earlier: &Self) -> Vec<(String, u64)> {
        let moved = |(rule, count): (&String, &u64)| {
            let before = earlier.counted.get(rule).copied().unwrap_or_default();
            (*count > before).then(|| (rule.clone(), count - before))
        };
        self.counted.iter().filter_map(moved).collect()
    }
}

fn listed(program: &str) -> BTreeMap<String, u64> {
    let Some(path) = programs::trusted(program) else { return BTreeMap::new() };
    match process::run(&path, &["-c"], b"", &[], LEGACY_PATIENCE) {
        Ok(output) => parse_counters(program.trim_end_matches("-save"), &String::from_utf8_lossy(&output.stdout)),
        Err(error) => {
            log::warn!("{error}");
            BTreeMap::new()
        }
    }
}

/// Reads `[12:720] -A FORWARD …` and `:FORWARD DROP [3:180]`. Equal rules of a chain are counted together.
fn parse_counters(program: &str, listing: &str) -> BTreeMap<String, u64> {
    let (mut table, mut found) = ("", BTreeMap::new());
    for line in listing.lines() {
        if let Some(name) = line.strip_prefix('*') {
            table = name;
            continue;
        }
        let (rule, counters) = match (line.strip_prefix(':'), line.strip_prefix('[')) {
            (Some(policy), _) => match policy.rsplit_once(" [") {
                Some((policy, counters)) if !policy.ends_with(" -") => (format!("-P {policy}"), counters),
                Some(_) | None => continue,
            },
            (None, Some(rule)) => match rule.split_once("] ") {
                Some((counters, rule)) => (rule.to_owned(), counters),
                None => continue,
            },
            (None, None) => continue,
        };
        let Some(packets) = counters.split(':').next().and_then(|text| text.parse::<u64>().ok()) else { continue };
        *found.entry(format!("{program} -t {table} {rule}")).or_default() += packets;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_found_by_their_handles() {
        let listing = "\
table ip filter { # handle 1
\tchain FORWARD { # handle 2
\t\ttype filter hook forward priority filter; policy drop;
\t\tip daddr 10.0.0.2 counter packets 5 bytes 300 accept # handle 7
\t\tcounter packets 0 bytes 0 jump DOCKER-USER # handle 12
\t\treject with icmpx admin-prohibited # handle 13
\t}
}
";
        let rules = parse(listing);
        assert_eq!(rules.len(), 3, "{rules:?}");
        assert_eq!(rules[&7], "ip daddr 10.0.0.2 accept");
        assert_eq!(rules[&12], "jump DOCKER-USER");
        assert!(rejects(&rules[&13]) && !rejects(&rules[&7]));
    }

    #[test]
    fn a_comment_about_a_counter_stays() {
        assert_eq!(without_counter("comment \"counter packets\" drop"), "comment \"counter packets\" drop");
        assert_eq!(without_counter("counter"), "counter");
    }

    const BEFORE: &str = "\
# Generated by iptables-save
*filter
:INPUT ACCEPT [10:600]
:FORWARD DROP [0:0]
:CNI-FORWARD - [0:0]
[4:240] -A FORWARD -j CNI-FORWARD
COMMIT
";

    #[test]
    fn rules_whose_counters_have_moved_are_shown() {
        let counters =
            |listing: &str| LegacyCounters { counted: parse_counters("iptables-legacy", listing), in_use: true };
        let after = BEFORE.replace("DROP [0:0]", "DROP [2:120]").replace("[4:240]", "[6:360]");
        let moved = counters(&after).since(&counters(BEFORE));
        let want = [
            ("iptables-legacy -t filter -A FORWARD -j CNI-FORWARD".to_owned(), 2),
            ("iptables-legacy -t filter -P FORWARD DROP".to_owned(), 2),
        ];
        assert_eq!(moved, want);
        assert_eq!(counters(BEFORE).since(&counters(BEFORE)), []);
        assert_eq!(parse_counters("x", ":A B\n[x] y\n[a:b] -A C\nnothing"), BTreeMap::new());
    }
}
