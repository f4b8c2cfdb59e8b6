//! `metrics`: what Prometheus can watch, as text that its own checker accepts.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use cni_conformance::child::{Limit, run};
use cni_conformance::{CniTool, Nomad, Outcome, Sandbox};
use serde_json::{Value, json};

use crate::admin::{PublishedContainer, cache, forgotten, host, lease, lose, state, tool};

/// Prometheus' checker, which `scripts/test.sh` unpacks into `target`.
fn promtool() -> PathBuf {
    let search = env::var_os("PATH").unwrap_or_default();
    let program = env::current_exe().expect("name the test binary");
    let folders = env::split_paths(&search).chain(program.ancestors().map(Path::to_owned));
    let found = folders.map(|folder| folder.join("promtool")).find(|file| file.is_file());
    found.expect("promtool is neither in PATH nor in target: scripts/test.sh unpacks it")
}

/// Requires that Prometheus takes a text and finds nothing to better.
#[track_caller]
fn assert_accepted(text: &str) {
    let mut command = Command::new(promtool());
    command.args(["check", "metrics"]);
    let checked = run(command, text.as_bytes(), Limit::Fail(Duration::from_secs(60)));
    assert_eq!((checked.code, checked.stdout.as_str(), checked.stderr.as_str()), (Some(0), "", ""), "{text}");
    assert!(text.ends_with("\n# EOF\n"), "{text}");
}

/// The text, which is accepted, and that nothing was wrong.
#[track_caller]
fn metrics(sandbox: &Sandbox, words: &[&str]) -> String {
    let done = tool(sandbox, &[&["metrics"], words].concat());
    done.expect_success();
    assert_eq!(done.stderr(), "", "{done}");
    assert_accepted(done.stdout());
    done.stdout().to_owned()
}

/// The value of a series; `None` if it is missing.
fn value(text: &str, series: &str) -> Option<String> {
    let line = text.lines().find(|line| line.strip_prefix(series).is_some_and(|rest| rest.starts_with(' ')))?;
    line.rsplit_once(' ').map(|(_, value)| value.to_owned())
}

#[track_caller]
fn assert_values(text: &str, expected: &[(&str, &str)]) {
    for (series, number) in expected {
        assert_eq!(value(text, series).as_deref(), Some(*number), "{series}:\n{text}");
    }
}

#[test]
fn an_empty_host_has_metrics_that_are_accepted() {
    let sandbox = Sandbox::new();
    let text = metrics(&sandbox, &[]);
    assert_values(&text, &[("cni_unreadable_sources", "0"), ("cni_contested_host_ports", "0")]);
    assert!(!text.contains("\ncni_last_repair"), "it has not run: {text}");
}

