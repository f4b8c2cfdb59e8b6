//! What is written and read over netlink, beside the programs of iptables as witnesses.

use std::fs;
use std::sync::{Barrier, Mutex};
use std::time::{Duration, Instant};

use cni_core::cidr::Cidr;
use cni_core::family::Family;
use cni_netfilter::Proto;
use cni_netfilter::iptables::{
    Batch, BatchError, BatchLine, Iptables, IptablesRule, IptablesRuleset, IptablesTable, Match, Target, ensure,
    missing, undo,
};

use super::all_kinds;
use super::host::{Flavour, FlavourIptables, on, run};
use super::wanted::{address, chain, dnat_chain, portmap};

/// Where the kernel's answer is lost, a thread sleeps for ten seconds: the time limit of the socket.
const LOST_ANSWER: Duration = Duration::from_secs(9);

/// Does work, and returns how long this thread has slept meanwhile. On a loaded machine work takes its time; that the thread ran, or
/// waited for a processor, does not count (Documentation/scheduler/sched-stats.rst).
fn sleeping_time<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let awake = || {
        let text = fs::read_to_string("/proc/thread-self/schedstat").expect("the scheduler's numbers");
        let times = text.split_whitespace().take(2).map(|time| time.parse::<u64>().expect("nanoseconds"));
        Duration::from_nanos(times.sum())
    };
    let (started, before) = (Instant::now(), awake());
    let done = work();
    (done, started.elapsed().saturating_sub(awake() - before))
}

/// Whether a rule can be written without the programs.
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
        let (mut ours, mut theirs) = (host.tables(), FlavourIptables::new(Flavour::Nft, host.path()));
        let chains = ["CNI-OTHER", "CNI-TEST"].map(|name| BatchLine::CreateChain(chain(name))).to_vec();
        theirs.commit(&batch(chains)).expect("two chains");
        let text: Vec<String> = rules.iter().map(IptablesRule::to_string).collect();
        let canonical: Vec<IptablesRule> = rules.iter().map(IptablesRule::canonical).collect();
        for writer in [Flavour::Native, Flavour::Nft] {
            let (mut writer, is_native) = (FlavourIptables::new(writer, host.path()), writer == Flavour::Native);
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
            let mut deleter = if is_native { FlavourIptables::new(Flavour::Nft, host.path()) } else { host.tables() };
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
        let ops = vec![BatchLine::Append(rule), BatchLine::CreateChain(chain("CNI-HOSTPORT-DNAT"))];
        let refused = tables.commit(&Batch { family, table: IptablesTable::Nat, ops });
        let Err(BatchError::Refused(refusal)) = refused else { panic!("{refused:?}") };
        assert_eq!(refusal.text, "-N CNI-HOSTPORT-DNAT: does not fit");
        assert_eq!(host.started(), [""; 0]);
        assert_eq!(host.dump("nat"), before);
    });
}

/// What a container with many UDP ports needs: three rules for each.
fn many_ports(family: Family, ports: u16) -> IptablesRuleset {
    let mut want = portmap(family, 1);
    let here = address(family, 1);
    let rules = |port| {
        let rule = |from: Option<Match>, target| {
            let matches = from.into_iter().chain([Match::Port(Proto::Udp, port)]).collect();
            IptablesRule::new(dnat_chain(1), matches, target)
        };
        let marked = |from| rule(Some(Match::Source(from)), Target::Jump(chain("CNI-HOSTPORT-SETMARK")));
        let translated = rule(None, Target::Dnat((here.address(), port).into()));
        [marked(here.network()), marked(Cidr::host(family.loopback())), translated]
    };
    for own in &mut want.chains {
        own.rules = (1..=ports).flat_map(rules).collect();
    }
    want
}

/// Without the table the kernel would refuse every rule, and a socket holds no more than about 277 of its answers.
#[test]
fn many_rules_for_a_table_that_is_not_there_are_made_at_once() {
    on(Flavour::Native, |host| {
        let (want, mut tables) = (many_ports(host.family, 200), host.tables());
        let (change, slept) = sleeping_time(|| ensure(&mut tables, &want).expect("made").expect("something was added"));
        assert!(slept < LOST_ANSWER, "{slept:?}");
        assert_eq!(missing(&mut tables, &want).expect("looked"), None);
        undo(&mut tables, &change).expect("removed");
        assert_eq!(host.dump("nat").iter().find(|line| line.contains("CNI-DN-")), None);
    });
}

