//! Compares each plugin with the floor: the same changes and the unavoidable questions, made by the smallest program.
//!
//! Four hosts have equal histories. On the first each call of ours is recorded ([`mod@record`]); on the second a program repeats
//! what is unavoidable of it ([`select`], `replay.c`), with the same names, numbers and files; on the third ours is timed, on the fourth
//! the reference. After the first turns the state of the second host must be the state of the first.

mod calls;
mod record;
mod script;
mod select;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use cni_conformance::child::{self, Limit};
use cni_conformance::{Container, Nomad, Runtime, Sandbox};

use crate::chain::{NeighbourContainers, OPERATIONS, life, newcomer};
use crate::side::{BenchSide, in_turns};
use crate::table::median;
use crate::{ComparedFolders, FloorCost};
use calls::Call;
pub use record::record;

const PLUGINS: [&str; 4] = ["loopback", "bridge", "firewall", "portmap"];
/// Where the recorder writes, in its sandbox.
const RECORDS: &str = "/run/conformance/recorded";
/// Where the plugins keep records, in a folder of the host's namespace.
const HOSTS: &str = "/run/cni/.cni-plugins-rs";
/// In so many turns the states are compared.
const COMPARED_TURNS: usize = 2;
const LIMIT: Limit = Limit::Fail(Duration::from_secs(30));

/// How long the kernel still works for the side before this one. When the last port has left a bridge, all changes wait up to
/// a second later, as the bridge's queues stop (`linkwatch_event` of `net/core/link_watch.c`).
const fn settling(others: usize) -> Duration {
    Duration::from_millis(if others == 0 { 1200 } else { 100 })
}

/// What a plugin took for a command.
#[derive(Clone, Debug)]
struct Step {
    operation: &'static str,
    plugin: String,
    time: Duration,
    /// How many system calls it made, and how many are unavoidable.
    calls: (usize, usize),
}

type Turn = Vec<Step>;

/// The recorded calls of one turn.
struct Recording {
    steps: Vec<(Step, Vec<Call>)>,
    /// The host's own names.
    names: [String; 2],
    /// What was there after ADD and after DEL.
    states: Option<[BTreeSet<String>; 2]>,
}

/// Compares ours, the floor and the reference beside so many containers.
pub fn compare(sides: &ComparedFolders, replay: &Path, containers: &[usize], rounds: usize) -> Vec<FloorCost> {
    println!("\nThe floor: the same changes and each question once, made by the smallest static program");
    println!(
        "{:<6} {:<9} {:>10} {:>9} {:>9} {:>9} {:>11} {:>11} {:>7} {:>7}",
        "", "", "containers", "floor", "ours", "reference", "ours/floor", "ref./floor", "calls", "floor's"
    );
    containers.iter().flat_map(|others| beside(sides, replay, *others, rounds)).collect()
}

fn beside(sides: &ComparedFolders, replay: &Path, others: usize, rounds: usize) -> Vec<FloorCost> {
    let (sender, recordings) = channel();
    let ours = || sides.ours.clone();
    let [filler, reference, replay] = [ours(), sides.reference.clone(), replay.to_owned()];
    let recorded = {
        let folder = ours();
        BenchSide::start(move |next, tell| record_turns(&folder, others, &sender, next, tell))
    };
    let floor = {
        let folder = ours();
        BenchSide::start(move |next, tell| replay_turns(&folder, &replay, others, &recordings, next, tell))
    };
    let timed = |folder: PathBuf| {
        let filler = filler.clone();
        BenchSide::start(move |next, tell| time_turns(&folder, &filler, others, next, tell))
    };
    let [_, floor, ours, reference] = in_turns(rounds, [recorded, floor, timed(ours()), timed(reference)]);
    let mut costs = Vec::new();
    for operation in OPERATIONS {
        let mut sums = [Some(Duration::ZERO); 3];
        let mut calls = (0, 0);
        for plugin in PLUGINS {
            let times = [&floor, &ours, &reference].map(|turns| middle(turns, operation, plugin));
            let counted = floor[0].iter().find(|step| step.operation == operation && step.plugin == plugin);
            let counted = counted.map_or((0, 0), |step| step.calls);
            row(operation, plugin, others, times, counted);
            sums = [0, 1, 2].map(|side| Some(sums[side]? + times[side]?));
            calls = (calls.0 + counted.0, calls.1 + counted.1);
        }
        row(operation, "all four", others, sums, calls);
        costs.push(FloorCost { operation, others, times: sums });
    }
    costs
}

