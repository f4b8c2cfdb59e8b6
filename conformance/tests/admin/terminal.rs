//! What is in the cache's folder neither controls the terminal nor keeps the tool waiting.

use std::fs;
use std::os::unix::fs::symlink;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::{Value, json};

use crate::admin::{PublishedContainer, cache, document, host, tool};

/// S6: a runtime's cache holds what users have asked for.
#[test]
fn control_characters_do_not_reach_the_terminal() {
    let sandbox = host();
    let _attached = PublishedContainer::add(&sandbox, "first", 8080);
    let [file] = &cache()[..] else { panic!("one attachment has one file") };
    let mut entry: Value = serde_json::from_slice(&fs::read(file).expect("read the cache")).expect("JSON");
    let ports = json!([{"hostPort": 1, "containerPort": 1, "protocol": "\u{9b}tcp", "hostIP": "\u{1b}]0;x\u{7}\n"}]);
    entry["capabilityArgs"]["portMappings"] = ports.clone();
    fs::write(file, entry.to_string()).expect("write the cache");
    fs::write("/var/lib/cni/results/\u{1b}[2J\nc1", "{").expect("write a file");
    for words in [&["list"][..], &["list", "--json"], &["gc"], &["repair", "--dry-run"]] {
        let said = tool(&sandbox, words);
        let is_control = |c: &char| c.is_control() && *c != '\n';
        assert_eq!(said.stdout().chars().find(is_control), None, "{words:?}: {:?}", said.stdout());
        assert_eq!(said.stderr().chars().find(is_control), None, "{words:?}: {:?}", said.stderr());
        assert!(said.stderr().lines().all(|line| line.starts_with("cni-plugins")), "{words:?}: {:?}", said.stderr());
    }
    let (found, _) = document(&sandbox, &["list"]);
    assert_eq!(found["attachments"][0]["ports"], ports, "programs get what is there: {found:#}");
    let table = tool(&sandbox, &["list"]);
    assert!(table.stdout().contains("\\u001b]0;x\\u0007\\u000a:1->1/"), "{table}");
}

/// S9: only regular files of the size of a cache entry are read.
#[test]
fn a_link_and_a_pipe_in_the_cache_keep_nobody_waiting() {
    let sandbox = host();
    let _attached = PublishedContainer::add(&sandbox, "first", 8080);
    symlink("/proc/kmsg", "/var/lib/cni/results/link").expect("link");
    mkfifo("/var/lib/cni/results/pipe", Mode::S_IRWXU).expect("a pipe");
    let sparse = fs::File::create("/var/lib/cni/results/sparse").expect("a file");
    sparse.set_len(20 << 30).expect("a sparse file");
    let (found, code) = document(&sandbox, &["list"]);
    assert_eq!((code, found["attachments"].as_array().map(Vec::len)), (Some(1), Some(1)), "{found:#}");
    let problems = found["problems"].to_string();
    for (name, why) in
        [("link", "it is not a file"), ("pipe", "it is not a file"), ("sparse", "it has more than 1048576 bytes")]
    {
        assert!(problems.contains(&format!("results/{name}: {why}")), "{name}: {problems}");
    }
}
