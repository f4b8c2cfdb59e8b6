//! Plugins with a defect of one line of shell: the difference is found, made small, and repeated by the printed
//! command. A difference that is not repeatable is reported as such.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use cni_conformance::{binaries, plugins, script};
use cni_conformance_program::histories::History;

use crate::compare::program::compare;

/// Our plugins, one of them with a defect.
fn broken(name: &str, plugin: &str, lines: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("compare-{name}"));
    drop(fs::remove_dir_all(&folder));
    fs::create_dir_all(&folder).expect("a folder for plugins");
    let ours = binaries::under_test();
    for other in plugins::ALL.into_iter().filter(|other| *other != plugin) {
        symlink(ours.join(other), folder.join(other)).expect("a link to a plugin");
    }
    script::install(&folder.join(plugin), &format!("real={}/{plugin}\n{lines}", ours.display()));
    folder
}

/// Requires that the defect is found, and that no more than so many steps are left of the history.
#[track_caller]
fn found(name: &str, plugin: &str, lines: &str, steps: &[&str], line: &str) {
    let (ours, broken) = (binaries::under_test(), broken(name, plugin, lines));
    let run = compare(&broken, &ours, &["--seed", "1", "--cases", "40"]);
    run.ends_with(1, "<- here the two differ");
    assert!(run.said.contains(line), "must show {line:?}: {}", run.said);
    let history = History::parse(run.history()).expect("a history that can be read");
    let verbs: Vec<String> =
        history.steps.iter().map(|step| step.to_string().split(' ').next().unwrap_or_default().to_owned()).collect();
    assert_eq!(verbs, steps, "{}", run.said);
    assert_eq!(history.containers.len(), 1, "{}", run.said);
    compare(&broken, &ours, &["--history", run.history()]).ends_with(1, line);
    compare(&ours, &ours, &["--history", run.history()]).ends_with(0, "no difference in");
}

#[test]
fn a_route_that_a_result_lacks_is_found_in_one_step() {
    let lines = "said=$($real); status=$?
[ \"$CNI_COMMAND$status\" != ADD0 ] || said=$(echo \"$said\" | jq 'if .routes then .routes |= .[1:] else . end')
[ -z \"$said\" ] || echo \"$said\"
exit $status";
    found("route", "bridge", lines, &["ADD"], "- bridge prints in ");
}

#[test]
fn a_del_that_leaves_rules_is_found_in_two_steps() {
    let lines = "[ \"$CNI_COMMAND\" != DEL ] || exit 0\nexec $real";
    found("rules", "portmap", lines, &["ADD", "DEL"], "+ iptables nat: -A CNI-HOSTPORT-DNAT ");
}

#[test]
fn a_lease_that_is_never_released_is_found_in_two_steps() {
    let lines = "[ \"$CNI_COMMAND\" != DEL ] || exit 0\nexec $real";
    found("lease", "host-local", lines, &["ADD", "DEL"], "+ files: ");
}

#[test]
fn a_plugin_that_prints_nonsense_is_a_difference_and_no_crash() {
    let lines = "[ \"$CNI_COMMAND\" != ADD ] || { echo hello; exit 0; }\nexec $real";
    found("nonsense", "bridge", lines, &["ADD"], "+ must print a result");
}

#[test]
fn a_difference_that_does_not_come_again_is_reported_and_is_no_failure() {
    let seen = Path::new(env!("CARGO_TARGET_TMPDIR")).join("compare-seen-once");
    drop(fs::remove_dir(&seen));
    let lines = format!(
        "[ \"$CNI_COMMAND\" != ADD ] || ! mkdir {} 2>&- || {{ echo hello; exit 0; }}\nexec $real",
        seen.display()
    );
    let (ours, broken) = (binaries::under_test(), broken("once", "bridge", &lines));
    let options = ["--seed", "1", "--cases", "4", "--trials", "0"];
    let run = compare(&broken, &ours, &options);
    run.ends_with(0, "seen once, and not when both lived it again:");
    run.ends_with(0, "+ must print a result");
    run.ends_with(0, "seed 1: no difference in 4 histories of ");
    run.ends_with(0, " steps, one that did not come again\n");
    compare(&broken, &ours, &options).ends_with(0, " steps\n");
    fs::remove_dir(&seen).expect("the defect has shown");
    compare(&broken, &ours, &["--history", run.history()]).ends_with(0, " steps, one that did not come again\n");
}