/// Returns the median, or nothing when a plugin was not called, as after a CHECK that failed.
fn middle(turns: &[Turn], operation: &str, plugin: &str) -> Option<Duration> {
    let steps = turns.iter().flatten().filter(|step| step.operation == operation && step.plugin == plugin);
    let times: Vec<_> = steps.map(|step| step.time).collect();
    (!times.is_empty()).then(|| median(times))
}

fn row(operation: &str, plugin: &str, others: usize, times: [Option<Duration>; 3], calls: (usize, usize)) {
    let [floor, ours, reference] = times.map(|time| time.map(|time| time.as_secs_f64() * 1000.0));
    let milliseconds = |time: Option<f64>| time.map_or("–".to_owned(), |time| format!("{time:.2} ms"));
    let ratio =
        |time: Option<f64>| time.zip(floor).map_or("–".to_owned(), |(time, floor)| format!("{:.2}", time / floor));
    println!(
        "{operation:<6} {plugin:<9} {others:>10} {:>9} {:>9} {:>9} {:>11} {:>11} {:>7} {:>7}",
        milliseconds(floor),
        milliseconds(ours),
        milliseconds(reference),
        ratio(ours),
        ratio(reference),
        calls.0,
        calls.1
    );
}

/// A host with containers of ours. One more has come and gone, and left what containers share.
struct MeasuredHost<'s> {
    runtime: Runtime<'s>,
    _neighbours: NeighbourContainers,
    /// What names of its files contain that no other host has: the folder of its records, and the inode of its namespace.
    names: [String; 2],
}

fn host<'s>(sandbox: &'s Sandbox, ours: &Path, others: usize) -> MeasuredHost<'s> {
    let nomad = Nomad::default();
    nomad.ensure_forwarding_rules(sandbox);
    let runtime = Runtime::new(sandbox, nomad.conflist()).binaries(ours);
    let neighbours = NeighbourContainers::new(sandbox, &runtime, 0..others);
    let (_container, mut attachment) = newcomer(sandbox, others);
    runtime.add(&mut attachment).expect_success();
    let names = [folder_of_host(), inode_of_host()];
    runtime.del(&attachment).expect_success();
    MeasuredHost { runtime, _neighbours: neighbours, names }
}

fn folder_of_host() -> String {
    let entries = fs::read_dir(HOSTS).expect("the folder of the records");
    let mut names = entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("its name is text"));
    names.find(|name| name.matches('-').count() == 5).expect("the host's folder")
}

fn time_turns(folder: &Path, filler: &Path, others: usize, next: &dyn Fn() -> Option<()>, tell: &dyn Fn(Turn)) {
    let sandbox = Sandbox::new();
    let host = host(&sandbox, filler, others);
    let runtime = host.runtime.clone().binaries(folder);
    let mut number = others;
    while next().is_some() {
        number += 1;
        thread::sleep(settling(others));
        let chains = OPERATIONS.into_iter().zip(life(&sandbox, &runtime, number));
        let steps = chains.flat_map(|(operation, chain)| {
            let done = chain.steps().iter().filter(|(_, outcome)| outcome.succeeded());
            let step = |(plugin, outcome): &(String, cni_conformance::Outcome)| Step {
                operation,
                plugin: plugin.clone(),
                time: outcome.elapsed(),
                calls: (0, 0),
            };
            done.map(step).collect::<Vec<_>>()
        });
        tell(steps.collect());
    }
}

