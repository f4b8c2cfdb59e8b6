//! Measures ADD, CHECK and DEL of Nomad's chain for one container, beside others.

use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use cni_conformance::{Attachment, Chain, Container, Flavour, Nomad, PortMapping, Runtime, Sandbox, Spelling};
use serde_json::{Value, json};

use crate::side::{BenchSide, in_turns};
use crate::table::{growth, head, median, row};
use crate::{BenchPlan, ComparedFolders};

/// Which packet filter has the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Filter {
    Iptables(Flavour),
    /// Each plugin's own backend for nf_tables.
    Nftables,
}

/// What an operation took, over all plugins of the chain.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    wall: Duration,
    cpu: Duration,
    /// The largest of the plugins, in bytes.
    memory: u64,
}

/// What was counted in one traced run.
#[derive(Clone, Copy, Debug, Default)]
struct CallCounts {
    processes: usize,
    messages: usize,
}

const OPERATIONS: [&str; 3] = ["ADD", "CHECK", "DEL"];

/// What one turn took, by operation, and what was counted once.
type ChainRun = [(Cost, CallCounts); 3];

/// Compares both sides beside more and more containers, and ours with itself.
pub fn compare(sides: &ComparedFolders, plan: &BenchPlan) {
    let iptables = Filter::Iptables(Flavour::Nft);
    head("Nomad's chain, IPv4", "containers");
    for others in plan.containers {
        beside(sides, iptables, *others, plan.rounds);
    }
    head("iptables-legacy", "containers");
    beside(sides, Filter::Iptables(Flavour::Legacy), 0, plan.rounds);
    println!("\nOurs beside others, against ours alone");
    for filter in [iptables, Filter::Nftables] {
        grow(sides, filter, plan);
    }
}

fn beside(sides: &ComparedFolders, filter: Filter, others: usize, rounds: usize) {
    let [ours, reference] =
        in_turns(rounds, [&sides.ours, &sides.reference].map(|folder| side(folder, sides, filter, others)));
    for (at, operation) in OPERATIONS.into_iter().enumerate() {
        row(operation, others, middle(&ours, at).wall, middle(&reference, at).wall);
    }
    if others == 0 {
        details(&ours, &reference);
    }
}

/// Measures ours on an empty host and on full ones, in turns.
fn grow(sides: &ComparedFolders, filter: Filter, plan: &BenchPlan) {
    let name = match filter {
        Filter::Iptables(_) => "iptables",
        Filter::Nftables => "nftables",
    };
    for others in plan.containers.iter().copied().filter(|others| *others > 0) {
        let [alone, crowded] =
            in_turns(plan.rounds, [0, others].map(|beside| side(&sides.ours, sides, filter, beside)));
        for (at, operation) in OPERATIONS.into_iter().enumerate() {
            let [alone, crowded] = [&alone, &crowded].map(|turns| middle(turns, at).wall);
            growth(&format!("{operation}, {name}"), others, crowded, alone);
        }
    }
}

fn middle(turns: &[ChainRun], at: usize) -> Cost {
    let costs = || turns.iter().map(|turn| turn[at].0);
    Cost {
        wall: median(costs().map(|cost| cost.wall).collect()),
        cpu: median(costs().map(|cost| cost.cpu).collect()),
        memory: costs().map(|cost| cost.memory).max().unwrap_or_default(),
    }
}

fn details(ours: &[ChainRun], reference: &[ChainRun]) {
    println!("  {:<20} {:>10} {:>11} {:>11} {:>11}", "of these", "processor", "memory", "processes", "messages");
    for (at, operation) in OPERATIONS.into_iter().enumerate() {
        for (who, turns) in [("ours", ours), ("reference", reference)] {
            let Cost { cpu, memory, .. } = middle(turns, at);
            let counts = turns.last().map(|turn| turn[at].1).unwrap_or_default();
            let memory = format!("{:.1} MB", memory as f64 / 1e6);
            let CallCounts { processes, messages } = counts;
            println!("  {operation:<6} {who:<13} {cpu:>10.1?} {memory:>11} {processes:>11} {messages:>11}");
        }
    }
}

