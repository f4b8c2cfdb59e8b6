//! One round: a fresh host, all ADDs at once, and all DELs at once.

use std::net::IpAddr;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use crate::parallel::calls::{KnownContainer, Registry, Side};
use crate::parallel::host::{Backend, ParallelHost, Sides};
use crate::parallel::repeated_calls::RepeatedCalls;
use crate::parallel::tally::Tally;
use crate::parallel::traces::{self, Lines};

/// How long the kernel may take to clean up behind what is gone.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a round consists of.
pub struct Round {
    backend: Backend,
    sides: Sides,
    containers: usize,
}

impl Round {
    pub fn new(backend: Backend, sides: Sides, containers: usize) -> Self {
        Self { backend, sides, containers }
    }

    /// Returns what is to be told.
    ///
    /// # Panics
    /// When anything of ours failed, is there twice, or is left.
    pub fn run(&self) -> String {
        let shared = self.what_one_after_the_other_leaves();
        let host = ParallelHost::fresh(self.backend);
        let all_attached = host.all_attached(&self.sides, self.containers);
        let (calls, registry, tally) = (RepeatedCalls::new(&host), Registry::default(), Tally::default());
        let given = calls.during(&all_attached, &registry, &tally, || {
            at_once(&all_attached, |attached| {
                thread::sleep(attached.delay);
                attached.add(&registry, &tally)
            })
        });
        self.assert_living(&all_attached, &tally, given.concat());
        let twice = self.assert_rules_once(&host);
        calls
            .during(&all_attached, &registry, &tally, || at_once(&all_attached, |attached| self.del(attached, &tally)));
        assert_nothing_failed(&tally);
        self.assert_nothing_left(&host, &calls, &shared, &tally.abandoned());
        format!("{tally}\n  shared rules that are there twice: {twice:?}")
    }

    /// A third of the containers goes by the plugins that did not make them. The reference v1.1.1 knows no nftables.
    fn del(&self, attached: &KnownContainer, tally: &Tally) {
        let may_be_others = attached.side == Side::Reference || self.backend != Backend::Nftables;
        match self.sides {
            Sides::Both(_) if may_be_others && attached.name.ends_with(['3', '6', '9']) => attached.del_by_other(tally),
            Sides::Both(_) | Sides::Ours => attached.del(tally),
        }
    }

    fn what_one_after_the_other_leaves(&self) -> Lines {
        let host = ParallelHost::fresh(self.backend);
        let (registry, tally) = (Registry::default(), Tally::default());
        let all_attached = host.all_attached(&self.sides, 2);
        for attached in &all_attached {
            attached.add(&registry, &tally);
        }
        for attached in &all_attached {
            attached.del(&tally);
        }
        assert_nothing_failed(&tally);
        traces::observe(&host)
    }

    fn assert_living(&self, all_attached: &[KnownContainer], tally: &Tally, mut given: Vec<IpAddr>) {
        assert_nothing_failed(tally);
        given.sort();
        let mut distinct = given.clone();
        distinct.dedup();
        assert_eq!(given.len(), 2 * self.containers, "every container has an address of each family: {tally}");
        assert_eq!(distinct, given, "no address is given twice");
        assert_eq!(traces::leases(), given, "every address has its lease");
        for attached in all_attached.iter().filter(|attached| attached.side == Side::Ours) {
            attached.check(tally);
        }
        assert_nothing_failed(tally);
    }

    /// Returns the shared rules that the reference has doubled.
    fn assert_rules_once(&self, host: &ParallelHost) -> Vec<String> {
        let (of_containers, shared) = traces::repeated_rules(host);
        assert!(of_containers.is_empty(), "rules of containers are there twice: {of_containers:#?}");
        match self.sides {
            Sides::Ours => assert!(shared.is_empty(), "shared rules are there twice: {shared:#?}"),
            Sides::Both(_) => {}
        }
        shared
    }

    fn assert_nothing_left(&self, host: &ParallelHost, calls: &RepeatedCalls, shared: &Lines, abandoned: &[IpAddr]) {
        let changes = || {
            let mut found = self.changes(host, shared);
            found.retain(|line| !traces::is_abandoned(line, abandoned));
            found
        };
        let found = settled(|| {
            let mut found = changes();
            found.retain(|line| !(matches!(self.sides, Sides::Both(_)) && traces::is_claim(&line[2..])));
            found
        });
        assert!(found.is_empty(), "not as after one container after the other:\n{}", found.join("\n"));
        calls.collect_all();
        let found = changes();
        assert!(found.is_empty(), "GC leaves something:\n{}", found.join("\n"));
    }

    /// What is there and should not be, and the other way round. With the reference, it does not matter how often.
    fn changes(&self, host: &ParallelHost, expected: &Lines) -> Vec<String> {
        let found = traces::observe(host);
        let count = |lines: &Lines, line: &str| match self.sides {
            Sides::Ours => lines.get(line).copied().unwrap_or_default(),
            Sides::Both(_) => usize::from(lines.contains_key(line)),
        };
        let gone = expected.keys().filter(|line| count(&found, line) < count(expected, line));
        let more = found.keys().filter(|line| count(&found, line) > count(expected, line));
        gone.map(|line| format!("- {line}")).chain(more.map(|line| format!("+ {line}"))).collect()
    }
}

/// What is found when the kernel has had the time to clean up.
fn settled(find: impl Fn() -> Vec<String>) -> Vec<String> {
    let started = Instant::now();
    loop {
        let found = find();
        if found.is_empty() || started.elapsed() > PATIENCE {
            return found;
        }
        thread::sleep(Duration::from_millis(100));
    }
}

/// Does something with all containers from the same moment on.
fn at_once<T: Send>(all_attached: &[KnownContainer], work: impl Fn(&KnownContainer) -> T + Sync) -> Vec<T> {
    let start = Barrier::new(all_attached.len());
    thread::scope(|scope| {
        let begin = |attached| {
            start.wait();
            work(attached)
        };
        let running: Vec<_> = all_attached.iter().map(|attached| scope.spawn(move || begin(attached))).collect();
        running.into_iter().map(|attached| attached.join().expect("a call in its own thread")).collect()
    })
}

fn assert_nothing_failed(tally: &Tally) {
    let failures = tally.failures();
    assert!(failures.is_empty(), "{} failures of ours; {tally}\n{}", failures.len(), failures.join("\n"));
}
