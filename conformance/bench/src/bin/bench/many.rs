//! Measures many containers at once: how many a second, and how long one of them waits.

use std::path::Path;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use cni_conformance::{Attachment, Chain, Container, Nomad, Runtime, Sandbox, Verb};

use crate::ComparedFolders;
use crate::chain::{NeighbourContainers, new_container};
use crate::table::ratio;
use crate::tool::second;

/// What is measured.
#[derive(Clone, Copy)]
pub struct Crowds<'a> {
    /// How many containers come.
    pub containers: usize,
    /// How many of them at a time.
    pub at_a_time: &'a [usize],
    /// How many there are already.
    pub others: &'a [usize],
}

/// What `bench.sh --many` measures.
pub const MANY: Crowds<'static> = Crowds { containers: 100, at_a_time: &[8, 32], others: &[0, 1000] };

/// A container asks for a router when its interface comes up, again after four seconds, and then after twice as long each
/// time. Its bridge passes each question on to all others. So long after the last one has come, fewer ask.
const SETTLED: Duration = Duration::from_secs(30);

/// With 32 at a time beside 1000 others a plugin of the reference waits for minutes.
const DEADLINE: Duration = Duration::from_secs(900);

/// What one operation took for all containers.
struct CrowdTimes {
    all: Duration,
    longest: Duration,
    failed: usize,
}

/// What both sides took for the same.
struct CrowdRow {
    verb: Verb,
    others: usize,
    at_a_time: usize,
    ours: CrowdTimes,
    reference: CrowdTimes,
}

/// Compares both sides, one after the other on the same host.
pub fn measure(sides: &ComparedFolders, crowds: &Crowds<'_>) {
    let mut rows = Vec::new();
    for others in crowds.others.iter().copied() {
        let on_host = || on_host(&sides.ours, crowds.containers, others, |host| both(sides, host, crowds.at_a_time));
        rows.extend(thread::scope(|scope| scope.spawn(on_host).join().expect("the host works")));
    }
    println!("\n{} containers at once: how many a second, and the longest that one of them took", crowds.containers);
    let [places, rate, longest] = ["others  at a time", "ours  reference  ratio", "ours   reference"];
    println!("{:<5} {places:>20} {rate:>28} {longest:>23} {:>7}", "", "failed");
    rows.iter().for_each(|row| row.show(crowds.containers));
}

fn both(sides: &ComparedFolders, host: &CrowdedHost<'_>, at_a_time: &[usize]) -> Vec<CrowdRow> {
    let rows = |at_a_time: usize| {
        let [ours, reference] = [&sides.ours, &sides.reference].map(|folder| host.life(folder, at_a_time));
        let others = host.others;
        let row = move |((verb, ours), (_, reference))| CrowdRow { verb, others, at_a_time, ours, reference };
        ours.into_iter().zip(reference).map(row)
    };
    at_a_time.iter().copied().flat_map(rows).collect()
}

impl<'a> Crowds<'a> {
    /// The same beside so many others, if there are any numbers.
    pub const fn beside(self, others: &'a [usize]) -> Self {
        if others.is_empty() { self } else { Self { others, ..self } }
    }
}

impl CrowdRow {
    fn show(&self, containers: usize) {
        let Self { verb, others, at_a_time, ours, reference } = self;
        let rate = |times: &CrowdTimes| containers as f64 / times.all.as_secs_f64();
        println!(
            "{:<5} {others:>9} {at_a_time:>10} {:>10.1} {:>10.1} {:>6.1} {:>11.1?} {:>11.1?} {:>7}",
            verb.as_str(),
            rate(ours),
            rate(reference),
            ratio(ours.all, reference.all),
            ours.longest,
            reference.longest,
            format!("{}, {}", ours.failed, reference.failed),
        );
    }
}

/// A host with others on it.
struct CrowdedHost<'s> {
    sandbox: &'s Sandbox,
    runtime: Runtime<'s>,
    containers: usize,
    others: usize,
}

/// The others are in two networks: a bridge has at most 1023 ports.
fn on_host<T>(filler: &Path, containers: usize, others: usize, work: impl FnOnce(&CrowdedHost<'_>) -> T) -> T {
    let sandbox = Sandbox::new();
    let nomad = Nomad::default();
    nomad.ensure_forwarding_rules(&sandbox);
    let runtime = Runtime::new(&sandbox, nomad.conflist()).deadline(DEADLINE);
    let (first, last) = (runtime.clone(), runtime.clone().listing(second(nomad.conflist())));
    let half = others / 2;
    let standing = [(first, 0..half), (last, half..others)]
        .map(|(runtime, numbers)| NeighbourContainers::new(&sandbox, &runtime.binaries(filler), numbers));
    if others > 0 {
        thread::sleep(SETTLED);
    }
    let done = work(&CrowdedHost { sandbox: &sandbox, runtime, containers, others });
    drop(standing);
    done
}

impl CrowdedHost<'_> {
    fn new_containers(&self) -> Vec<(Container, Attachment)> {
        (self.others..self.others + self.containers).map(|number| new_container(self.sandbox, number)).collect()
    }

    /// Adds all new containers and deletes them.
    fn life(&self, folder: &Path, at_a_time: usize) -> [(Verb, CrowdTimes); 2] {
        let mut new_containers = self.new_containers();
        let times = [Verb::Add, Verb::Del].map(|verb| (verb, self.time(folder, verb, at_a_time, &mut new_containers)));
        new_containers.iter().for_each(|(container, _)| container.remove());
        times
    }

    fn time(
        &self,
        folder: &Path,
        verb: Verb,
        at_a_time: usize,
        new_containers: &mut [(Container, Attachment)],
    ) -> CrowdTimes {
        let runtime = self.runtime.clone().binaries(folder);
        let call = |attachment: &mut Attachment| -> Chain {
            if verb == Verb::Add { runtime.add(attachment) } else { runtime.del(attachment) }
        };
        let taken = Mutex::new(Vec::new());
        let started = Instant::now();
        each(at_a_time, new_containers, |(_, attachment)| {
            let started = Instant::now();
            let chain = call(attachment);
            if !chain.succeeded() {
                println!("{chain}");
            }
            taken.lock().expect("no worker has failed").push((started.elapsed(), chain.succeeded()));
        });
        let (all, taken) = (started.elapsed(), taken.into_inner().expect("no worker has failed"));
        CrowdTimes {
            all,
            longest: taken.iter().map(|(time, _)| *time).max().unwrap_or_default(),
            failed: taken.iter().filter(|(_, succeeded)| !succeeded).count(),
        }
    }
}

/// Does work for each item, for so many at a time.
fn each<T: Send>(at_a_time: usize, items: &mut [T], work: impl Fn(&mut T) + Sync) {
    let left = Mutex::new(items.iter_mut());
    let next = || left.lock().expect("no worker has failed").next();
    thread::scope(|scope| {
        for _ in 0..at_a_time {
            scope.spawn(|| {
                while let Some(item) = next() {
                    work(item);
                }
            });
        }
    });
}
