//! What the program prints, its exit status, and plugins that never end.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use cni_conformance::binaries;
use serde_json::Value;

use crate::run::cases::StandIns;
use crate::run::{document, finished, run, text, word};

const ONE: [&str; 2] = ["--filter", "spec/add/result/bridge/1.0.0"];

#[test]
fn the_exit_status_says_whether_all_passed() {
    let ours = binaries::under_test();
    assert_eq!(finished(run(&ours, &ONE)).status.code(), Some(0));
    let no = StandIns::new("status", "exit 1\n");
    assert_eq!(finished(run(no.folder(), &ONE)).status.code(), Some(1));
    for (folder, arguments) in [
        (Path::new("/nowhere"), &ONE[..]),
        (&ours, &["--filter", "no-such-case"]),
        (&ours, &["--no-such-option"]),
        (Path::new("/etc"), &ONE),
    ] {
        let output = finished(run(folder, arguments));
        assert_eq!(output.status.code(), Some(2), "{folder:?} {arguments:?}: {output:?}");
        assert!(!output.stderr.is_empty(), "{output:?}");
    }
}

#[test]
fn a_failure_says_what_was_expected_and_how_to_run_it_again() {
    let no = StandIns::new("again", "exit 1\n");
    let output = finished(run(no.folder(), &ONE));
    let shown = text(&output.stdout);
    let again = format!("cni-conformance run --plugins {} --verbose {}", no.folder().display(), ONE.join(" "));
    for part in ["expected  status 0 and one JSON object", "got       status 1", "1 failed", &again] {
        assert!(shown.contains(part), "{part:?} in\n{shown}");
    }
    assert!(!shown.contains('\x1b'), "colours are for terminals: {shown}");
}

#[test]
fn verbose_shows_environment_input_and_output_of_each_call() {
    let shown = text(&finished(run(&binaries::under_test(), &[&["--verbose"], &ONE[..]].concat())).stdout);
    for part in [
        "CNI_COMMAND=ADD",
        "CNI_NETNS=/run/netns/ctr1",
        "standard input: {",
        "\"type\":\"bridge\"",
        "standard output: {",
        "ended with status 0 after ",
    ] {
        assert!(shown.contains(part), "{part:?} in\n{shown}");
    }
}

/// Where k3s has its plugins, and others.
#[test]
fn plugins_may_be_where_private_hosts_have_their_own_files() {
    for parent in ["/run", "/var/lib"] {
        let lines = "[ \"$CNI_COMMAND\" = ADD ] || exit 0\necho '{\"cniVersion\": \"1.0.0\"}'\n";
        let plugins = StandIns::below(Path::new(parent), "cni-conformance-test", lines);
        let output = finished(run(plugins.folder(), &ONE));
        assert_eq!(output.status.code(), Some(0), "{output:?}");
    }
}

/// The plugin answers as if it had made a lease, which the case then cannot remove.
#[test]
fn a_case_that_cannot_do_its_work_says_why() {
    let answer = r#"{"cniVersion": "1.0.0", "supportedVersions": ["1.0.0"]}"#;
    let plugins = StandIns::new("broken", &format!("case $CNI_COMMAND in ADD | VERSION) echo '{answer}' ;; esac\n"));
    let document = document(plugins.folder(), &["--filter", "spec/check/damaged/host-local/1.0.0"]);
    let case = &document["cases"][0];
    assert_eq!(case["outcome"], "broken", "{case}");
    assert!(word(case, "problem").contains("cannot remove '/run/leases/n1/10.88.0.2'"), "{case}");
    assert_eq!(case["calls"].as_array().map(Vec::len), Some(2), "ADD and CHECK: {case}");
}

#[test]
fn junit_has_a_test_case_for_each_case() {
    let no = StandIns::new("junit", "exit 1\n");
    let shown = text(&finished(run(no.folder(), &[&["--junit"], &ONE[..]].concat())).stdout);
    for part in
        ["<testsuites name=\"cni-conformance\" tests=\"1\"", "failures=\"1\"", "name=\"spec/add/result/bridge/1.0.0\""]
    {
        assert!(shown.contains(part), "{part:?} in\n{shown}");
    }
}

/// The plugin ignores all signals that it can, and starts a process that does the same in a session of its own.
#[test]
fn a_plugin_that_never_ends_is_reported_and_leaves_no_process() {
    let mark = &mark(86411);
    let sleeps =
        format!("trap '' TERM INT HUP\n[ \"$CNI_COMMAND\" = ADD ] || exit 0\nsetsid sleep {mark} &\nsleep {mark}\n");
    let slow = StandIns::new("slow", &sleeps);
    let started = Instant::now();
    let document = document(slow.folder(), &[&["--limit", "2"], &ONE[..]].concat());
    assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
    let case = &document["cases"][0];
    assert_eq!((&case["outcome"], &case["expected"]), (&"failed".into(), &"an end within 2 seconds".into()), "{case}");
    assert_eq!(processes(mark), 0, "processes are left");
}

/// A number of seconds that no other run of these tests sleeps for at the same time.
fn mark(seconds: u32) -> String {
    format!("{seconds}.{:010}", std::process::id())
}

/// How many processes there are with this in their command lines.
fn processes(mark: &str) -> usize {
    let found = fs::read_dir("/proc").expect("list processes").filter_map(|entry| {
        let command = fs::read(entry.ok()?.path().join("cmdline")).ok()?;
        text(&command).contains(mark).then_some(())
    });
    found.count()
}

#[test]
fn a_program_that_is_killed_takes_all_its_cases_along() {
    let mark = &mark(86412);
    let slow = StandIns::new(
        "killed",
        &format!("[ \"$CNI_COMMAND\" = ADD ] || exit 0\nsetsid sleep {mark} &\nsleep {mark}\n"),
    );
    let mut running = run(slow.folder(), &ONE).stdout(Stdio::null()).spawn().expect("start the program");
    assert!(until(|| processes(mark) == 2), "{} processes", processes(mark));
    running.kill().expect("kill the program");
    running.wait().expect("the program ends");
    assert!(until(|| processes(mark) == 0), "{} processes are left", processes(mark));
}

fn until(holds: impl Fn() -> bool) -> bool {
    let started = Instant::now();
    while !holds() && started.elapsed() < Duration::from_secs(60) {
        thread::sleep(Duration::from_millis(20));
    }
    holds()
}

#[test]
fn the_table_of_requirements_is_for_programs_too() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cni-conformance"));
    command.args(["requirements", "--json"]);
    let rows: Value = serde_json::from_slice(&finished(command).stdout).expect("a document");
    let rows = rows.as_array().expect("a list");
    assert!(rows.len() > 60, "{} rows", rows.len());
    for row in rows {
        let of_plugins = row["can_be_broken_by"] == "plugin";
        assert_eq!(row["cases"].as_u64().is_some_and(|cases| cases > 0), of_plugins, "{row}");
    }
}
