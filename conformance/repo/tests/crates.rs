//! What the crates of others keep to: where they come from, their licences, and one version of each.

use std::collections::BTreeMap;
use std::process::Command;

use cni_repo::top;
use serde_json::Value;

/// The platforms of a release.
const PLATFORMS: [&str; 2] = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"];

const LICENCES: [&str; 2] = ["Apache-2.0", "MIT"];

/// What else a crate is under. The fuzzer is no part of any binary.
const EXCEPTIONS: [(&str, &str); 2] = [("libfuzzer-sys", "NCSA"), ("unicode-ident", "Unicode-3.0")];

/// Two versions of a crate are twice the code. At build time only, until zerocopy-derive and derive_more (by netlink-packet-netfilter) use
/// syn 3.
const MAY_BE_TWICE: [&str; 1] = ["syn"];

/// All crates that are built on a platform, with what the fuzz targets need; not those of this repository.
fn crates(platform: &str) -> Vec<Value> {
    let words = ["metadata", "--format-version=1", "--locked", "--all-features", "--filter-platform", platform];
    let done = Command::new(env!("CARGO")).current_dir(top()).args(words).output().expect("run cargo");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let mut found: Value = serde_json::from_slice(&done.stdout).expect("cargo prints JSON");
    let mut all = found["packages"].take().as_array().expect("a list of packages").clone();
    all.retain(|one| !one["source"].is_null());
    all
}

fn is_allowed(name: &str, licence: &str) -> bool {
    let is_ours = |one: &str| LICENCES.contains(&one) || EXCEPTIONS.contains(&(name, one));
    licence
        .split(" AND ")
        .all(|part| part.trim_matches(['(', ')']).split(" OR ").flat_map(|one| one.split('/')).any(is_ours))
}

#[test]
fn licences_and_origin_are_allowed_and_no_crate_has_two_versions() {
    let mut wrong = Vec::new();
    for platform in PLATFORMS {
        let mut versions: BTreeMap<String, usize> = BTreeMap::new();
        for one in crates(platform) {
            let text = |key: &str| one[key].as_str().unwrap_or_default();
            if text("source") != "registry+https://github.com/rust-lang/crates.io-index" {
                wrong.push(format!("{} comes from {}", text("name"), text("source")));
            }
            if !is_allowed(text("name"), text("license")) {
                wrong.push(format!("{} is under {:?}", text("name"), text("license")));
            }
            *versions.entry(text("name").to_owned()).or_default() += 1;
        }
        assert!(versions.len() > 50, "{platform}: {versions:?}");
        let twice = versions.into_iter().filter(|(name, count)| *count > 1 && !MAY_BE_TWICE.contains(&name.as_str()));
        wrong.extend(twice.map(|(name, count)| format!("{count} versions of {name}")));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn licences_are_read() {
    let rows = [
        ("a", "MIT/Apache-2.0", true),
        ("a", "Unlicense OR MIT", true),
        ("a", "BSD-3-Clause", false),
        ("a", "(MIT OR Apache-2.0) AND Unicode-3.0", false),
        ("unicode-ident", "(MIT OR Apache-2.0) AND Unicode-3.0", true),
        ("a", "", false),
    ];
    for (name, licence, allowed) in rows {
        assert_eq!(is_allowed(name, licence), allowed, "{name} {licence}");
    }
}
