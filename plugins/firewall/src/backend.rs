//! The back end that holds the rules for an address. It is recorded with the claim, so that DEL and CHECK find the
//! rules wherever ADD put them.

use std::fmt;

use cni_netfilter::firewalld::Zone;

/// The back end that holds the rules for an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleBackend {
    /// The tables of iptables.
    Iptables,
    /// A table of nf_tables.
    Nftables,
    /// firewalld, in a zone.
    Firewalld(Zone),
}

impl RuleBackend {
    /// Reads what [`RuleBackend`] displays: one word.
    pub fn parse(word: &str) -> Option<Self> {
        match word.split_once(':') {
            None if word == "iptables" => Some(Self::Iptables),
            None if word == "nftables" => Some(Self::Nftables),
            Some(("firewalld", zone)) => Zone::parse(zone).ok().map(Self::Firewalld),
            None | Some(_) => None,
        }
    }
}

impl fmt::Display for RuleBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Iptables => f.write_str("iptables"),
            Self::Nftables => f.write_str("nftables"),
            Self::Firewalld(zone) => write!(f, "firewalld:{zone}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_back_end_is_one_word_that_is_read_back() {
        for backend in [RuleBackend::Iptables, RuleBackend::Nftables, RuleBackend::Firewalld(Zone::fixed("trusted"))] {
            let word = backend.to_string();
            assert_eq!((RuleBackend::parse(&word), word.contains(' ')), (Some(backend), false));
        }
        for word in ["", "iptables:", "nftables:", "firewalld", "firewalld:", "firewalld:a:b", "other"] {
            assert_eq!(RuleBackend::parse(word), None, "{word}");
        }
    }
}
