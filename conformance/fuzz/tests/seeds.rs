//! Every target with its seeds, and with some thousand inputs that are made of them, the same ones each time.

use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::thread;

use cni_conformance::numbers::Numbers;
use cni_fuzz::{FuzzTarget, TARGETS};

/// Inputs for each target.
const INPUTS: usize = 2000;

fn listed(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("list {}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths
}

fn seeds() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds")
}

/// What is refused is called so, so that a target does not lose what it once tried.
#[test]
fn every_property_holds_for_every_seed() {
    let mut misnamed = Vec::new();
    for target in TARGETS {
        let seeds = listed(&seeds().join(target.name));
        assert!(!seeds.is_empty(), "{} has seeds", target.name);
        for seed in seeds {
            let input = fs::read(&seed).expect("read");
            let held = catch_unwind(|| (target.run)(&input)).unwrap_or_else(|_| panic!("{}", seed.display()));
            let is_refused = seed.file_name().is_some_and(|name| name.to_string_lossy().starts_with("refused-"));
            if held.is_none() != is_refused {
                misnamed.push(seed);
            }
        }
    }
    assert!(misnamed.is_empty(), "{misnamed:#?}");
}

/// Those that a plugin refuses hold as well.
#[test]
fn every_property_holds_for_the_rows_of_the_plugins() {
    let run = cni_fuzz::target("config").expect("the target of configurations").run;
    for (name, seed) in cni_fuzz::rows::seeds() {
        catch_unwind(|| run(seed.as_bytes())).unwrap_or_else(|_| panic!("{name}: {seed}"));
    }
}

/// libFuzzer finds more, led by the branches that an input takes; this needs no build of its own.
#[test]
fn every_property_holds_for_inputs_made_of_the_seeds() {
    let dictionary = fs::read_to_string(seeds().with_file_name("words.dict")).expect("read the words");
    let words: Vec<&str> = dictionary.lines().filter_map(|line| line.strip_prefix('"')?.strip_suffix('"')).collect();
    thread::scope(|scope| {
        for targets in TARGETS.chunks(TARGETS.len().div_ceil(2)) {
            scope.spawn(|| targets.iter().for_each(|target| try_inputs(target, &words)));
        }
    });
}

fn try_inputs(target: &FuzzTarget, words: &[&str]) {
    let mut seeds: Vec<Vec<u8>> =
        listed(&seeds().join(target.name)).iter().map(|seed| fs::read(seed).expect("read")).collect();
    if target.name == "config" {
        seeds.extend(cni_fuzz::rows::seeds().into_iter().map(|(_, seed)| seed.into()));
    }
    let (mut numbers, mut accepted) = (Numbers::of(1), 0);
    for _ in 0..INPUTS {
        let seed = &seeds[numbers.below(seeds.len())];
        let mut input = seed.clone();
        for _ in 0..=numbers.below(2) {
            change(&mut input, words, &seeds, &mut numbers);
        }
        let done = catch_unwind(|| (target.run)(&input));
        let held = done.unwrap_or_else(|_| panic!("{}: {}", target.name, input.escape_ascii()));
        accepted += usize::from(held.is_some() && input != *seed);
    }
    assert!(accepted > INPUTS / 100, "{}: nearly all that were changed are refused: {accepted} are not", target.name);
}

/// Replaces a part of an input by nothing, a byte, a word, or a part of a seed.
fn change(input: &mut Vec<u8>, words: &[&str], seeds: &[Vec<u8>], numbers: &mut Numbers) {
    let mut part = |length: usize| {
        let from = numbers.below(length + 1);
        from..from + numbers.below((length - from).min(8) + 1)
    };
    let seed = &seeds[part(seeds.len() - 1).start];
    let (place, taken) = (part(input.len()), part(seed.len()));
    let new = match numbers.below(4) {
        0 => Vec::new(),
        1 => vec![u8::try_from(numbers.below(256)).unwrap_or_default()],
        2 => words[numbers.below(words.len())].as_bytes().to_vec(),
        _ => seed[taken].to_vec(),
    };
    input.splice(place, new);
}
