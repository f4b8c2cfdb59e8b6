//! Rules of iptables of a kind that is not known here: whether one may be a wanted rule all the same.
//!
//! The message of a rule contains its addresses, and the names of the chains that it jumps to. A rule whose message lacks those of a
//! wanted rule is another rule. So the programs are needed only if a rule of the administrator may be a wanted one.

use cni_netfilter::iptables::{IptablesRule, Match, Target};
use cni_netfilter::nftables::Equality;

use super::compile::octets;

/// Bytes of which each message of a wanted rule contains some; `None` if no bytes are known of one of the rules.
#[derive(Debug)]
pub struct WantedBytes(Option<Vec<Vec<u8>>>);

impl WantedBytes {
    /// For some rules.
    pub fn of(rules: &[&IptablesRule]) -> Self {
        Self(rules.iter().map(|rule| bytes_of(&rule.canonical())).collect())
    }

    /// Whether a message may be of a wanted rule.
    pub fn may_be_in(&self, payload: &[u8]) -> bool {
        self.0.as_ref().is_none_or(|all| all.iter().any(|bytes| contains(payload, bytes)))
    }
}

/// The address in a rule, or else the chain that it jumps to: few other rules contain them. `None` for a rule with neither.
fn bytes_of(rule: &IptablesRule) -> Option<Vec<u8>> {
    if rule.has_words() {
        return None;
    }
    let address = rule.matches.iter().find_map(|part| {
        if let Match::Address(_, Equality::Equal, cidr) = part {
            Some(*cidr).filter(|cidr| cidr.prefix() == cidr.family().bits())
        } else {
            None
        }
    });
    if let Some(address) = address {
        Some(octets(address.address()))
    } else if let Target::Jump(chain) = &rule.target {
        Some(chain.as_str().into())
    } else {
        None
    }
}

fn contains(payload: &[u8], part: &[u8]) -> bool {
    part.is_empty() || payload.windows(part.len()).any(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nftables::xt;

    #[test]
    fn a_rule_without_the_address_or_the_chain_of_a_wanted_one_is_another() {
        let rules = [
            "-A C -s 10.1.2.3/32 -j ACCEPT",
            "-A C -s 10.1.2.4/32 -j ACCEPT",
            "-A C -d 10.1.2.3/32 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT",
            "-A C -j CNI-ADMIN",
        ]
        .map(|rule| IptablesRule::parse(rule).expect("a rule"));
        let [first, _, third, fourth] = &rules;
        let written = |rule: &IptablesRule| xt::bytes::written(cni_core::family::Family::V4, 7, rule).expect("written");
        let passed = |wanted: &[&IptablesRule]| {
            let bytes = WantedBytes::of(wanted);
            rules.each_ref().map(|rule| bytes.may_be_in(&written(rule)))
        };
        assert_eq!(passed(&[first]), [true, false, true, false]);
        assert_eq!(passed(&[third, fourth]), [true, false, true, true]);
        let any = IptablesRule::parse("-A C -j RETURN").expect("a rule");
        assert_eq!(passed(&[first, &any]), [true; 4]);
    }
}
