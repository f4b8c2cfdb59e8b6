//! ADD that came no further than some plugin, and ADD and DEL that were killed on the way.

use std::thread;
use std::time::Duration;

use cni_conformance::cases::for_each;
use cni_conformance::{Attachment, Flavour, Nomad, Runtime, Verb};

use crate::del::del_host::DelHost;

const PLUGINS: [&str; 4] = ["loopback", "bridge", "firewall", "portmap"];

/// How often a process is killed, for each network.
const ROUNDS: u32 = 30;

/// How long a killed process' children may take to end inside of the kernel.
const LAST_BREATH: Duration = Duration::from_millis(50);

fn networks() -> [(&'static str, Nomad); 2] {
    [("v4", Nomad::default()), ("v4 and v6", Nomad::default().dual_stack())]
}

/// A runtime has no result of an ADD that failed.
#[test]
fn del_takes_away_what_an_unfinished_add_made() {
    let starts = (0..=PLUGINS.len()).flat_map(|count| networks().map(|(families, nomad)| (families, nomad, count)));
    let named = starts.map(|start| (format!("{} after {} plugins", start.0, start.2), start));
    for_each(named, |(_, nomad, count)| {
        for gone in [false, true] {
            let machine = DelHost::new(nomad.clone(), Flavour::Nft);
            let before = machine.host();
            let container = machine.sandbox.container("unfinished");
            let mut attachment = machine.describe(&container, 8080);
            machine.runtime_without(&PLUGINS[count..]).add(&mut attachment);
            if gone {
                container.remove();
            }
            machine.runtime().del(&attachment.without_result()).expect_success();
            machine.skeleton().assert_nothing_else(&before, || machine.host());
        }
    });
}

#[test]
fn del_takes_away_what_a_killed_add_made() {
    for_each(networks(), |nomad| kill_and_delete(&nomad, Verb::Add));
}

#[test]
fn del_takes_away_what_a_killed_del_left() {
    for_each(networks(), |nomad| kill_and_delete(&nomad, Verb::Del));
}

/// Half of the rounds start on a machine where no container has been.
fn kill_and_delete(nomad: &Nomad, killed: Verb) {
    let mut chance = FixedRandom(7);
    let mut hits = 0;
    let times = usual_times(&DelHost::new(nomad.clone(), Flavour::Nft), killed);
    // A busy machine lets some end before their time: then there are more rounds.
    for round in 0..4 * ROUNDS {
        if round >= ROUNDS && hits >= ROUNDS / 3 {
            break;
        }
        let machine = DelHost::new(nomad.clone(), Flavour::Nft);
        if round % 2 == 0 {
            drop(machine.add("neighbour", 9090));
        }
        let before = machine.host();
        let container = machine.sandbox.container("victim");
        let mut attachment = machine.describe(&container, 8080);
        if killed == Verb::Del {
            machine.runtime().add(&mut attachment).expect_success();
        }
        let victim = PLUGINS[round as usize % PLUGINS.len()];
        let after = chance.part_of(times[round as usize % PLUGINS.len()]);
        if run_until_killed(&machine.runtime(), &attachment, killed, victim, after) {
            hits += 1;
            thread::sleep(LAST_BREATH);
        }
        if round % 3 == 0 {
            container.remove();
        }
        machine.runtime().del(&attachment).expect_success();
        eprintln!("round {round}, {victim} killed after {after:?}");
        machine.skeleton().assert_nothing_else(&before, || machine.host());
    }
    assert!(hits >= ROUNDS / 3, "only {hits} processes were killed before they ended");
}

/// Returns how long each plugin takes, for a container that is deleted afterwards.
fn usual_times(machine: &DelHost, verb: Verb) -> Vec<Duration> {
    let container = machine.sandbox.container("measured");
    let mut attachment = machine.describe(&container, 7070);
    let runtime = machine.runtime();
    let add = runtime.add(&mut attachment);
    let del = runtime.del(&attachment);
    let chain = if verb == Verb::Add { &add } else { &del };
    chain.expect_success();
    PLUGINS.map(|plugin| chain.step(plugin).elapsed()).to_vec()
}

/// Runs the plugins in their order, and kills one of them; tells whether it still ran.
fn run_until_killed(runtime: &Runtime<'_>, attachment: &Attachment, verb: Verb, victim: &str, after: Duration) -> bool {
    let mut order = PLUGINS.to_vec();
    if verb == Verb::Del {
        order.reverse();
    }
    let mut result = attachment.result.clone();
    for plugin in order {
        let invocation = runtime.invocation(verb, plugin, attachment, result.as_ref());
        if plugin == victim {
            return invocation.killed_after(after).run().code().is_none();
        }
        let outcome = invocation.run();
        outcome.expect_success();
        if verb == Verb::Add {
            result = Some(outcome.result());
        }
    }
    panic!("{victim} is not in the list")
}

/// The same numbers in every run, so that a failure comes again.
struct FixedRandom(u64);

impl FixedRandom {
    /// Returns some part of a duration.
    fn part_of(&mut self, whole: Duration) -> Duration {
        // Constants of Knuth's MMIX generator.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let thousandths = u32::try_from((self.0 >> 33) % 1000).expect("below 1000");
        whole * thousandths / 1000
    }
}
