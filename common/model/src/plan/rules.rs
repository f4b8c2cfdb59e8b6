//! Combines the iptables rules of several plans into as few changes as possible, and their deletions of connections.
//!
//! The kernel checks the whole table at every change. If the rules of many containers were added one container after
//! the other, the time would grow with the square of their number. And it looks at every bucket of its table of
//! connections for each list of them.

use super::{Ns, Plan, Step};
use cni_netfilter::flows::StaleFlows;
use cni_netfilter::iptables::IptablesRuleset;
use cni_netfilter::{Backend, RuleRemoval, Ruleset};

impl Plan {
    /// A plan that makes these rules of some plans, in their order, and no more of them.
    pub fn join_rules<'a>(plans: impl Iterator<Item = &'a Self>) -> Self {
        let mut joined: Vec<IptablesRuleset> = Vec::new();
        for ruleset in plans.flat_map(Self::steps).filter_map(|(_, step)| host_rules(step)) {
            let is_of_table = |one: &&mut IptablesRuleset| (one.family, one.table) == (ruleset.family, ruleset.table);
            let same_table = joined.iter_mut().rev().find(is_of_table);
            if !same_table.is_some_and(|one| one.join(ruleset)) {
                joined.push(ruleset.clone());
            }
        }
        let mut plan = Self::default();
        let rulesets = joined.into_iter().map(|one| Ruleset::from(one.without_copies()));
        rulesets.for_each(|ruleset| plan.owned(Step::EnsureRules { ns: Ns::Host, ruleset }));
        plan
    }

    /// The steps that remove the rules of iptables on the host that some steps remove, and do no more.
    pub fn join_removals(steps: impl IntoIterator<Item = Step>) -> Vec<Step> {
        let mut joined: Vec<RuleRemoval> = Vec::new();
        for step in steps {
            let Step::RemoveRules { ns: Ns::Host, removal } = step else { continue };
            if removal.backend() == Backend::Iptables && !joined.iter_mut().any(|one| one.join(&removal)) {
                joined.push(removal);
            }
        }
        joined.into_iter().map(Step::remove_rules).collect()
    }

    /// The plan without these rules.
    #[must_use]
    pub fn without_rules(&self) -> Self {
        Self { steps: self.steps.iter().filter(|(_, step)| host_rules(step).is_none()).cloned().collect() }
    }

    /// Takes the connections out of the plan that it lets the kernel forget.
    pub fn take_flows(&mut self) -> Vec<StaleFlows> {
        let mut flows = Vec::new();
        self.steps.retain(|(_, step)| {
            if let Step::ForgetFlows(stale) = step {
                flows.push(stale.clone());
            }
            !matches!(step, Step::ForgetFlows(_))
        });
        flows
    }
}

