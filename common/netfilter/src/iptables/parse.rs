//! Parses a rule from the text that `iptables -S` prints.
//!
//! Any rule of any host can be parsed: what has no type here is kept as words. The words are split as
//! `add_param_to_argv` (iptables/xshared.c) does. A value gets a type only if its text is the one that `render.rs`
//! would write, so reading and writing a rule loses nothing.

use std::net::{IpAddr, SocketAddr};

use crate::flows::Proto;
use crate::nftables::{Direction, Equality, PacketEnd};

use super::rule::{IptablesRule, Mark, Match, PortRange, PortSet, Target, UidRange};
use cni_core::cidr::Cidr;
use cni_core::names::{ChainName, Comment, IfName};

impl IptablesRule {
    /// Reads a line; `None` when it is not `-A` and the name of a chain.
    pub fn parse(line: &str) -> Option<Self> {
        let words = split(line);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let ["-A", chain, rest @ ..] = words.as_slice() else {
            return None;
        };
        let chain = ChainName::parse(chain).ok()?;
        let (matches, target) = Parser::default().run(rest);
        Some(Self { chain, matches, target })
    }
}

#[derive(Default)]
struct Parser {
    matches: Vec<Match>,
    /// The protocol, and the place of its words, unless a match on ports implies them.
    protocol: Option<(Proto, usize)>,
}

impl Parser {
    fn run(mut self, mut words: &[&str]) -> (Vec<Match>, Target) {
        while !words.is_empty() && !matches!(words, ["-j" | "-g", ..]) {
            words = self.step(words);
        }
        self.restore_protocol();
        (self.matches, target(words))
    }

    fn step<'a, 'b>(&mut self, words: &'a [&'b str]) -> &'a [&'b str] {
        if let ["-p", name, rest @ ..] = words
            && self.protocol.is_none()
            && let Some(proto) = exact_proto(name)
        {
            self.protocol = Some((proto, self.matches.len()));
            return rest;
        }
        let (part, length) = header(words).or_else(|| self.extension(words)).unwrap_or_else(|| raw(words));
        self.matches.push(part);
        &words[length..]
    }

    fn extension(&self, words: &[&str]) -> Option<(Match, usize)> {
        let ["-m", module, name, value, rest @ ..] = words else {
            return None;
        };
        let proto = self.protocol.map(|(proto, _)| proto);
        let part = match (*module, *name) {
            ("comment", "--comment") => return comment(value).map(|part| (part, 4)),
            ("addrtype", "--dst-type") if *value == "LOCAL" => Match::LocalDestination,
            ("conntrack", "--ctstate") if *value == "RELATED,ESTABLISHED" => Match::RelatedEstablished,
            ("mark", "--mark") => Match::Mark(mark(value)?),
            ("owner", "--uid-owner") => Match::User(users(value)?),
            ("multiport", "--dports") => Match::Ports(proto?, ports(value)?),
            (module, "--dport") if exact_proto(module) == proto => port_or_range(proto?, value)?,
            _ => return None,
        };
        (!goes_on(rest)).then_some((part, 4))
    }

    /// A protocol without a match on its ports stays where it was read.
    fn restore_protocol(&mut self) {
        let implied = self.matches.iter().any(|part| part.protocol().is_some());
        if let Some((proto, at)) = self.protocol
            && !implied
        {
            self.matches.insert(at, Match::Protocol(proto));
        }
    }
}

fn header(words: &[&str]) -> Option<(Match, usize)> {
    let (is, option, text, length) = match words {
        ["!", option, text, ..] => (Equality::Other, *option, *text, 3),
        [option, text, ..] => (Equality::Equal, *option, *text, 2),
        _ => return None,
    };
    let address = |end| {
        let cidr = network(text).filter(|cidr| is == Equality::Other || cidr.prefix() > 0)?;
        Some(Match::Address(end, is, cidr))
    };
    let interface = |direction| Some(Match::Interface(direction, is, IfName::parse(text).ok()?));
    let part = match option {
        "-s" => address(PacketEnd::Source),
        "-d" => address(PacketEnd::Destination),
        "-i" => interface(Direction::In),
        "-o" => interface(Direction::Out),
        _ => None,
    };
    Some((part?, length))
}

