//! The administrator's tool on a full host: what its verbs take beside the living, and for the dead.

use std::ops::Range;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use cni_conformance::child::{self, Finished, Limit};
use cni_conformance::{Nomad, Runtime, Sandbox, result_cache};
use serde_json::{Value, json};

use crate::chain::NeighbourContainers;

/// Longer than a verb may take.
const DEADLINE: Duration = Duration::from_secs(120);

/// So often a verb that changes nothing is called; the median counts.
const ROUNDS: usize = 15;

/// So often all rules are flushed; the median counts.
const FLUSHES: usize = 5;

/// Measures the verbs beside so many living containers, and then with so many dead ones. All are made here.
pub fn measure(folder: &Path, living: usize, dead: usize) {
    let sandbox = Sandbox::new();
    let nomad = Nomad::default();
    nomad.ensure_forwarding_rules(&sandbox);
    let lists = [nomad.conflist(), second(nomad.conflist())];
    let add = |numbers: Range<usize>| {
        let half = usize::midpoint(numbers.start, numbers.end);
        let parts = lists.iter().zip([numbers.start..half, half..numbers.end]).map(|(list, numbers)| {
            let runtime = Runtime::new(&sandbox, list.clone()).binaries(folder);
            let crowd = NeighbourContainers::new(&sandbox, &runtime, numbers);
            crowd.standing.iter().for_each(|(_, attachment)| result_cache::store(list, attachment));
            crowd.standing
        });
        parts.flatten().collect::<Vec<_>>()
    };
    let _living = add(0..living);
    println!("\nThe administrator's tool beside {living} living containers");
    println!("{:<44} {:>10} {:>10} {:>12}", "", "time", "memory", "exit status");
    let run = |words: &[&str]| run(&sandbox, folder, words);
    for verb in ["list", "metrics", "doctor"] {
        show(verb, &median(ROUNDS, || run(&[verb])));
    }
    show("repair, nothing is missing", &median(ROUNDS, || run(&["repair"])));
    let after_flush = || {
        sandbox.sh("iptables -t nat -F");
        sandbox.sh("iptables -F");
        run(&["repair"])
    };
    show("repair, after a flush of all rules", &median(FLUSHES, after_flush));
    add(living..living + dead).iter().for_each(|(container, _)| container.remove());
    // A lease of a container that has just come is not judged.
    sandbox.sh("find /run/cni /var/lib/cni -type f -exec touch -d yesterday {} +");
    show(&format!("gc, {dead} more are dead"), &run(&["gc"]));
    show(&format!("gc --remove, {dead} more are dead"), &run(&["gc", "--remove"]));
    let document: Value = serde_json::from_str(&run(&["list", "--json"]).stdout).expect("a document");
    let left = document["attachments"].as_array().map_or(0, Vec::len);
    assert_eq!(left, living, "gc removes the dead, and nobody else");
}

/// The same network by another name: a bridge has at most 1023 ports (`BR_MAX_PORTS` of `net/bridge/br_private.h`).
pub fn second(mut list: Value) -> Value {
    list["name"] = "second".into();
    list["plugins"][1]["bridge"] = "second".into();
    list["plugins"][1]["ipam"]["ranges"] = json!([[{"subnet": "172.27.64.0/20"}]]);
    list
}

/// The run whose time is the median.
fn median(rounds: usize, run: impl FnMut() -> Finished) -> Finished {
    let mut runs: Vec<Finished> = std::iter::repeat_with(run).take(rounds).collect();
    runs.sort_by_key(|done| done.elapsed);
    runs.swap_remove(rounds / 2)
}

fn run(sandbox: &Sandbox, folder: &Path, words: &[&str]) -> Finished {
    let mut command = Command::new(folder.join("cni-plugins"));
    command.args(words).env_clear().env("PATH", sandbox.search_path()).env("LC_ALL", "C");
    child::run(command, b"", Limit::Fail(DEADLINE))
}

fn show(what: &str, done: &Finished) {
    let memory = format!("{:.1} MB", done.usage.memory as f64 / 1e6);
    let status = done.code.map_or_else(|| "killed".to_owned(), |code| code.to_string());
    println!("{what:<44} {:>10.1?} {memory:>10} {status:>12}", done.elapsed);
    if done.code.is_none_or(|code| code > 1) {
        println!("{}{}", done.stdout, done.stderr);
    }
}