/// Each change makes all others of the same moment come too late. The programs, which read more, would come later still.
#[test]
fn those_who_come_too_late_go_one_by_one_without_the_programs() {
    const CONTAINERS: u16 = 16;
    on(Flavour::Native, |host| {
        ensure(&mut host.tables(), &portmap(host.family, CONTAINERS)).expect("ensured");
        host.started();
        let all = Barrier::new(usize::from(CONTAINERS));
        std::thread::scope(|scope| {
            for n in 0..CONTAINERS {
                let (path, all) = (host.path(), &all);
                scope.spawn(move || {
                    let mut tables = FlavourIptables::new(host.flavour, path);
                    all.wait();
                    for _ in 0..2 {
                        let change = ensure(&mut tables, &portmap(host.family, n)).expect("ensured").expect("added");
                        undo(&mut tables, &change).expect("removed");
                    }
                    ensure(&mut tables, &portmap(host.family, n)).expect("ensured");
                });
            }
        });
        assert_eq!(host.started(), [""; 0]);
        let jumps = host.dump("nat").iter().filter(|line| line.starts_with("-A CNI-HOSTPORT-DNAT")).count();
        assert_eq!(jumps, usize::from(CONTAINERS + 1));
    });
}

/// The kernel reports the handles of rules that are remembered, and a socket holds no more than some hundreds of such
/// messages.
#[test]
fn many_rules_of_a_chain_that_is_known_are_made_again_at_once() {
    on(Flavour::Native, |host| {
        let (want, mut tables) = (many_ports(host.family, 2000), host.tables());
        ensure(&mut tables, &want).expect("made");
        let before = host.dump("nat");
        for _ in 0..2 {
            tables.list(host.family, IptablesTable::Nat, &dnat_chain(1)).expect("listed");
            let (_, slept) = sleeping_time(|| ensure(&mut tables, &want).expect("made again"));
            assert!(slept < LOST_ANSWER, "{slept:?}");
            assert_eq!(host.dump("nat"), before);
        }
        assert_eq!(missing(&mut tables, &want).expect("looked"), None);
    });
}

#[test]
fn more_refusals_than_a_socket_holds_are_one_refusal_and_the_next_question_is_answered() {
    on(Flavour::Native, |host| {
        let (family, mut tables) = (host.family, host.tables());
        ensure(&mut tables, &portmap(family, 1)).expect("the skeleton and container 1");
        let before = host.dump("nat");
        let astray = |port| {
            let matches = vec![Match::Port(Proto::Udp, port)];
            BatchLine::Append(IptablesRule::new(chain("CNI-TEST"), matches, Target::Jump(chain("CNI-NOWHERE"))))
        };
        let ops = [BatchLine::CreateChain(chain("CNI-TEST"))].into_iter().chain((1..=2000).map(astray)).collect();
        let (refused, slept) = sleeping_time(|| tables.commit(&Batch { family, table: IptablesTable::Nat, ops }));
        assert!(matches!(refused, Err(BatchError::Refused(_))), "{refused:?}");
        assert!(slept < LOST_ANSWER, "{slept:?}");
        host.started();
        let (listed, slept) = sleeping_time(|| tables.list(family, IptablesTable::Nat, &chain("CNI-TEST")));
        assert_eq!(listed.expect("listed"), None);
        assert_eq!(host.started(), [""; 0]);
        assert!(slept < LOST_ANSWER, "{slept:?}");
        assert_eq!(host.dump("nat"), before);
    });
}

/// The first rule of a table, for each of its own chains: `nft` sees no difference.
#[test]
fn a_table_and_its_own_chains_are_made_as_the_programs_make_them() {
    let all = [
        (IptablesTable::Nat, ["PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"].as_slice()),
        (IptablesTable::Filter, ["INPUT", "FORWARD", "OUTPUT"].as_slice()),
    ];
    for (table, chains) in all {
        for names in chains.iter().map(std::slice::from_ref).chain([chains]) {
            let made = Mutex::new(Vec::new());
            for flavour in [Flavour::Native, Flavour::Nft] {
                on(flavour, |host| {
                    let rule =
                        |name: &&str| IptablesRule::new(chain(name), Vec::new(), Target::Jump(chain("CNI-TEST")));
                    let rules = names.iter().map(rule).map(BatchLine::Append);
                    let ops = [BatchLine::CreateChain(chain("CNI-TEST"))].into_iter().chain(rules).collect();
                    host.started();
                    host.tables().commit(&Batch { family: host.family, table, ops }).expect("committed");
                    assert_eq!(host.started().len(), host.programs(1));
                    let mut lines: Vec<String> = run("nft list ruleset").lines().map(str::to_owned).collect();
                    lines.sort();
                    made.lock().expect("not poisoned").push((host.family, lines));
                });
            }
            let mut made = made.into_inner().expect("not poisoned");
            made.sort();
            for pair in made.chunks(2) {
                let [ours, theirs] = pair else { panic!("by two writers: {pair:?}") };
                assert_eq!(ours, theirs, "{table} {names:?}");
            }
        }
    }
}