fn side(folder: &Path, sides: &ComparedFolders, filter: Filter, others: usize) -> BenchSide<ChainRun> {
    let (folder, filler) = (folder.to_owned(), sides.ours.clone());
    BenchSide::start(move |next, tell| work(&folder, &filler, (filter, others), next, tell))
}

/// Nomad's list; for nf_tables with the backend named in each plugin.
fn list(nomad: &Nomad, filter: Filter) -> Value {
    let mut list = nomad.conflist();
    if filter == Filter::Nftables {
        for plugin in list["plugins"].as_array_mut().expect("plugins") {
            let key = if plugin["type"] == "bridge" { "ipMasqBackend" } else { "backend" };
            plugin[key] = json!("nftables");
        }
    }
    list
}

/// A host with containers, all of them made by the plugins of one folder.
pub struct NeighbourContainers {
    pub standing: Vec<(Container, Attachment)>,
}

/// A container with one port by TCP and UDP, which is not attached yet.
pub fn new_container(sandbox: &Sandbox, number: usize) -> (Container, Attachment) {
    let name = format!("c{number}");
    let container = sandbox.container(&name);
    let port = 10_000 + u16::try_from(number).expect("a few thousand containers");
    let attachment = Attachment::new(&name, &container).ports(&PortMapping::twins(port, 80), Spelling::Go);
    (container, attachment)
}

impl NeighbourContainers {
    pub fn new(sandbox: &Sandbox, runtime: &Runtime<'_>, containers: Range<usize>) -> Self {
        let attach = |number| {
            let (container, mut attachment) = new_container(sandbox, number);
            runtime.add(&mut attachment).expect_success();
            (container, attachment)
        };
        Self { standing: containers.map(attach).collect() }
    }
}

fn work(
    folder: &Path,
    filler: &Path,
    (filter, others): (Filter, usize),
    next: &dyn Fn() -> Option<()>,
    tell: &dyn Fn(ChainRun),
) {
    let flavour = if let Filter::Iptables(flavour) = filter { flavour } else { Flavour::Nft };
    let sandbox = Sandbox::with_flavour(flavour);
    let nomad = Nomad::default();
    nomad.ensure_forwarding_rules(&sandbox);
    let runtime = Runtime::new(&sandbox, list(&nomad, filter)).binaries(folder);
    let crowded = NeighbourContainers::new(&sandbox, &runtime.clone().binaries(filler), 0..others);
    let mut number = crowded.standing.len();
    let mut counted = [CallCounts::default(); 3];
    while next().is_some() {
        number += 1;
        let costs = life(&sandbox, &runtime, number).map(|chain| cost(&chain));
        if others == 0 && number == 2 {
            number += 1;
            counted = life(&sandbox, &runtime.clone().traced(), number).map(|chain| counts(&chain));
        }
        let [add, check, del] = costs;
        let [of_add, of_check, of_del] = counted;
        tell([(add, of_add), (check, of_check), (del, of_del)]);
    }
}

/// ADD, CHECK and DEL of one container. The reference's CHECK may fail where it is wrong.
fn life(sandbox: &Sandbox, runtime: &Runtime<'_>, number: usize) -> [Chain; 3] {
    let (_container, mut attachment) = new_container(sandbox, number);
    let add = runtime.add(&mut attachment);
    add.expect_success();
    let check = runtime.check(&attachment);
    let del = runtime.del(&attachment);
    [add, check, del]
}

fn cost(chain: &Chain) -> Cost {
    let steps = || chain.steps().iter().map(|(_, outcome)| outcome);
    Cost {
        wall: steps().map(cni_conformance::Outcome::elapsed).sum(),
        cpu: steps().map(|outcome| outcome.usage().cpu).sum(),
        memory: steps().map(|outcome| outcome.usage().memory).max().unwrap_or_default(),
    }
}

fn counts(chain: &Chain) -> CallCounts {
    let steps = || chain.steps().iter().map(|(_, outcome)| outcome);
    CallCounts {
        processes: steps().map(|outcome| 1 + outcome.children().len()).sum(),
        messages: steps().map(cni_conformance::Outcome::netlink_messages).sum(),
    }
}
