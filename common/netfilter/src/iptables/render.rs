//! The text of a rule: exactly what `iptables -S` prints, and what `iptables-restore` reads; and its canonical form, as in a listing, so
//! that equal rules are equal values.
//!
//! `parse.rs` is the inverse. The quoting follows `xtables_save_string` (libxtables/xtables.c), the
//! order `save_ipv4_header` and `save_matches_and_target` (iptables/xshared.c).

use std::fmt;

use super::rule::{IptablesRule, Match, Target};
use crate::nftables::{Direction, Equality, PacketEnd};

impl fmt::Display for IptablesRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "-A {}", self.specification())
    }
}

impl IptablesRule {
    /// The text after `-A`, `-I`, `-D` or `-C`: the chain and the words of the rule.
    pub fn specification(&self) -> String {
        let Self { chain, matches, target } = self;
        let mut words = vec![chain.to_string()];
        let mut parts: Vec<&Match> = matches.iter().collect();
        parts.sort_by_key(|part| place(part));
        let extensions = parts.split_off(parts.partition_point(|part| place(part) < EXTENSION));
        words.extend(parts.into_iter().flat_map(part_words));
        words.extend(self.protocol().into_iter().flat_map(|proto| option(Equality::Equal, "-p", proto.as_str())));
        words.extend(extensions.into_iter().flat_map(part_words));
        words.extend(target_words(target));
        words.join(" ")
    }
}

type RuleWords = Vec<String>;

/// An option of the rule itself, which may be negated.
fn option(is: Equality, name: &str, value: &str) -> RuleWords {
    let mark = (is == Equality::Other).then_some("!");
    mark.into_iter().chain([name, value]).map(str::to_owned).collect()
}

fn part_words(part: &Match) -> RuleWords {
    let module = |module: &str, name: &str, value: &str| ["-m", module, name, value].map(str::to_owned).to_vec();
    match part {
        // A network of prefix 0 holds every address, which iptables says by saying nothing.
        Match::Address(_, Equality::Equal, cidr) if cidr.prefix() == 0 => RuleWords::new(),
        Match::Address(end, is, cidr) => {
            let name = if *end == PacketEnd::Source { "-s" } else { "-d" };
            option(*is, name, &cidr.network().to_string())
        }
        Match::Interface(direction, is, name) => {
            option(*is, if *direction == Direction::In { "-i" } else { "-o" }, &word(name.as_str()))
        }
        // Said once for the whole rule.
        Match::Protocol(_) => RuleWords::new(),
        Match::LocalDestination => module("addrtype", "--dst-type", "LOCAL"),
        Match::Port(proto, port) => module(proto.as_str(), "--dport", &port.to_string()),
        Match::PortRange(proto, ports) => module(proto.as_str(), "--dport", &ports.to_string()),
        Match::Ports(_, set) => module("multiport", "--dports", &joined(set.ports())),
        Match::Mark(mark) if mark.mask == u32::MAX => module("mark", "--mark", &format!("{:#x}", mark.value)),
        Match::Mark(mark) => module("mark", "--mark", &mark.to_string()),
        Match::User(users) => module("owner", "--uid-owner", &users.to_string()),
        Match::RelatedEstablished => module("conntrack", "--ctstate", "RELATED,ESTABLISHED"),
        Match::Comment(comment) => module("comment", "--comment", &quoted(comment.as_str())),
        Match::Raw(words) => words.iter().map(|text| word(text)).collect(),
    }
}

fn joined(ports: &[u16]) -> String {
    ports.iter().map(u16::to_string).collect::<Vec<_>>().join(",")
}

fn target_words(target: &Target) -> RuleWords {
    let jump = |words: &[&str]| ["-j"].iter().chain(words).map(|&text| text.to_owned()).collect();
    match target {
        Target::Accept => jump(&["ACCEPT"]),
        Target::Drop => jump(&["DROP"]),
        Target::Return => jump(&["RETURN"]),
        Target::Masquerade => jump(&["MASQUERADE"]),
        Target::Dnat(to) => jump(&["DNAT", "--to-destination", &to.to_string()]),
        Target::DnatAddress(to) => jump(&["DNAT", "--to-destination", &to.to_string()]),
        Target::Redirect(port) => jump(&["REDIRECT", "--to-ports", &port.to_string()]),
        Target::SetMark(mark) => jump(&["MARK", "--set-xmark", &mark.to_string()]),
        Target::Jump(chain) => jump(&[chain.as_str()]),
        Target::Raw(words) => words.iter().map(|text| word(text)).collect(),
    }
}