/// Words without a type: up to the next option of the rule itself, or the next match extension.
fn raw(words: &[&str]) -> (Match, usize) {
    let first = if words.first() == Some(&"!") { 2 } else { 1 };
    let length = (first..words.len()).find(|at| starts_part(&words[*at..])).unwrap_or(words.len());
    (Match::Raw(owned(&words[..length])), length)
}

fn starts_part(words: &[&str]) -> bool {
    matches!(words, ["-m" | "-j" | "-g" | "-s" | "-d" | "-i" | "-o" | "-p", ..])
        || matches!(words, ["!", "-s" | "-d" | "-i" | "-o" | "-p", ..])
}

/// Whether another option of the extension follows.
fn goes_on(rest: &[&str]) -> bool {
    matches!(rest, ["!", word, ..] | [word, ..] if word.starts_with("--"))
}

fn target(words: &[&str]) -> Target {
    let typed = match words {
        ["-j", "ACCEPT"] => Some(Target::Accept),
        ["-j", "DROP"] => Some(Target::Drop),
        ["-j", "RETURN"] => Some(Target::Return),
        ["-j", "MASQUERADE"] => Some(Target::Masquerade),
        ["-j", "DNAT", "--to-destination", to] => dnat(to),
        ["-j", "REDIRECT", "--to-ports", to] => port(to).map(Target::Redirect),
        ["-j", "MARK", "--set-xmark", text] => full_mark(text).map(Target::SetMark),
        ["-j", chain] => ChainName::parse(chain).ok().map(Target::Jump),
        _ => None,
    };
    typed.unwrap_or_else(|| Target::Raw(owned(words)))
}

fn dnat(to: &str) -> Option<Target> {
    let address = || exact::<IpAddr>(to).map(Target::DnatAddress);
    exact::<SocketAddr>(to).map(Target::Dnat).or_else(address)
}

fn exact<T: std::str::FromStr + ToString>(text: &str) -> Option<T> {
    text.parse().ok().filter(|value: &T| value.to_string() == text)
}

fn network(text: &str) -> Option<Cidr> {
    exact(text).filter(|cidr: &Cidr| cidr.is_network())
}

fn port(text: &str) -> Option<u16> {
    exact(text)
}

fn port_or_range(proto: Proto, text: &str) -> Option<Match> {
    let Some((first, last)) = text.split_once(':') else { return port(text).map(|port| Match::Port(proto, port)) };
    PortRange::new(port(first)?, port(last)?).map(|ports| Match::PortRange(proto, ports))
}

/// One number is not written as a range.
fn users(text: &str) -> Option<UidRange> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    UidRange::new(exact(first)?, exact(last)?).filter(|users| users.to_string() == text)
}

fn ports(text: &str) -> Option<PortSet> {
    text.split(',').map(port).collect::<Option<Vec<_>>>().and_then(PortSet::new)
}

fn exact_proto(name: &str) -> Option<Proto> {
    Proto::parse(name).filter(|proto| proto.as_str() == name)
}

fn comment(text: &str) -> Option<Match> {
    let comment = Comment::new(text);
    (comment.as_str() == text).then_some(Match::Comment(comment))
}

fn mark(text: &str) -> Option<Mark> {
    if text.contains('/') {
        full_mark(text).filter(|mark| mark.mask != u32::MAX)
    } else {
        Some(Mark { value: hexadecimal(text)?, mask: u32::MAX })
    }
}

fn full_mark(text: &str) -> Option<Mark> {
    let (value, mask) = text.split_once('/')?;
    Some(Mark { value: hexadecimal(value)?, mask: hexadecimal(mask)? })
}

fn hexadecimal(text: &str) -> Option<u32> {
    let value = u32::from_str_radix(text.strip_prefix("0x")?, 16).ok()?;
    (format!("{value:#x}") == text).then_some(value)
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

/// Splits a line into words. A closing quote ends a word; a backslash protects what follows in quotes only.
fn split(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => {
                read_quoted(&mut letters, &mut word);
                words.push(std::mem::take(&mut word));
            }
            ' ' | '\t' | '\n' if word.is_empty() => {}
            ' ' | '\t' | '\n' => words.push(std::mem::take(&mut word)),
            letter => word.push(letter),
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

fn read_quoted(letters: &mut std::str::Chars<'_>, word: &mut String) {
    while let Some(letter) = letters.next() {
        match letter {
            '"' => return,
            '\\' => word.extend(letters.next()),
            letter => word.push(letter),
        }
    }
}
