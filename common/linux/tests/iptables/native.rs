//! What is written and read over netlink, beside the programs of iptables as witnesses.

use std::fs;
use std::sync::{Barrier, Mutex};
use std::time::{Duration, Instant};

use cni_core::cidr::Cidr;
use cni_core::error::Failure as _;
use cni_core::family::Family;
use cni_netfilter::NetfilterError;
use cni_netfilter::iptables::{
    Batch, BatchLine, IptablesRule, IptablesRuleset, IptablesTable, Target, ensure, missing, undo,
};

use super::all_kinds;
use super::host::{Flavour, on};
use super::wanted::{address, chain, dnat_chain, portmap, rule};
use crate::run;

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

#[test]
fn what_is_written_without_the_programs_is_theirs_and_what_they_write_is_read_without_them() {
    on(Flavour::Native, |host| {
        let (family, [rules, _]) = (host.family, all_kinds(host.family));
        let batch = |ops: Vec<BatchLine>| Batch { family, table: IptablesTable::Nat, ops };
        let all = |op: fn(IptablesRule) -> BatchLine| batch(rules.iter().cloned().map(op).collect());
        let (mut ours, mut theirs) = (host.tables(), host.tables_of(Flavour::Nft));
        let chains = ["CNI-OTHER", "CNI-TEST"].map(|name| BatchLine::CreateChain(chain(name))).to_vec();
        theirs.commit(&batch(chains)).expect("two chains");
        let canonical: Vec<IptablesRule> = rules.iter().map(IptablesRule::canonical).collect();
        for (writer, others) in [(Flavour::Native, Flavour::Nft), (Flavour::Nft, Flavour::Native)] {
            host.started();
            host.tables_of(writer).commit(&all(BatchLine::Append)).expect("appended");
            assert_eq!(host.started().len(), usize::from(writer == Flavour::Nft));
            for reader in [&mut theirs, &mut ours] {
                host.started();
                reader.commit(&all(BatchLine::Require)).expect("all there");
                let listed = reader.list(family, IptablesTable::Nat, &chain("CNI-TEST")).expect("listed");
                assert_eq!(listed.as_ref(), Some(&canonical));
            }
            assert_eq!(host.started(), [""; 0]);
            host.tables_of(others).commit(&all(BatchLine::Delete)).expect("deleted");
            assert_eq!(ours.list(family, IptablesTable::Nat, &chain("CNI-TEST")).expect("listed"), Some(Vec::new()));
        }
    });
}

#[test]
fn what_does_not_fit_is_refused_without_the_programs_and_changes_nothing() {
    on(Flavour::Native, |host| {
        let (family, mut tables) = (host.family, host.tables());
        ensure(&mut *tables, &portmap(family, 1)).expect("the shared chains and those of container 1");
        let before = host.dump("nat");
        let (shared, rule) = (chain("CNI-HOSTPORT-DNAT"), rule("-A CNI-HOSTPORT-DNAT -j RETURN"));
        host.started();
        for (ops, text) in [
            (
                [BatchLine::Require(rule.clone()), BatchLine::EmptyChain(shared.clone())],
                "-C CNI-HOSTPORT-DNAT -j RETURN",
            ),
            (
                [BatchLine::Delete(rule.clone()), BatchLine::EmptyChain(shared.clone())],
                "-D CNI-HOSTPORT-DNAT -j RETURN",
            ),
            ([BatchLine::Append(rule), BatchLine::CreateChain(shared)], "-N CNI-HOSTPORT-DNAT"),
        ] {
            let refused = tables.commit(&Batch { family, table: IptablesTable::Nat, ops: ops.to_vec() });
            let refusal = refused.expect_err("refused");
            assert!(refusal.is_refusal(), "{refusal:?}");
            assert_eq!(refusal.details(), format!("table {family} nat of nf_tables: {text}: does not fit"));
        }
        assert_eq!((host.started(), host.dump("nat")), (Vec::new(), before));
    });
}