/// A string argument as iptables prints it: bare when nothing in it could be misread, else in quotes.
fn quoted(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if !text.is_empty() && text.bytes().all(plain) { text.to_owned() } else { in_quotes(text) }
}

/// Any other argument: in quotes only where the words would fall apart.
fn word(text: &str) -> String {
    if text.is_empty() || text.contains([' ', '\t', '"']) { in_quotes(text) } else { text.to_owned() }
}

fn in_quotes(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        if matches!(letter, '"' | '\\' | '\'') {
            quoted.push('\\');
        }
        quoted.push(letter);
    }
    quoted.push('"');
    quoted
}

impl IptablesRule {
    /// The rule as it comes back from the kernel: addresses, interfaces and the protocol first, host bits cleared,
    /// and a user's words typed where possible.
    #[must_use]
    pub fn canonical(&self) -> Self {
        if self.has_words() { self.reread() } else { self.sorted() }
    }

    /// Whether the rule is known only as text, which iptables may print in another spelling.
    pub fn has_words(&self) -> bool {
        let words = |part: &Match| matches!(part, Match::Raw(_));
        matches!(self.target, Target::Raw(_)) || self.matches.iter().any(words) || self.repeats_protocol()
    }

    /// Whether two matches require different protocols, or one of them adds nothing to the other.
    fn repeats_protocol(&self) -> bool {
        let mut asking = self.matches.iter().filter(|part| part.protocol().is_some());
        let Some(first) = asking.next() else { return false };
        let is_alone = |part: &Match| matches!(part, Match::Protocol(_));
        asking.any(|other| is_alone(first) || is_alone(other) || other.protocol() != first.protocol())
    }

    fn sorted(&self) -> Self {
        let mut matches: Vec<Match> = self.matches.iter().filter(|part| !is_everything(part)).map(plain).collect();
        matches.sort_by_key(place);
        Self { chain: self.chain.clone(), matches, target: plain_target(&self.target) }
    }

    /// Parses the rule's own text again, until it no longer changes: when a match moves to the front, its new
    /// neighbours may be parsed differently. A match that has moved to the front stays there, so this ends.
    pub(super) fn reread(&self) -> Self {
        let mut rule = self.clone();
        loop {
            match Self::parse(&rule.to_string()) {
                Some(read) if read != rule => rule = read,
                Some(_) | None => return rule,
            }
        }
    }
}

/// A network of prefix 0 holds every address, which iptables says by saying nothing.
fn is_everything(part: &Match) -> bool {
    matches!(part, Match::Address(_, Equality::Equal, cidr) if cidr.prefix() == 0)
}

fn plain(part: &Match) -> Match {
    let mut plain = part.clone();
    if let Match::Address(_, _, cidr) = &mut plain {
        *cidr = cidr.network();
    }
    plain
}

/// The place of matches that are extensions, behind all others.
pub(super) const EXTENSION: u8 = 5;

/// The position of a match in a listing; matches with the same position keep their order.
pub(super) const fn place(part: &Match) -> u8 {
    match part {
        Match::Address(PacketEnd::Source, ..) => 0,
        Match::Address(PacketEnd::Destination, ..) => 1,
        Match::Interface(Direction::In, ..) => 2,
        Match::Interface(Direction::Out, ..) => 3,
        Match::Protocol(_) => 4,
        Match::LocalDestination
        | Match::Port(..)
        | Match::PortRange(..)
        | Match::Ports(..)
        | Match::Mark(_)
        | Match::User(_)
        | Match::RelatedEstablished
        | Match::Comment(_)
        | Match::Raw(_) => EXTENSION,
    }
}

/// A chain cannot have the name of a verdict.
fn plain_target(target: &Target) -> Target {
    let Target::Jump(chain) = target else { return target.clone() };
    match chain.as_str() {
        "ACCEPT" => Target::Accept,
        "DROP" => Target::Drop,
        "RETURN" => Target::Return,
        "MASQUERADE" => Target::Masquerade,
        _ => target.clone(),
    }
}

#[cfg(test)]
mod tests;
