//! Compares the tables of iptables with golden text, as `iptables -S` prints it.

use crate::sandbox::{Flavour, Sandbox};
use crate::state::differences;

/// The two programs that print rules, IPv4 first.
pub const PROGRAMS: [&str; 2] = ["iptables", "ip6tables"];

/// Returns what `-S` prints of a table, without the policies of its own chains.
pub fn rules(sandbox: &Sandbox, program: &str, table: &str) -> Vec<String> {
    let printed = sandbox.sh(&format!("{program} --wait -t {table} -S"));
    printed.lines().filter(|line| !line.starts_with("-P ")).map(str::to_owned).collect()
}

/// Requires that a table holds these rules and no others.
#[track_caller]
pub fn assert_rules(sandbox: &Sandbox, program: &str, table: &str, golden: &str) {
    let golden: Vec<String> = golden.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
    let changes = differences(&golden, &rules(sandbox, program, table));
    let flavour = sandbox.flavour();
    assert!(changes.is_empty(), "{program} {table} on {flavour:?} is not the reference's:\n{}", changes.join("\n"));
}

/// Requires that a family has no rule and no chain in either table.
#[track_caller]
pub fn assert_untouched(sandbox: &Sandbox, program: &str) {
    for table in ["nat", "filter"] {
        assert_rules(sandbox, program, table, "");
    }
}

/// The addresses of the golden texts.
pub const V4: &[&str] = &["10.88.0.5/24"];
/// As [`V4`], of both families.
pub const DUAL: &[&str] = &["10.88.0.5/24", "fd00:88::5/64"];

/// Runs a test in a sandbox of each flavour.
pub fn on_both_flavours(test: impl Fn(&Sandbox)) {
    for flavour in Flavour::ALL {
        test(&Sandbox::with_flavour(flavour));
    }
}

/// Returns the lines of a golden text that do not contain `part`.
pub fn without(golden: &str, part: &str) -> String {
    golden.lines().filter(|line| !line.contains(part)).collect::<Vec<_>>().join("\n")
}