/// The rules of iptables that a step makes on the host. A change of nf_tables' own tables costs what it changes.
const fn host_rules(step: &Step) -> Option<&IptablesRuleset> {
    let Step::EnsureRules { ns: Ns::Host, ruleset: Ruleset::Iptables(rules) } = step else { return None };
    Some(rules)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cni_core::family::Family;
    use cni_core::names::ChainName;
    use cni_netfilter::RulePosition;
    use cni_netfilter::flows::{PortChange, UdpPort};
    use cni_netfilter::iptables::{
        ExistingChain, IptablesRemoval, IptablesRule, IptablesTable, JumpRemoval, OwnedChain, OwnedChainRef,
        RulePlacement, SharedRule, Target,
    };

    fn jump(from: &'static str, to: &'static str) -> IptablesRule {
        IptablesRule { chain: ChainName::fixed(from), matches: Vec::new(), target: Target::Jump(ChainName::fixed(to)) }
    }

    /// What a plugin makes for a container: a chain of its own, and a rule that leads to it.
    fn ruleset(table: IptablesTable, chain: &'static str) -> IptablesRuleset {
        IptablesRuleset {
            family: Family::V4,
            table,
            shared_chains: vec![ChainName::fixed("SHARED")],
            shared: vec![SharedRule { rule: jump("INPUT", "SHARED"), place: RulePlacement::First }],
            chains: vec![OwnedChain {
                name: ChainName::fixed(chain),
                rules: vec![jump(chain, "SHARED")],
                existing: ExistingChain::Replace,
            }],
            rules: vec![jump("SHARED", chain)],
            position: RulePosition::Back,
        }
    }

    fn plan(rulesets: &[IptablesRuleset]) -> Plan {
        let mut plan = Plan::default();
        for ruleset in rulesets {
            plan.owned(Step::EnsureRules { ns: Ns::Host, ruleset: ruleset.clone().into() });
        }
        plan
    }

    #[test]
    fn rules_of_one_table_are_made_at_once() {
        let [one, two] = ["ONE", "TWO"].map(|chain| ruleset(IptablesTable::Nat, chain));
        let other = ruleset(IptablesTable::Filter, "ONE");
        let plans = [plan(&[one.clone(), other.clone()]), plan(&[two.clone(), other.clone()])];
        let mut both = one;
        both.chains.extend(two.chains);
        both.rules.extend(two.rules);
        // The same chain of its own twice: each is made for itself.
        assert_eq!(Plan::join_rules(plans.iter()), plan(&[both, other.clone(), other]));
        assert_eq!(plans[0].without_rules(), Plan::default());
        let mut inside = Plan::default();
        inside.within(Step::EnsureRules { ns: Ns::Container, ruleset: ruleset(IptablesTable::Nat, "ONE").into() });
        assert_eq!(Plan::join_rules([&inside].into_iter()), Plan::default());
        assert_eq!(inside.without_rules(), inside, "what is not on the host stays in its plan");
    }

    #[test]
    fn rules_in_different_places_are_made_one_after_the_other() {
        let [back, after] = ["ONE", "THREE"].map(|chain| ruleset(IptablesTable::Nat, chain));
        let position = RulePosition::before(["THREE".to_owned()]);
        let before = IptablesRuleset { position, ..ruleset(IptablesTable::Nat, "TWO") };
        let wanted = [back, before, after];
        assert_eq!(Plan::join_rules([plan(&wanted)].iter()), plan(&wanted));
    }

    #[test]
    fn rules_of_one_table_are_removed_at_once() {
        let removal = |table, chain: &'static str| {
            let chain = OwnedChainRef {
                name: ChainName::fixed(chain),
                parents: vec![ChainName::fixed("SHARED")],
                jumps: JumpRemoval::All,
            };
            let rules = vec![jump("SHARED", "ANY")];
            IptablesRemoval { family: Family::V4, table, chains: vec![chain], rules }
        };
        let [one, two] = ["ONE", "TWO"].map(|chain| removal(IptablesTable::Nat, chain));
        let other = removal(IptablesTable::Filter, "ONE");
        let both = IptablesRemoval { chains: [one.chains.clone(), two.chains.clone()].concat(), ..one.clone() };
        let inside = Step::RemoveRules { ns: Ns::Container, removal: two.clone().into() };
        let steps = [one.clone(), other.clone(), two, one.clone()].map(Step::remove_rules);
        // The same chain twice: the second time it is gone.
        let expected = [both, other, one].map(Step::remove_rules);
        assert_eq!(Plan::join_removals(steps.into_iter().chain([inside, Step::ForgetFlows(stale())])), expected);
    }

    fn stale() -> StaleFlows {
        let port = UdpPort { host_ip: None, port: 53, target: ([10, 88, 0, 5], 53).into() };
        StaleFlows::new(PortChange::Restored, [10, 88, 0, 5].into(), vec![port]).expect("a port")
    }

    #[test]
    fn connections_to_be_forgotten_are_taken_out_and_the_other_steps_keep_their_order() {
        let stale = stale();
        let mut whole = plan(&[ruleset(IptablesTable::Nat, "ONE")]);
        whole.shared(Step::ForgetFlows(stale.clone()));
        let [one, two] = ["ONE", "TWO"].map(|chain| ruleset(IptablesTable::Nat, chain));
        whole.owned(Step::EnsureRules { ns: Ns::Host, ruleset: two.clone().into() });
        assert_eq!((whole.take_flows(), whole), (vec![stale], plan(&[one, two])));
    }
}