#[test]
fn addresses_attachments_and_ports_are_counted() {
    let sandbox = host();
    let _attached =
        [("first", 8080), ("second", 8081)].map(|(name, port)| PublishedContainer::add(&sandbox, name, port));
    lease(&sandbox, "10.9.9.9", "stranger", "10 seconds");
    let before = state(&sandbox);
    let text = metrics(&sandbox, &[]);
    let range = r#"{network="nomad",range="172.26.64.1-172.26.79.254",family="ipv4"}"#;
    assert_values(
        &text,
        &[
            (&format!("cni_addresses_used{range}"), "2"),
            (&format!("cni_addresses_free{range}"), "4091"),
            (&format!("cni_addresses_reserved{range}"), "1"),
            (r#"cni_addresses_outside{network="nomad"}"#, "1"),
            (r#"cni_attachments{network="nomad",life="alive",rules="whole"}"#, "2"),
            (r#"cni_attachments{network="nomad",life="alive",rules="missing"}"#, "0"),
            (r#"cni_attachments{network="nomad",life="dead",rules="unknown"}"#, "0"),
            (r#"cni_host_ports{network="nomad",protocol="tcp"}"#, "2"),
            (r#"cni_host_ports{network="nomad",protocol="udp"}"#, "0"),
            (r#"cni_missing_rules{network="nomad",plugin="portmap"}"#, "0"),
            (r#"cni_leftovers{network="nomad",life="dead"}"#, "0"),
        ],
    );
    assert_eq!(before, state(&sandbox), "it changes nothing");
    assert!(!metrics(&sandbox, &["--network", "other"]).contains("nomad"));
}

#[test]
fn missing_rules_the_dead_and_leftovers_are_counted() {
    let sandbox = host();
    let _attached = [("first", 8080), ("second", 8080), ("third", 8082)]
        .map(|(name, port)| PublishedContainer::add(&sandbox, name, port));
    forgotten(&sandbox, "ghost", 8083);
    lose(&sandbox, "third");
    sandbox.sh("iptables -t nat -F CNI-HOSTPORT-DNAT");
    assert_values(
        &metrics(&sandbox, &[]),
        &[
            (r#"cni_attachments{network="nomad",life="alive",rules="whole"}"#, "0"),
            (r#"cni_attachments{network="nomad",life="alive",rules="missing"}"#, "2"),
            (r#"cni_attachments{network="nomad",life="dead",rules="unknown"}"#, "1"),
            (r#"cni_missing_rules{network="nomad",plugin="portmap"}"#, "2"),
            (r#"cni_missing_rules{network="nomad",plugin="bridge"}"#, "0"),
            (r#"cni_leftovers{network="nomad",life="dead"}"#, "1"),
            (r#"cni_host_ports{network="nomad",protocol="tcp"}"#, "2"),
            ("cni_contested_host_ports", "1"),
        ],
    );
}

fn seconds_now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a clock").as_secs()
}

#[test]
fn the_time_of_the_last_repair_is_that_of_a_whole_one() {
    let sandbox = host();
    let _attached = PublishedContainer::add(&sandbox, "first", 8080);
    let time = || value(&metrics(&sandbox, &[]), "cni_last_repair_timestamp_seconds");
    for words in [&["repair", "--dry-run"][..], &["repair", "--network", "nomad"]] {
        tool(&sandbox, words).expect_success();
        assert_eq!(time(), None, "{words:?}");
    }
    let before = seconds_now();
    tool(&sandbox, &["repair"]).expect_success();
    let ended: u64 = time().and_then(|time| time.parse().ok()).expect("a time");
    assert!((before..=seconds_now()).contains(&ended), "{before} {ended}");
    assert_values(&metrics(&sandbox, &[]), &[("cni_last_repair_failures", "0")]);
}

/// Both families, with a range that has more addresses than any machine could count.
#[test]
fn ranges_of_both_families_are_counted_at_once() {
    let sandbox = host();
    let mut list = Nomad::version("1.0.0").dual_stack().conflist();
    list["plugins"][1]["ipam"]["ranges"] = json!([[{"subnet": "172.26.64.0/20"}], [{"subnet": "fd00::/16"}]]);
    let container = sandbox.container("first");
    CniTool::new(&sandbox, &list).add(&container).expect_success();
    let text = metrics(&sandbox, &[]);
    let range = r#"{network="nomad",range="fd00::1-fd00:ffff:ffff:ffff:ffff:ffff:ffff:ffff",family="ipv6"}"#;
    let free = (1_u128 << 112) - 1 - 2;
    assert_values(
        &text,
        &[
            (&format!("cni_addresses_used{range}"), "1"),
            (&format!("cni_addresses_free{range}"), &free.to_string()),
            (&format!("cni_addresses_reserved{range}"), "1"),
        ],
    );
}

/// A second network, whose list and folder of leases are its own.
fn other_network(sandbox: &Sandbox) -> Value {
    let mut list = Nomad::version("1.0.0").conflist();
    list["name"] = json!("other");
    list["plugins"][1]["bridge"] = json!("other");
    list["plugins"][1]["ipam"]["ranges"] = json!([[{"subnet": "10.99.0.0/24"}]]);
    CniTool::new(sandbox, &list).add(&sandbox.container("second")).expect_success();
    list
}

#[track_caller]
fn assert_reported(done: &Outcome, names: &str) {
    assert_eq!(done.code(), Some(1), "{done}");
    assert!(done.stderr().starts_with("cni-plugins metrics: ") && done.stderr().contains(names), "{done}");
    assert_accepted(done.stdout());
}

#[test]
fn a_network_that_cannot_be_read_keeps_no_other_from_being_shown() {
    let sandbox = host();
    let _attached = PublishedContainer::add(&sandbox, "first", 8080);
    other_network(&sandbox);
    fs::remove_dir_all("/run/cni/other").expect("remove the leases");
    fs::write("/run/cni/other", "").expect("write a file");
    let done = tool(&sandbox, &["metrics"]);
    assert_reported(&done, "network other: ");
    let range = r#"{network="nomad",range="172.26.64.1-172.26.79.254",family="ipv4"}"#;
    assert_values(
        done.stdout(),
        &[
            (&format!("cni_addresses_used{range}"), "1"),
            (r#"cni_attachments{network="other",life="alive",rules="whole"}"#, "1"),
            ("cni_unreadable_sources", "1"),
        ],
    );
    assert!(!done.stdout().contains(r#"cni_addresses_used{network="other""#), "{done}");
}

/// A runtime passes on what its users have written.
#[test]
fn words_of_users_break_no_line() {
    let sandbox = host();
    let _attached = PublishedContainer::add(&sandbox, "first", 8080);
    let [file] = &cache()[..] else { panic!("one attachment has one file") };
    let mut entry: Value = serde_json::from_slice(&fs::read(file).expect("read the cache")).expect("JSON");
    entry["capabilityArgs"]["portMappings"] =
        json!([{"hostPort": 1, "containerPort": 1, "protocol": "\"} 7\n\u{1b}[2J"}]);
    fs::write(file, entry.to_string()).expect("write the cache");
    fs::write("/var/lib/cni/results/\u{1b}[2J\n", "{").expect("write a file");
    let done = tool(&sandbox, &["metrics"]);
    assert_reported(&done, "results/\\u001b[2J");
    assert_values(done.stdout(), &[(r#"cni_host_ports{network="nomad",protocol="other"}"#, "1")]);
}

#[test]
fn a_file_is_replaced_for_node_exporter() {
    let sandbox = host();
    let _attached = PublishedContainer::add(&sandbox, "first", 8080);
    fs::create_dir("/run/textfiles").expect("create a folder");
    let file = "/run/textfiles/cni.prom";
    for _ in 0..2 {
        let done = tool(&sandbox, &["metrics", "--output", file]);
        done.expect_success();
        assert_eq!((done.stdout(), done.stderr()), ("", ""));
        assert_accepted(&fs::read_to_string(file).expect("read the file"));
    }
    assert_eq!(fs::metadata(file).expect("the file").permissions().mode() & 0o777, 0o644);
    assert_eq!(fs::read_dir("/run/textfiles").expect("list the folder").count(), 1);
    let refused = tool(&sandbox, &["metrics", "--output", "/run/nowhere/cni.prom"]);
    assert_eq!((refused.code(), refused.stdout()), (Some(1), ""), "{refused}");
    assert!(refused.stderr().starts_with("cni-plugins metrics: failed to "), "{refused}");
}
