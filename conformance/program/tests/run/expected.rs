//! Which cases fail: none of ours, and Debian's by name.
//!
//! A name that fails and is not in the list is a failure, and so is a name in the list that does not fail.

use std::collections::BTreeSet;
use std::path::Path;

use cni_conformance::{binaries, plugins};
use serde_json::Value;

use crate::run::{cases, document, word};

/// What a list says of the cases that it names.
struct Expected {
    failing: BTreeSet<String>,
    /// Those that depend on the moment: a plugin is killed, or several run at once.
    either: BTreeSet<String>,
}

impl Expected {
    /// Reads names, one in a line; `either NAME` for what depends on the moment; `#` begins the reason for the names behind it.
    fn read(list: &str) -> Self {
        let mut expected = Self { failing: BTreeSet::new(), either: BTreeSet::new() };
        let mut reason = false;
        for line in list.lines().map(str::trim).filter(|line| !line.is_empty()) {
            if line.starts_with('#') {
                reason = true;
                continue;
            }
            assert!(reason, "{line} has no reason");
            let (set, name) = match line.strip_prefix("either ") {
                Some(name) => (&mut expected.either, name),
                None => (&mut expected.failing, line),
            };
            assert!(set.insert(name.to_owned()), "{name} is there twice");
        }
        expected
    }

    fn holds_for(&self, document: &Value) {
        let named = |outcomes: &[&str]| -> BTreeSet<String> {
            let chosen = cases(document).iter().filter(|case| outcomes.contains(&word(case, "outcome")));
            chosen.map(|case| word(case, "name").to_owned()).collect()
        };
        let failed: BTreeSet<String> = named(&["failed", "broken"]).difference(&self.either).cloned().collect();
        let unexpected: Vec<&String> = failed.difference(&self.failing).collect();
        let reported = cases(document).iter().filter(|case| unexpected.iter().any(|name| case["name"] == **name));
        let reported: Vec<String> = reported.map(brief).collect();
        assert!(reported.is_empty(), "these fail, and are not expected to:\n{}", reported.join("\n"));
        let passed = named(&["passed"]);
        let better: Vec<&String> = passed.intersection(&self.failing).collect();
        assert!(better.is_empty(), "these are expected to fail, and do not: {better:#?}");
        // Some are not run, for want of kernel features; but all of them are cases.
        let all = named(&["passed", "failed", "broken", "not-run"]);
        let unknown: Vec<&String> = self.failing.union(&self.either).filter(|name| !all.contains(*name)).collect();
        assert!(unknown.is_empty(), "these are no cases: {unknown:#?}");
    }
}

fn brief(case: &Value) -> String {
    format!("{}\n  expected {}\n  got {} {}", case["name"], case["expected"], case["got"], case["problem"])
}

#[test]
fn no_case_fails_for_ours() {
    let document = document(&binaries::under_test(), &[]);
    Expected::read("").holds_for(&document);
    for case in cases(&document).iter().filter(|case| case["outcome"] == "not-run") {
        let reason = word(case, "reason");
        assert!(reason.starts_with("the running kernel lacks what "), "{reason}: {case}");
        let plugin = word(case, "plugin");
        assert!(!plugins::that_can_add().contains(&plugin), "{plugin} can add: {case}");
    }
    assert!(document["passed"].as_u64().is_some_and(|passed| passed > 1500), "{} passed", document["passed"]);
}

#[test]
fn debians_fail_as_they_are_expected_to() {
    let folder = Path::new("/usr/lib/cni");
    assert!(folder.join("bridge").exists(), "install the package containernetworking-plugins");
    let document = document(folder, &[]);
    Expected::read(include_str!("expected-debian.txt")).holds_for(&document);
    assert!(document["passed"].as_u64().is_some_and(|passed| passed > 700), "{} passed", document["passed"]);
}
