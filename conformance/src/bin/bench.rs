//! Compares the speed of two folders of plugins, in one run and turn by turn, so that the ratios hold on a
//! noisy machine where the times do not.
//!
//! Usage: `bench OURS REFERENCE`. Each side has a sandbox of its own. Nomad's chain is added, checked and
//! deleted with 0, 100 and 300 other containers on the host, then with 0 to 200 000 UDP connections to
//! others; `host-local` with 0 to 10 000 leases.
#![expect(clippy::print_stdout, reason = "a table for a person to read")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use cni_conformance::traffic::crowd;
use cni_conformance::{Attachment, Invocation, Nomad, PortMapping, Runtime, Sandbox, Spelling, Verb};
use serde_json::{Value, json};

/// How often each operation is measured.
const ROUNDS: usize = 15;
const CONTAINERS: [usize; 3] = [0, 100, 300];
const CONNECTIONS: [usize; 3] = [0, 20_000, 200_000];
const LEASES: [usize; 3] = [0, 1000, 10_000];

/// What one turn of a side took, by operation.
type Times = Vec<(&'static str, Duration)>;

/// A side of the comparison, working in a thread and a sandbox of its own, one turn for each request.
struct Side {
    request: Sender<()>,
    answer: Receiver<Times>,
}

impl Side {
    fn start(work: impl FnOnce(&dyn Fn() -> Option<()>, &dyn Fn(Times)) + Send + 'static) -> Self {
        let (request, requests) = channel();
        let (answers, answer) = channel();
        thread::spawn(move || {
            let next = || requests.recv().ok();
            let tell = |times| answers.send(times).expect("the comparison waits for an answer");
            work(&next, &tell);
        });
        Self { request, answer }
    }

    fn turn(&self) -> Times {
        self.request.send(()).expect("the side is at work");
        self.answer.recv().expect("the side answers")
    }
}

fn main() {
    let folders: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [ours, reference] = &folders[..] else {
        eprintln!("usage: bench OURS REFERENCE");
        std::process::exit(2);
    };
    println!("medians of {ROUNDS} turns; a ratio of 4 means that the reference takes four times as long\n");
    println!("{:<22} {:>8} {:>12} {:>12} {:>8}", "Nomad's chain, IPv4", "others", "ours", "reference", "ratio");
    for others in CONTAINERS {
        let start = |folder: &Path| {
            let folder = folder.to_owned();
            Side::start(move |next, tell| chain(&folder, others, 0, next, tell))
        };
        compare(others, &start(ours), &start(reference));
    }
    println!("\n{:<22} {:>8} {:>12} {:>12} {:>8}", "Nomad's chain, IPv4", "flows", "ours", "reference", "ratio");
    for connections in CONNECTIONS {
        let start = |folder: &Path| {
            let folder = folder.to_owned();
            Side::start(move |next, tell| chain(&folder, 0, connections, next, tell))
        };
        compare(connections, &start(ours), &start(reference));
    }
    println!("\n{:<22} {:>8} {:>12} {:>12} {:>8}", "host-local", "leases", "ours", "reference", "ratio");
    for leases in LEASES {
        let start = |folder: &Path| {
            let folder = folder.to_owned();
            Side::start(move |next, tell| host_local(&folder, leases, next, tell))
        };
        compare(leases, &start(ours), &start(reference));
    }
}

fn compare(size: usize, ours: &Side, reference: &Side) {
    let mut times: BTreeMap<&str, [Vec<Duration>; 2]> = BTreeMap::new();
    // The first turn makes what containers share; it is not counted.
    ours.turn();
    reference.turn();
    for _ in 0..ROUNDS {
        for (side, turn) in [ours.turn(), reference.turn()].into_iter().enumerate() {
            for (operation, time) in turn {
                times.entry(operation).or_default()[side].push(time);
            }
        }
    }
    for (operation, [ours, reference]) in &mut times {
        let (ours, reference) = (median(ours), median(reference));
        let ratio = reference.as_secs_f64() / ours.as_secs_f64();
        println!("{operation:<22} {size:>8} {ours:>12.1?} {reference:>12.1?} {ratio:>8.1}");
    }
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn chain(folder: &Path, others: usize, connections: usize, next: &dyn Fn() -> Option<()>, tell: &dyn Fn(Times)) {
    let sandbox = Sandbox::new();
    let nomad = Nomad::default();
    nomad.ensure_forwarding_rules(&sandbox);
    let runtime = Runtime::new(&sandbox, nomad.conflist()).binaries(folder);
    let mut standing = Vec::new();
    let attach = |number: usize| {
        let container = sandbox.container(&format!("c{number}"));
        let port = 10_000 + u16::try_from(number).expect("a few hundred containers");
        let attachment =
            Attachment::new(&format!("c{number}"), &container).ports(&PortMapping::twins(port, 80), Spelling::Go);
        (container, attachment)
    };
    for number in 0..others {
        let (container, mut attachment) = attach(number);
        runtime.add(&mut attachment).expect_success();
        standing.push((container, attachment));
    }
    let mut number = others;
    while next().is_some() {
        if number == others + 1 {
            // The first turn has made rules, without which the host tracks nothing.
            crowd(&sandbox, connections);
        }
        number += 1;
        let (_container, mut attachment) = attach(number);
        let add = runtime.add(&mut attachment);
        add.expect_success();
        let check = runtime.check(&attachment);
        let del = runtime.del(&attachment);
        let took = |chain: &cni_conformance::Chain| chain.steps().iter().map(|(_, step)| step.elapsed()).sum();
        tell(vec![("ADD", took(&add)), ("CHECK", took(&check)), ("DEL", took(&del))]);
    }
}

fn host_local(folder: &Path, leases: usize, next: &dyn Fn() -> Option<()>, tell: &dyn Fn(Times)) {
    let sandbox = Sandbox::new();
    let directory = Path::new("/run/cni/bench");
    std::fs::create_dir_all(directory).expect("a folder for the leases");
    for number in 1..=leases {
        let address = std::net::Ipv4Addr::from(0x0a00_0001 + u32::try_from(number).expect("a few leases"));
        std::fs::write(directory.join(address.to_string()), format!("lease{number}\r\neth0")).expect("a lease");
    }
    let last = std::net::Ipv4Addr::from(0x0a00_0001 + u32::try_from(leases).expect("a few leases"));
    if leases > 0 {
        std::fs::write(directory.join("last_reserved_ip.0"), last.to_string()).expect("a cursor");
    }
    let config: Value = json!({
        "cniVersion": "1.0.0", "name": "bench", "type": "x",
        "ipam": {"type": "host-local", "dataDir": "/run/cni", "ranges": [[{"subnet": "10.0.0.0/8"}]]},
    });
    let mut number = 0;
    while next().is_some() {
        number += 1;
        let call = |verb| {
            let call = Invocation::new(&sandbox, "host-local", verb).binaries(folder).config(&config);
            let outcome = call.container_id(&format!("new{number}")).netns("/nowhere").run();
            outcome.expect_success();
            outcome.elapsed()
        };
        tell(vec![("ADD", call(Verb::Add)), ("DEL", call(Verb::Del)), ("DEL again", call(Verb::Del))]);
    }
}
