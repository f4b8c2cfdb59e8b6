//! DEL while one part of the host is broken: everything else of the container is removed, the error names the part,
//! and the next DEL after its repair removes the rest. Another container keeps everything.

use std::time::Duration;

use cni_conformance::table::work_out;
use cni_conformance::{Outcome, Verb};

use crate::backends::backend_host::{BackendHost, ServingContainer};
use crate::backends::network::{Backend, Stack};

mod damage;
mod left;
mod part;

use damage::Damage;
use part::Part;

/// Host ports of the container that stays, of the one whose DEL is watched, and of the one that goes.
const KEPT: u16 = 8081;
const SCOUT: u16 = 8082;
const GOES: u16 = 8080;

/// In the order of DEL. A chain ends at the first plugin that fails; some runtimes go on with the others.
const BACKWARD: [&str; 4] = ["portmap", "firewall", "bridge", "loopback"];

/// As long as a plugin may wait, by its own words: once for ten seconds, and a second for each lock after that.
const LONGEST_WAIT: Duration = Duration::from_secs(13);

/// That, and the work on a busy machine: the programs of legacy iptables are started again and again. Three waits of ten seconds are
/// more.
const LONGEST: Duration = Duration::from_secs(28);

#[test]
fn del_goes_on_whatever_is_broken() {
    let mut cells = Vec::new();
    for (part, wanted) in part::TABLE {
        for (backend, wanted) in Backend::ALL.into_iter().zip(wanted) {
            if wanted != part::NOT_THERE {
                cells.push(([part.name(), backend.name()].map(str::to_owned), (part, backend, wanted)));
            }
        }
    }
    work_out(["broken", "back end"], cells, |(part, backend, wanted)| {
        let seen = delete(part, &BackendHost::new(backend, Stack::Dual));
        assert!(seen == wanted, "{seen}, but must be: {wanted}");
        seen
    });
}

/// Works out a cell: who fails with which code, and what is left then.
fn delete(part: Part, machine: &BackendHost) -> String {
    let kept = machine.attach("kept", KEPT);
    let scout = machine.attach("scout", SCOUT);
    let mut attached = machine.attach("goes", GOES);
    for connected in [&scout, &attached] {
        machine.serves(connected);
    }
    attached.stop_serving();
    let damage = Damage::to(part, machine, &scout);
    let outcomes = BACKWARD.map(|plugin| (plugin, call(machine, &attached, plugin, &damage)));
    damage.mend(machine);
    let failed: Vec<String> = outcomes.iter().filter_map(|(plugin, outcome)| judge(part, plugin, outcome)).collect();
    let seen = format!("{} | {}", failed.join(" "), left::of(machine, &attached).join(" "));

    machine.runtime().del(&attached.attachment).expect_success();
    assert_eq!(left::of(machine, &attached), [""; 0], "after the second DEL; the first: {seen}");
    machine.runtime().check(&kept.attachment).expect_success();
    machine.runtime().del(&kept.attachment).expect_success();
    left::assert_nothing_of_anybody(machine);
    seen.trim().to_owned()
}

fn call(machine: &BackendHost, attached: &ServingContainer, plugin: &str, damage: &Damage) -> Outcome {
    let result = attached.attachment.result.as_ref();
    damage.suffered_by(machine.runtime().invocation(Verb::Del, plugin, &attached.attachment, result), plugin).run()
}

/// How long a plugin has waited, by its message: `gave up after 10s`.
fn reported_waits(outcome: &Outcome) -> Duration {
    let said = [outcome.stdout(), outcome.stderr()].join("\n");
    let seconds = said.split("gave up after ").skip(1).filter_map(|rest| rest.split_once('s')?.0.parse::<f64>().ok());
    Duration::from_secs_f64(seconds.sum())
}

/// Requires that a failure names the part, and that no plugin has waited for long.
fn judge(part: Part, plugin: &str, outcome: &Outcome) -> Option<String> {
    assert!(outcome.elapsed() < LONGEST, "{plugin} takes {:?}: {outcome}", outcome.elapsed());
    assert!(reported_waits(outcome) <= LONGEST_WAIT, "{plugin} waits {:?}: {outcome}", reported_waits(outcome));
    if outcome.succeeded() {
        return None;
    }
    let error = outcome.error();
    let text = format!("{}: {}", error.msg, error.details);
    assert!(part.words().iter().any(|words| text.contains(words)), "{plugin} must say {:?}: {text}", part.words());
    Some(format!("{plugin}:{}", error.code))
}
