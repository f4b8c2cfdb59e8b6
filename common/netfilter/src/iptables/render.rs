//! The text of a rule: exactly what `iptables -S` prints, and what `iptables-restore` reads.
//!
//! `parse.rs` is the inverse. The quoting follows `xtables_save_string` (libxtables/xtables.c), the
//! order `save_ipv4_header` and `save_matches_and_target` (iptables/xshared.c).

use std::fmt;

use super::canonical::{EXTENSION, place};
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

#[cfg(test)]
mod tests;