fn record_turns(
    folder: &Path,
    others: usize,
    recordings: &Sender<Recording>,
    next: &dyn Fn() -> Option<()>,
    tell: &dyn Fn(Turn),
) {
    let sandbox = Sandbox::new();
    let host = host(&sandbox, folder, others);
    fs::create_dir(RECORDS).expect("a folder for the recorder");
    let recorder = std::env::current_exe().expect("this program has a path");
    let runtime =
        host.runtime.clone().launched_by(&[recorder.to_str().expect("its path is text"), "--record", RECORDS]);
    for turn in 0.. {
        if next().is_none() {
            break;
        }
        let (container, mut attachment) = newcomer(&sandbox, others + turn + 1);
        let mut steps = Vec::new();
        runtime.add(&mut attachment).expect_success();
        steps.extend(recorded("ADD", PLUGINS));
        let after_add = (turn < COMPARED_TURNS).then(|| state(&sandbox, &container, &host.names));
        runtime.check(&attachment).expect_success();
        steps.extend(recorded("CHECK", PLUGINS));
        runtime.del(&attachment).expect_success();
        let [first, second, third, fourth] = PLUGINS;
        steps.extend(recorded("DEL", [fourth, third, second, first]));
        let states = after_add.map(|after_add| [after_add, state(&sandbox, &container, &host.names)]);
        recordings.send(Recording { steps, names: host.names.clone(), states }).expect("the floor waits for it");
        tell(Vec::new());
    }
}

/// Reads what the recorder has written for each plugin, in the order of the calls.
fn recorded(operation: &'static str, plugins: [&'static str; 4]) -> Vec<(Step, Vec<Call>)> {
    let read = |plugin: &str| {
        let text = fs::read(Path::new(RECORDS).join(plugin)).expect("the recorder has written the calls");
        let calls: Vec<Call> = serde_json::from_slice(&text).expect("recorded calls");
        let counted = (calls.len(), select::unavoidable(&calls).len());
        (Step { operation, plugin: plugin.to_owned(), time: Duration::ZERO, calls: counted }, calls)
    };
    plugins.map(read).into()
}

fn replay_turns(
    folder: &Path,
    replay: &Path,
    others: usize,
    recordings: &Receiver<Recording>,
    next: &dyn Fn() -> Option<()>,
    tell: &dyn Fn(Turn),
) {
    let sandbox = Sandbox::new();
    let MeasuredHost { names: here, .. } = &host(&sandbox, folder, others);
    for turn in 0.. {
        if next().is_none() {
            break;
        }
        let (container, _) = newcomer(&sandbox, others + turn + 1);
        thread::sleep(settling(others));
        let Recording { steps, names, states } = recordings.recv().expect("the recorder has sent its turn");
        let mut done = Vec::new();
        for (at, (step, calls)) in steps.iter().enumerate() {
            let calls = select::unavoidable(calls);
            let script = script::script(&calls, [0, 1].map(|name| (&*names[name], &*here[name])));
            let ended = child::run(Command::new(replay), &script, LIMIT);
            let different = ended.stderr.split(' ').find_map(|word| calls.get(word.parse::<usize>().ok()?));
            assert!(ended.code == Some(0), "{step:?}: {}{different:?}", ended.stderr);
            done.push(Step { time: ended.elapsed, ..step.clone() });
            let is_last = |operation| steps.get(at + 1).is_none_or(|(next, _)| next.operation != operation);
            for (place, operation) in ["ADD", "DEL"].into_iter().enumerate() {
                if let (Some(states), true) = (&states, step.operation == operation && is_last(operation)) {
                    let state = state(&sandbox, &container, here);
                    let different: Vec<_> = state.symmetric_difference(&states[place]).collect();
                    assert!(different.is_empty(), "after {operation}: {different:#?}");
                }
            }
        }
        tell(done);
    }
}

fn inode_of_host() -> String {
    fs::metadata("/proc/thread-self/ns/net").expect("the host's namespace").ino().to_string()
}

/// What plugins have made on the host and in the container, in lines, without the host's own names. The kernel sets `linkdown`
/// later.
fn state(sandbox: &Sandbox, container: &Container, [folder, inode]: &[String; 2]) -> BTreeSet<String> {
    let host = ["iptables-save", "ip -o -4 address", "ip -4 route", "find /run/cni /var/lib/cni"];
    let inside = ["ip -o -4 address", "ip -4 route"];
    let texts = host.map(|line| sandbox.sh(line)).into_iter().chain(inside.map(|line| container.sh(line)));
    let lines = texts.flat_map(|text| {
        text.lines()
            .map(|line| line.replace(folder, "HOST").replace(inode, "HOST").replace(" linkdown", ""))
            .collect::<Vec<_>>()
    });
    lines.filter(|line| !line.starts_with('#') && !line.starts_with(':')).collect()
}
