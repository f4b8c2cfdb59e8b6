//! Rules as text, by the program `nft` if there is one that nobody but root can change, else by what the kernel says.

use std::collections::HashMap;
use std::path::PathBuf;
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

fn list(nft: &std::path::Path, place: &Place) -> HashMap<u64, String> {
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
}
