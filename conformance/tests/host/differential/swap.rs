//! One set of plugins takes over from the other while containers run, in both directions.

use std::fs;

use cni_conformance::compare::accepted::{LineOwner, apply, apply_sorted};
use cni_conformance::compare::normal::snapshot;
use cni_conformance::state::differences;
use cni_conformance::{Attachment, Chain, Flavour, Nomad, PortMapping, Runtime, Sandbox, Spelling, binaries};

use crate::differential::reference::{self, Level, Reference};
use cni_conformance::compare::row::PORTMAP;

/// A call of a runtime, and its container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SwapStep {
    Add(usize),
    Check(usize),
    Del(usize),
}

use SwapStep::{Add, Check, Del};

impl SwapStep {
    fn container(self) -> usize {
        let (Add(at) | Check(at) | Del(at)) = self;
        at
    }
}

/// Containers come, are checked and go; the plugins are exchanged in the middle, and again.
const STEPS: [SwapStep; 14] = [
    Add(0),
    Add(1),
    Check(0), // then the other ones
    Check(0),
    Check(1),
    Add(2),
    Del(0),
    Check(1), // and the first ones again
    Check(2),
    Add(3),
    Del(1),
    Check(3),
    Del(2),
    Del(3),
];

/// From ours to the reference and back.
const THERE_AND_BACK: &str = "OOORRRRROOOOOO";
/// From the reference to ours and back.
const HERE_AND_BACK: &str = "RRROOOOORRRRRR";
const IN_TURN: &str = "OROROROROROROR";

#[test]
fn plugins_are_exchanged_under_running_containers_on_nft_iptables() {
    exchanged(Flavour::Nft, &Nomad::version("1.0.0").dual_stack(), &[THERE_AND_BACK, IN_TURN]);
}

#[test]
fn plugins_are_exchanged_under_running_containers_on_legacy_iptables() {
    exchanged(Flavour::Legacy, &Nomad::default(), &[HERE_AND_BACK]);
}

/// After each step the machine is as if the reference had done it all.
fn exchanged(flavour: Flavour, nomad: &Nomad, turns: &[&str]) {
    let Some(reference) = reference::find("an exchange of plugins under running containers") else { return };
    let expected = walk(flavour, nomad, &reference, &"R".repeat(STEPS.len()));
    for turns in turns {
        let found = walk(flavour, nomad, &reference, turns);
        for (number, (expected, found)) in expected.iter().zip(&found).enumerate() {
            let changes = differences(expected, found);
            let step = STEPS[number];
            assert!(changes.is_empty(), "{turns}: after step {number}, {step:?}:\n{}", changes.join("\n"));
        }
    }
}

fn walk(flavour: Flavour, nomad: &Nomad, reference: &Reference, turns: &str) -> Vec<Vec<String>> {
    let sandbox = Sandbox::with_flavour(flavour);
    nomad.ensure_forwarding_rules(&sandbox);
    let folders = [binaries::under_test(), reference.folder.clone()];
    let runtimes = folders.map(|folder| Runtime::new(&sandbox, nomad.conflist()).binaries(&folder));
    let containers = ["c0", "c1", "c2", "c3"].map(|name| sandbox.container(name));
    let mut attachments: Vec<Attachment> = containers
        .iter()
        .zip(8080..)
        .map(|(container, port)| {
            Attachment::new(container.name(), container).ports(&PortMapping::twins(port, 80), Spelling::Go)
        })
        .collect();
    let mut seen = Vec::new();
    for (step, turn) in STEPS.iter().zip(turns.chars()) {
        let runtime = &runtimes[usize::from(turn == 'R')];
        let by = (turn == 'R').then_some(reference.level);
        match *step {
            Add(at) => drop(runtime.add(&mut attachments[at]).result()),
            Check(at) => checked(&runtime.check(&attachments[at]), by),
            Del(at) => assert!(runtime.del(&attachments[at]).expect_success().succeeded()),
        }
        seen.push(comparable(&snapshot(&sandbox, &[&containers[step.container()]], "")));
    }
    assert_eq!(leases(), [""; 0], "{turns}: all containers are gone");
    seen
}

/// CHECK passes, except for known defects of the reference, whichever plugins did the ADD.
#[track_caller]
fn checked(check: &Chain, by: Option<Level>) {
    match by {
        Some(level) if level <= PORTMAP.until => PORTMAP.expect(check),
        Some(_) | None => assert!(check.expect_success().succeeded()),
    }
}

/// Who wrote a file or made a link depends on the turn, so both sides' differences are set aside.
fn comparable(lines: &[String]) -> Vec<String> {
    let lines: Vec<String> = lines.iter().map(|line| line.replace("/run/cni/nomad/", "/run/cni/net1/")).collect();
    apply_sorted(LineOwner::Ours, &apply(LineOwner::Reference, &lines))
}

fn leases() -> Vec<String> {
    let entries = fs::read_dir("/run/cni/nomad").expect("list the leases");
    let names = entries.map(|entry| entry.expect("read the list").file_name().into_string().expect("a name is text"));
    names.filter(|name| name.parse::<std::net::IpAddr>().is_ok()).collect()
}
