//! The packet filter against the real kernel: both flavours of iptables, both families. `iptables -S` is the witness.

pub mod host;
mod native;
pub mod wanted;

use cni_core::error::Failure;
use cni_core::family::Family;
use cni_netfilter::iptables::{Batch, BatchLine, IptablesRule, IptablesTable, Match, ensure, missing, remove};

use crate::run;
use host::{Flavour, FlavourHost, everywhere};
use wanted::{accept, chain, portmap, refuse, rule, unmap};

/// One rule of every kind, and of every combination that the plugins write; then those that only the programs write.
fn all_kinds(family: Family) -> [Vec<IptablesRule>; 2] {
    let (ip, all, dns) = match family {
        Family::V4 => ("10.88.0.7/32", "224.0.0.0/4", "10.88.0.11"),
        Family::V6 => ("fd00:88::7/128", "ff00::/8", "fd00:88::b"),
    };
    let to = if family == Family::V4 { dns.to_owned() } else { format!("[{dns}]") };
    let (long, ports) = ("x".repeat(255), (9000..9015).map(|port| port.to_string()).collect::<Vec<_>>().join(","));
    let rule = |line: &str| {
        let line = line.replace("IP", ip).replace("ALL", all).replace("LONG", &long).replace("PORTS", &ports);
        rule(&format!("-A CNI-TEST {}", line.replace("TO:", &format!("{to}:")).replace("DNS", dns)))
    };
    let (native, by_programs) = include_str!("kinds.txt").split_once("\n\n").expect("two parts");
    [native, by_programs].map(|lines| lines.lines().map(rule).collect())
}

#[test]
fn the_text_of_every_kind_of_rule_is_what_iptables_prints() {
    everywhere(|host| {
        let rules = all_kinds(host.family).concat();
        let batch = |ops| Batch { family: host.family, table: IptablesTable::Nat, ops };
        let mut ops = vec![BatchLine::CreateChain(chain("CNI-OTHER")), BatchLine::CreateChain(chain("CNI-TEST"))];
        ops.extend(rules.iter().cloned().map(BatchLine::Append));
        host.tables().commit(&batch(ops)).expect("committed");
        let printed = host.iptables("-t nat -S CNI-TEST");
        let lines: Vec<&str> = printed.lines().skip(1).collect();
        assert_eq!(lines, rules.iter().map(IptablesRule::to_string).collect::<Vec<_>>());
        let listed = host.tables().list(host.family, IptablesTable::Nat, &chain("CNI-TEST")).expect("listed");
        assert_eq!(listed, Some(rules.iter().map(IptablesRule::canonical).collect()));
        host.tables().commit(&batch(rules.into_iter().map(BatchLine::Require).collect())).expect("all there");
    });
}

#[test]
fn in_the_usual_state_each_change_and_each_look_takes_few_processes() {
    everywhere(|host| {
        let (family, mut tables) = (host.family, host.tables());
        ensure(&mut *tables, &portmap(family, 1)).expect("the shared chains and those of container 1");
        ensure(&mut *tables, &accept(family, 1)).expect("the shared chains and those of container 1");
        let before = [host.dump("nat"), host.dump("filter")];
        host.started();
        let mut steps = 0..;
        let mut took = |number| assert_eq!(host.started().len(), host.programs(number), "{:?}", steps.next());
        ensure(&mut *tables, &portmap(family, 2)).expect("container 2");
        took(1);
        assert_eq!(missing(&mut *tables, &portmap(family, 2)).expect("looked"), None);
        took(1);
        remove(&mut *tables, &unmap(family, 2)).expect("removed");
        took(1);
        ensure(&mut *tables, &accept(family, 2)).expect("container 2").expect("something");
        took(2);
        remove(&mut *tables, &refuse(family, 2)).expect("removed");
        took(2);
        assert_eq!([host.dump("nat"), host.dump("filter")], before);
    });
}

/// With nf_tables not even a table may be there; legacy makes its empty tables for any reader.
fn assert_untouched(host: &FlavourHost) {
    match host.flavour {
        Flavour::Nft | Flavour::Native | Flavour::Kept => assert_eq!(run("nft list ruleset"), ""),
        Flavour::Legacy => assert_eq!((host.dump("nat"), host.dump("filter")), (Vec::new(), Vec::new())),
    }
}

#[test]
fn looking_for_and_removing_what_is_not_there_makes_nothing_and_a_user_s_unknown_words_are_refused() {
    everywhere(|host| {
        let (family, mut tables) = (host.family, host.tables());
        remove(&mut *tables, &unmap(family, 1)).expect("nothing to remove");
        remove(&mut *tables, &refuse(family, 1)).expect("nothing to remove");
        let mut want = portmap(family, 1);
        assert_eq!(missing(&mut *tables, &want).expect("looked"), Some(&want.shared[0].rule));
        assert_eq!(tables.list(family, IptablesTable::Nat, &chain("CNI-HOSTPORT-DNAT")).expect("listed"), None);
        want.rules[0].matches.push(Match::Raw(vec!["--no-such-option".to_owned()]));
        let error = ensure(&mut *tables, &want).expect_err("refused");
        assert!(error.details().contains("unknown option \"--no-such-option\""), "{}", error.details());
        assert_untouched(host);
    });
}
