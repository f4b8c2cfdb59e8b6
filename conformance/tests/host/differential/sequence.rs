//! Long mixed sequences of ADD and DEL on one folder of leases, by either host-local and by both in turn.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use cni_conformance::{Invocation, Sandbox, Verb, binaries};
use proptest::collection;
use proptest::prelude::{Strategy, any};
use proptest::prop_oneof;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Value, json};

use crate::differential::reference;

const LENGTH: usize = 200;

/// One call of host-local, for a container by its number.
#[derive(Debug, Clone)]
enum Call {
    Add(usize),
    /// With an address that is asked for.
    Request(usize, &'static str),
    Del(usize),
}

/// Who answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Actor {
    Ours,
    Reference,
}

/// What an ADD or a DEL came to: the addresses, or the words of the error.
type Answer = Result<Vec<String>, String>;

fn calls(containers: usize, addresses: &'static [&'static str]) -> impl Strategy<Value = Vec<Call>> {
    let call = prop_oneof![
        6 => (0..containers).prop_map(Call::Add),
        2 => (0..containers, 0..addresses.len()).prop_map(|(container, at)| Call::Request(container, addresses[at])),
        5 => (0..containers).prop_map(Call::Del),
    ];
    collection::vec(call, LENGTH)
}

/// Draws a value from a strategy, the same for the same seed.
fn drawn<T: std::fmt::Debug>(seed: u8, strategy: &impl Strategy<Value = T>) -> T {
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    strategy.new_tree(&mut runner).expect("a value can be drawn").current()
}

/// One set of two ranges; a container may ask for several of its addresses.
#[test]
fn a_long_sequence_on_one_set_goes_the_same_way() {
    let ranges = json!([[{"subnet": "10.1.2.0/29"}, {"subnet": "10.1.3.0/28", "gateway": "10.1.3.4"}]]);
    let requests =
        &["10.1.2.1", "10.1.2.2", "10.1.2.6", "10.1.2.7", "10.1.3.1", "10.1.3.4", "10.1.3.9", "10.1.3.14", "10.9.9.9"];
    agree("a sequence of host-local on one set", 1, &ranges, &drawn(1, &calls(26, requests)));
}

/// One set of each family; a container that holds addresses is not added again, since the reference takes
/// its first ones away when the second ADD fails.
#[test]
fn a_long_sequence_on_two_sets_goes_the_same_way() {
    let ranges = json!([
        [{"subnet": "10.1.2.0/29"}, {"subnet": "10.1.3.0/28"}],
        [{"subnet": "fd00:1::/124", "rangeStart": "fd00:1::8"}],
    ]);
    let requests = &["10.1.2.3", "10.1.3.14", "fd00:1::f", "fd00:1::9", "fd00:1::1", "10.1.2.1"];
    let mut held = BTreeMap::new();
    let mut sequence = drawn(2, &calls(26, requests));
    sequence.retain(|call| match call {
        Call::Add(container) | Call::Request(container, _) => held.insert(*container, ()).is_none(),
        Call::Del(container) => held.remove(container).is_some(),
    });
    agree("a sequence of host-local on two sets", 3, &ranges, &sequence);
}

/// Runs a sequence by the reference, by ours, and by both in turn; all must answer and leave the same.
#[track_caller]
fn agree(test: &str, seed: u8, ranges: &Value, sequence: &[Call]) {
    let Some(reference) = reference::find(test) else { return };
    let folders = (binaries::under_test(), reference.folder);
    let length = sequence.len();
    let expected = run(&folders, ranges, sequence, &vec![Actor::Reference; length]);
    let in_turn = drawn(seed, &collection::vec(any::<bool>(), length));
    let in_turn = in_turn.into_iter().map(|ours| if ours { Actor::Ours } else { Actor::Reference }).collect();
    for (who, actors) in [("ours", vec![Actor::Ours; length]), ("both in turn", in_turn)] {
        let found = run(&folders, ranges, sequence, &actors);
        for (number, (expected, found)) in expected.iter().zip(&found).enumerate() {
            let (call, actor) = (&sequence[number], actors[number]);
            assert_eq!(
                found, expected,
                "{who}: call {number}, {call:?} by {actor:?}; left ours, right the reference's"
            );
        }
    }
    let refused = expected.iter().filter(|(answer, _)| answer.is_err()).count();
    assert!(refused > 5 && expected.len() - refused > 50, "{refused} of {} refused: no good sequence", expected.len());
}

/// Returns each answer, with the files after it.
fn run(
    folders: &(PathBuf, PathBuf),
    ranges: &Value,
    sequence: &[Call],
    actors: &[Actor],
) -> Vec<(Answer, BTreeMap<String, String>)> {
    let sandbox = Sandbox::new();
    let ipam = json!({"type": "host-local", "ranges": ranges, "dataDir": "/run/cni"});
    let config = json!({"cniVersion": "1.0.0", "name": "net1", "type": "bridge", "ipam": ipam});
    let step = |(call, actor): (&Call, &Actor)| {
        let folder = if *actor == Actor::Ours { &folders.0 } else { &folders.1 };
        (answer(&sandbox, folder, &config, call), files())
    };
    sequence.iter().zip(actors).map(step).collect()
}

fn answer(sandbox: &Sandbox, folder: &Path, config: &Value, call: &Call) -> Answer {
    let (verb, container, args) = match call {
        Call::Add(container) => (Verb::Add, container, String::new()),
        Call::Request(container, address) => (Verb::Add, container, format!("IP={address}")),
        Call::Del(container) => (Verb::Del, container, String::new()),
    };
    let invocation = Invocation::new(sandbox, "host-local", verb).binaries(folder).config(config);
    let outcome = invocation.container_id(&format!("c{container}")).netns("/run/netns/never").args(&args).run();
    if !outcome.succeeded() {
        return Err(outcome.error().msg);
    }
    let result = if verb == Verb::Add { outcome.result() } else { json!({"ips": []}) };
    let ips = result["ips"].as_array().expect("addresses").iter();
    Ok(ips.map(|ip| ip["address"].as_str().expect("an address is text").to_owned()).collect())
}

/// Returns the files that the reference knows, with what they say.
fn files() -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let Ok(entries) = fs::read_dir("/run/cni/net1") else { return found };
    for entry in entries {
        let entry = entry.expect("read the folder's list");
        if entry.path().is_file() {
            let content = fs::read_to_string(entry.path()).expect("read a file");
            found.insert(entry.file_name().into_string().expect("a name is text"), content);
        }
    }
    found
}
