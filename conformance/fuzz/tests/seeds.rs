//! Every target with its seeds.

use std::fs;
use std::path::{Path, PathBuf};

use cni_fuzz::TARGETS;

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
            let held =
                std::panic::catch_unwind(|| (target.run)(&input)).unwrap_or_else(|_| panic!("{}", seed.display()));
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
        std::panic::catch_unwind(|| run(seed.as_bytes())).unwrap_or_else(|_| panic!("{name}: {seed}"));
    }
}
