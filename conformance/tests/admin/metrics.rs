//! `metrics` as text that Prometheus' own checker accepts, and words of users, which control neither it nor the terminal.
//! What is counted is in `conformance/cases/admin/metrics.case`.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use cni_conformance::Sandbox;
use cni_conformance::child::{Limit, run};
use serde_json::json;

use crate::admin::{PublishedContainer, cache, change_entry, document, host, tool};

/// Requires that Prometheus takes a text and finds nothing to better. `scripts/test.sh` unpacks its checker into `target`.
#[track_caller]
fn assert_accepted(text: &str) {
    let search = env::var_os("PATH").unwrap_or_default();
    let program = env::current_exe().expect("name the test binary");
    let folders = env::split_paths(&search).chain(program.ancestors().map(Path::to_owned));
    let found = folders.map(|folder| folder.join("promtool")).find(|file| file.is_file());
    let mut command = Command::new(found.expect("promtool is neither in PATH nor in target"));
    command.args(["check", "metrics"]);
    let checked = run(command, text.as_bytes(), Limit::Fail(Duration::from_secs(60)));
    assert_eq!((checked.code, checked.stdout.as_str(), checked.stderr.as_str()), (Some(0), "", ""), "{text}");
    assert!(text.ends_with("\n# EOF\n"), "{text}");
}

#[test]
fn an_empty_host_has_metrics_that_are_accepted() {
    let said = tool(&Sandbox::new(), &["metrics"]);
    said.expect_success();
    assert_accepted(said.stdout());
    assert!(!said.stdout().contains("\ncni_last_repair"), "it has not run: {said}");
}

/// A runtime passes on what its users have written.
#[test]
fn words_of_users_break_no_line_and_do_not_reach_the_terminal() {
    let sandbox = host();
    let _attached = PublishedContainer::add(&sandbox, "first", 8080);
    let ports = json!([{"hostPort": 1, "containerPort": 1, "protocol": "\"} 7\n\u{9b}", "hostIP": "\u{1b}]0;x\u{7}\n"},
        {"hostPort": 2, "containerPort": 1, "protocol": "contested\ncni-plugins", "hostIP": ""}]);
    change_entry(|entry| entry["capabilityArgs"]["portMappings"] = ports.clone());
    let entry = fs::read_to_string(&cache()[0]).expect("read the entry");
    fs::write("/var/lib/cni/results/second", entry.replace("cnitool-", "second-")).expect("write an entry");
    fs::write("/var/lib/cni/results/\u{1b}[2J\nc1", "{").expect("write a file");
    for words in
        [&["list"][..], &["list", "--json"], &["gc"], &["repair", "--dry-run"], &["metrics"], &["doctor", "cnitool-"]]
    {
        let said = tool(&sandbox, words);
        let is_control = |c: &char| c.is_control() && *c != '\n';
        assert_eq!(said.stdout().chars().find(is_control), None, "{words:?}: {:?}", said.stdout());
        assert_eq!(said.stderr().chars().find(is_control), None, "{words:?}: {:?}", said.stderr());
        assert!(said.stderr().lines().all(|line| line.starts_with("cni-plugins")), "{words:?}: {:?}", said.stderr());
        if words == ["metrics"] {
            assert_accepted(said.stdout());
            assert!(said.code() == Some(1) && said.stderr().contains("results/\\u001b[2J"), "{said}");
            assert!(said.stdout().contains("\ncni_host_ports{network=\"nomad\",protocol=\"other\"} 4\n"), "{said}");
        }
    }
    let (found, _) = document(&sandbox, &["list"]);
    assert_eq!(found["attachments"][0]["ports"], ports, "programs get what is there: {found:#}");
    let table = tool(&sandbox, &["list"]);
    assert!(table.stdout().contains("\\u001b]0;x\\u0007\\u000a:1->1/"), "{table}");
    assert!(table.stdout().contains("\nhost port 2/contested\\u000acni-plugins: container "), "{table}");
}
