//! What is written and read over netlink, beside the programs of iptables as witnesses.

use cni_netfilter::Proto;
use cni_netfilter::iptables::{
    Batch, BatchError, BatchLine, Iptables, IptablesRule, IptablesTable, Match, Target, ensure,
};

use super::all_kinds;
use super::host::{Flavour, HostsTables, on};
use super::wanted::{chain, portmap};

/// Whether a rule is of a kind that goes without the programs.
fn is_native(rule: &IptablesRule) -> bool {
    let by_programs = |part: &Match| matches!(part, Match::Raw(_) | Match::Port(Proto::Sctp | Proto::Dccp, _));
    !rule.matches.iter().any(by_programs) && !matches!(rule.target, Target::Raw(_))
}

#[test]
fn what_is_written_without_the_programs_is_theirs_and_what_they_write_is_read_without_them() {
    on(Flavour::Native, |host| {
        let family = host.family;
        let rules: Vec<IptablesRule> = all_kinds(family).into_iter().filter(is_native).collect();
        assert_eq!(rules.len(), all_kinds(family).len() - 4);
        let batch = |ops: Vec<BatchLine>| Batch { family, table: IptablesTable::Nat, ops };
        let all = |op: fn(IptablesRule) -> BatchLine| batch(rules.iter().cloned().map(op).collect());
        let (mut ours, mut theirs) = (host.tables(), HostsTables::new(Flavour::Nft, host.path()));
        let chains = ["CNI-OTHER", "CNI-TEST"].map(|name| BatchLine::CreateChain(chain(name))).to_vec();
        theirs.commit(&batch(chains)).expect("two chains");
        let text: Vec<String> = rules.iter().map(IptablesRule::to_string).collect();
        let canonical: Vec<IptablesRule> = rules.iter().map(IptablesRule::canonical).collect();
        for writer in [Flavour::Native, Flavour::Nft] {
            let (mut writer, is_native) = (HostsTables::new(writer, host.path()), writer == Flavour::Native);
            host.started();
            writer.commit(&all(BatchLine::Append)).expect("appended");
            assert_eq!(host.started().len(), usize::from(!is_native));
            assert_eq!(host.iptables("-t nat -S CNI-TEST").lines().skip(1).collect::<Vec<_>>(), text);
            theirs.commit(&all(BatchLine::Require)).expect("all there, say the programs");
            assert_eq!(
                theirs.list(family, IptablesTable::Nat, &chain("CNI-TEST")).expect("listed"),
                Some(canonical.clone())
            );
            host.started();
            ours.commit(&all(BatchLine::Require)).expect("all there");
            assert_eq!(
                ours.list(family, IptablesTable::Nat, &chain("CNI-TEST")).expect("listed"),
                Some(canonical.clone())
            );
            assert_eq!(host.started(), [""; 0]);
            let mut deleter = if is_native { HostsTables::new(Flavour::Nft, host.path()) } else { host.tables() };
            deleter.commit(&all(BatchLine::Delete)).expect("deleted");
            assert_eq!(host.started().len(), usize::from(is_native));
            assert_eq!(ours.list(family, IptablesTable::Nat, &chain("CNI-TEST")).expect("listed"), Some(Vec::new()));
        }
    });
}

#[test]
fn what_does_not_fit_is_refused_without_the_programs_and_changes_nothing() {
    on(Flavour::Native, |host| {
        let (family, mut tables) = (host.family, host.tables());
        ensure(&mut tables, &portmap(family, 1)).expect("the skeleton and container 1");
        let before = host.dump("nat");
        let rule = IptablesRule::new(chain("CNI-HOSTPORT-DNAT"), Vec::new(), Target::Return);
        host.started();
        for op in [BatchLine::Require(rule.clone()), BatchLine::Delete(rule.clone())] {
            let ops = vec![op, BatchLine::EmptyChain(chain("CNI-HOSTPORT-DNAT"))];
            let refused = tables.commit(&Batch { family, table: IptablesTable::Nat, ops });
            let Err(BatchError::Refused(refusal)) = refused else { panic!("{refused:?}") };
            assert!(refusal.text.contains("CNI-HOSTPORT-DNAT -j RETURN: does not fit"), "{refusal:?}");
        }
        assert_eq!(host.started(), [""; 0]);
        let ops = vec![BatchLine::Append(rule), BatchLine::CreateChain(chain("CNI-HOSTPORT-DNAT"))];
        let refused = tables.commit(&Batch { family, table: IptablesTable::Nat, ops });
        assert!(matches!(refused, Err(BatchError::Refused(_))), "{refused:?}");
        assert_eq!(host.dump("nat"), before);
    });
}