/// What a container with many UDP ports needs: three rules for each.
fn many_ports(family: Family, ports: u16) -> IptablesRuleset {
    let (mut want, own, to) = (portmap(family, 1), dnat_chain(1), address(family, 1));
    want.chains[0].rules = (1..=ports)
        .flat_map(|port| {
            let (here, lo) = (to.network(), Cidr::host(family.loopback()));
            let part = format!("-p udp -m udp --dport {port}");
            let to = std::net::SocketAddr::new(to.address(), port);
            [
                rule(&format!("-A {own} -s {here} {part} -j CNI-HOSTPORT-SETMARK")),
                rule(&format!("-A {own} -s {lo} {part} -j CNI-HOSTPORT-SETMARK")),
                rule(&format!("-A {own} {part} -j DNAT --to-destination {to}")),
            ]
        })
        .collect();
    want
}

/// Each change makes all others of the same moment come too late. The programs, which read more, would come later still.
#[test]
fn those_who_come_too_late_go_one_by_one_without_the_programs() {
    const CONTAINERS: u16 = 16;
    on(Flavour::Native, |host| {
        ensure(&mut *host.tables(), &portmap(host.family, CONTAINERS)).expect("ensured");
        host.started();
        let all = Barrier::new(usize::from(CONTAINERS));
        std::thread::scope(|scope| {
            for n in 0..CONTAINERS {
                let all = &all;
                scope.spawn(move || {
                    let mut tables = host.tables();
                    all.wait();
                    for _ in 0..2 {
                        let change = ensure(&mut *tables, &portmap(host.family, n)).expect("ensured").expect("added");
                        undo(&mut *tables, &change).expect("removed");
                    }
                    ensure(&mut *tables, &portmap(host.family, n)).expect("ensured");
                });
            }
        });
        assert_eq!(host.started(), [""; 0]);
        let jumps = host.dump("nat").iter().filter(|line| line.starts_with("-A CNI-HOSTPORT-DNAT")).count();
        assert_eq!(jumps, usize::from(CONTAINERS + 1));
    });
}

/// Without the table the kernel would refuse every rule, and it reports the handles of rules that are remembered: a socket holds no more
/// than some hundreds of its answers.
#[test]
fn many_rules_are_made_at_once_without_a_table_and_in_a_chain_that_is_known() {
    on(Flavour::Native, |host| {
        let (want, mut tables) = (many_ports(host.family, 2000), host.tables());
        let (change, slept) =
            sleeping_time(|| ensure(&mut *tables, &want).expect("made").expect("something was added"));
        assert!(slept < LOST_ANSWER, "{slept:?}");
        let before = host.dump("nat");
        for _ in 0..2 {
            tables.list(host.family, IptablesTable::Nat, &dnat_chain(1)).expect("listed");
            let (_, slept) = sleeping_time(|| ensure(&mut *tables, &want).expect("made again"));
            assert!(slept < LOST_ANSWER, "{slept:?}");
            assert_eq!(host.dump("nat"), before);
        }
        assert_eq!(missing(&mut *tables, &want).expect("looked"), None);
        undo(&mut *tables, &change).expect("removed");
        assert_eq!(host.dump("nat").iter().find(|line| line.contains("CNI-DN-")), None);
    });
}

#[test]
fn more_refusals_than_a_socket_holds_are_one_refusal_and_the_next_question_is_answered() {
    on(Flavour::Native, |host| {
        let (family, mut tables) = (host.family, host.tables());
        ensure(&mut *tables, &portmap(family, 1)).expect("the shared chains and those of container 1");
        let before = host.dump("nat");
        let astray =
            |port: u16| BatchLine::Append(rule(&format!("-A CNI-TEST -p udp -m udp --dport {port} -j CNI-NOWHERE")));
        let ops = [BatchLine::CreateChain(chain("CNI-TEST"))].into_iter().chain((1..=2000).map(astray)).collect();
        let (refused, slept) = sleeping_time(|| tables.commit(&Batch { family, table: IptablesTable::Nat, ops }));
        assert!(refused.as_ref().is_err_and(NetfilterError::is_refusal), "{refused:?}");
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
