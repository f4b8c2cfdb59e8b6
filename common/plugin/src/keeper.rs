//! Who keeps the rules for an address: what is recorded beside whose they are, so that DEL and CHECK
//! find them wherever ADD put them.

use std::fmt;

use cni_netfilter::firewalld::Zone;

/// Who keeps the rules for an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keeper {
    /// The tables of iptables.
    Iptables,
    /// A table of nf_tables.
    Nftables,
    /// firewalld, in a zone.
    Firewalld(Zone),
}

impl Keeper {
    /// Reads what [`Keeper`] displays: one word.
    pub fn parse(word: &str) -> Option<Self> {
        match word.split_once(':') {
            None if word == "iptables" => Some(Self::Iptables),
            None if word == "nftables" => Some(Self::Nftables),
            Some(("firewalld", zone)) => Zone::parse(zone).ok().map(Self::Firewalld),
            None | Some(_) => None,
        }
    }
}

impl fmt::Display for Keeper {
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
    fn a_keeper_is_one_word_that_is_read_back() {
        for keeper in [Keeper::Iptables, Keeper::Nftables, Keeper::Firewalld(Zone::fixed("trusted"))] {
            let word = keeper.to_string();
            assert_eq!((Keeper::parse(&word), word.contains(' ')), (Some(keeper), false));
        }
        for word in ["", "iptables:", "nftables:", "firewalld", "firewalld:", "firewalld:a:b", "other"] {
            assert_eq!(Keeper::parse(word), None, "{word}");
        }
    }
}
