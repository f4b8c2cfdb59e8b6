//! The canonical form of a rule, as in a listing, so that equal rules are equal values.

use super::rule::{IptablesRule, Match, Target};
use crate::nftables::{Direction, Equality, PacketEnd};

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
