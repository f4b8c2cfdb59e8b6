//! The text of a rule: exactly what `iptables -S` prints, and what `iptables-restore` reads.
//!
//! `parse.rs` is the inverse. The quoting follows `xtables_save_string` (libxtables/xtables.c), the
//! order `save_ipv4_header` and `save_matches_and_target` (iptables/xshared.c).

use std::fmt;

use crate::Proto;

use super::rule::{IptablesRule, Match, Target};
use cni_core::cidr::Cidr;

impl fmt::Display for IptablesRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "-A {}", self.specification())
    }
}

impl IptablesRule {
    /// What follows `-A`, `-I`, `-D` or `-C`: the chain and the words of the rule.
    pub fn specification(&self) -> String {
        let Self { chain, matches, target } = self;
        let mut words = vec![chain.to_string()];
        for part in [source, destination, input, output] {
            words.extend(matches.iter().filter_map(part).flatten());
        }
        words.extend(matches.iter().find_map(protocol).into_iter().flat_map(|proto| option("-p", proto.as_str())));
        words.extend(matches.iter().filter_map(extension).flatten());
        words.extend(target_words(target));
        words.join(" ")
    }
}

type Words = Vec<String>;

fn option(name: &str, value: &str) -> Words {
    vec![name.to_owned(), value.to_owned()]
}

fn negated(name: &str, value: &str) -> Words {
    vec!["!".to_owned(), name.to_owned(), value.to_owned()]
}

/// A network of prefix 0 holds every address, which iptables says by saying nothing.
fn network(name: &str, cidr: Cidr) -> Option<Words> {
    (cidr.prefix() > 0).then(|| option(name, &cidr.network().to_string()))
}

fn source(part: &Match) -> Option<Words> {
    if let Match::Source(cidr) = part {
        network("-s", *cidr)
    } else if let Match::NotSource(cidr) = part {
        Some(negated("-s", &cidr.network().to_string()))
    } else {
        None
    }
}

fn destination(part: &Match) -> Option<Words> {
    if let Match::Destination(cidr) = part {
        network("-d", *cidr)
    } else if let Match::NotDestination(cidr) = part {
        Some(negated("-d", &cidr.network().to_string()))
    } else {
        None
    }
}

fn input(part: &Match) -> Option<Words> {
    if let Match::In(name) = part {
        Some(option("-i", &word(name.as_str())))
    } else if let Match::NotIn(name) = part {
        Some(negated("-i", &word(name.as_str())))
    } else {
        None
    }
}

fn output(part: &Match) -> Option<Words> {
    if let Match::Out(name) = part {
        Some(option("-o", &word(name.as_str())))
    } else if let Match::NotOut(name) = part {
        Some(negated("-o", &word(name.as_str())))
    } else {
        None
    }
}

fn protocol(part: &Match) -> Option<Proto> {
    if let Match::Port(proto, _) | Match::Ports(proto, _) = part { Some(*proto) } else { None }
}

fn extension(part: &Match) -> Option<Words> {
    let module = |module: &str, name: &str, value: &str| {
        Some(vec!["-m".to_owned(), module.to_owned(), name.to_owned(), value.to_owned()])
    };
    match part {
        Match::LocalDestination => module("addrtype", "--dst-type", "LOCAL"),
        Match::Port(proto, port) => module(proto.as_str(), "--dport", &port.to_string()),
        Match::Ports(_, set) => module("multiport", "--dports", &joined(set.ports())),
        Match::Mark(mark) if mark.mask == u32::MAX => module("mark", "--mark", &format!("{:#x}", mark.value)),
        Match::Mark(mark) => module("mark", "--mark", &mark.to_string()),
        Match::RelatedEstablished => module("conntrack", "--ctstate", "RELATED,ESTABLISHED"),
        Match::Comment(comment) => module("comment", "--comment", &quoted(comment.as_str())),
        Match::Raw(words) => Some(words.iter().map(|text| word(text)).collect()),
        Match::Source(_)
        | Match::NotSource(_)
        | Match::Destination(_)
        | Match::NotDestination(_)
        | Match::In(_)
        | Match::NotIn(_)
        | Match::Out(_)
        | Match::NotOut(_) => None,
    }
}

fn joined(ports: &[u16]) -> String {
    ports.iter().map(u16::to_string).collect::<Vec<_>>().join(",")
}

fn target_words(target: &Target) -> Words {
    let jump = |words: &[&str]| ["-j"].iter().chain(words).map(|&text| text.to_owned()).collect();
    match target {
        Target::Accept => jump(&["ACCEPT"]),
        Target::Drop => jump(&["DROP"]),
        Target::Return => jump(&["RETURN"]),
        Target::Masquerade => jump(&["MASQUERADE"]),
        Target::Dnat(to) => jump(&["DNAT", "--to-destination", &to.to_string()]),
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
