//! The chains and rules of the packet filter that plugins make for one attachment, as text.

use cni_model::plan::Step;
use cni_netfilter::iptables::{IptablesRule, IptablesRuleset};
use cni_netfilter::nftables::{ChainContent, NftRuleset};
use cni_netfilter::{MissingRule, Ruleset};
use cni_plugin::missing::MissingPart;

/// What is the attachment's alone, in the order in which it is made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnRules {
    pub chains: Vec<String>,
    /// Rules in chains that it shares, then those in its own.
    pub rules: Vec<String>,
}

impl OwnRules {
    /// What some plans make.
    pub fn of<'a>(parts: impl IntoIterator<Item = &'a MissingPart>) -> Self {
        let mut own = Self::default();
        for (_, step) in parts.into_iter().flat_map(|part| part.plan.steps()) {
            if let Step::EnsureRules { ruleset, .. } = step {
                match ruleset {
                    Ruleset::Iptables(ruleset) => own.add_iptables(ruleset),
                    Ruleset::Nftables(ruleset) => own.add_nftables(ruleset),
                }
            }
        }
        own
    }

    fn add_iptables(&mut self, ruleset: &IptablesRuleset) {
        let IptablesRuleset { family, table, chains, rules, .. } = ruleset;
        self.chains.extend(chains.iter().map(|chain| format!("{} -t {table} {}", family.iptables(), chain.name)));
        let all = rules.iter().chain(chains.iter().flat_map(|chain| &chain.rules));
        let text = |rule: &IptablesRule| {
            MissingRule::Iptables { family: *family, table: *table, rule: rule.clone() }.to_string()
        };
        self.rules.extend(all.map(text));
    }

    fn add_nftables(&mut self, ruleset: &NftRuleset) {
        for wanted in &ruleset.chains {
            if let ChainContent::Own(rules) = &wanted.content {
                self.chains.push(format!("nft {}", wanted.chain.id));
                self.rules.extend(rules.iter().map(|rule| MissingRule::Nftables(rule.clone()).to_string()));
            }
        }
        let shared = ruleset.owned.iter().flat_map(|owned| &owned.rules);
        self.rules.extend(shared.map(|rule| MissingRule::Nftables(rule.clone()).to_string()));
        let elements = ruleset.elements.iter().filter(|elements| !elements.addresses.is_empty());
        self.rules.extend(elements.map(|elements| MissingRule::Elements(elements.clone()).to_string()));
    }
}

#[cfg(test)]
mod tests {
    use cni_core::cidr::Cidr;
    use cni_interface::masquerade::rulesets;
    use cni_model::plan::Plan;
    use cni_netfilter::Backend;

    use super::*;

    #[test]
    fn rules_of_nf_tables_are_shown_and_what_all_share_is_not() {
        let at = cni_plugin::owner::parse(&mut "n1 c1 eth0".split(' ')).expect("an attachment");
        let address: Cidr = "10.1.2.5/24".parse().expect("an address");
        let (mut plan, rules) = (Plan::default(), rulesets(Backend::Nftables, &at, &[address]));
        rules.into_iter().for_each(|rules| plan.owned(Step::ensure_rules(rules)));
        let OwnRules { chains, rules } = OwnRules::of(&[MissingPart { missing: String::new(), plan }]);
        let [rule] = &rules[..] else { panic!("{rules:?}") };
        assert!(rule.starts_with("nft inet cni_plugins_masquerade masq_checks ip saddr 10.1.2.5 "), "{rule}");
        assert!(chains.is_empty(), "{chains:?}");
    }
}
