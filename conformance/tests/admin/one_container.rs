//! `doctor CONTAINER`: its rules, and what only CHECK finds. What it shows besides is in `conformance/cases/admin/list.case`.

use cni_conformance::{CniTool, Sandbox};
use serde_json::{Value, json};

use crate::admin::{FOUND, PublishedContainer, document, host, process_in, tool};

fn texts(value: &Value) -> Vec<&str> {
    value.as_array().expect("a list").iter().map(|one| one.as_str().expect("a text")).collect()
}

/// Severity, words and remedy of what is found of a container.
#[track_caller]
fn findings(sandbox: &Sandbox, name: &str, status: i32) -> Vec<[String; 3]> {
    let (about, code) = document(sandbox, &["doctor", name]);
    assert_eq!(code, Some(status), "{about:#}");
    let text = |one: &Value, key: &str| one[key].as_str().unwrap_or_default().to_owned();
    let all = about["findings"].as_array().expect("findings").iter();
    all.map(|one| ["severity", "says", "cure"].map(|key| text(one, key))).collect()
}

/// The rules that it names are those that iptables has.
#[test]
fn every_rule_that_is_named_is_there() {
    let sandbox = host();
    let _attached =
        [("first", 8080), ("second", 8081)].map(|(name, port)| PublishedContainer::add(&sandbox, name, port));
    let (about, _) = document(&sandbox, &["doctor", "second"]);
    let one = &about["attachments"][0];
    let (rules, chains) = (texts(&one["rules"]), texts(&one["chains"]));
    let listed = ["nat", "filter"].map(|table| (table, sandbox.sh(&format!("iptables -t {table} -S"))));
    for (table, listed) in &listed {
        let start = format!("iptables -t {table} ");
        let named: Vec<&str> = rules.iter().filter_map(|rule| rule.strip_prefix(&start)).collect();
        assert!(!named.is_empty(), "{table}: {rules:?}");
        for rule in named {
            assert!(listed.lines().any(|line| line == rule), "{rule} in:\n{listed}");
        }
        for chain in chains.iter().filter_map(|chain| chain.strip_prefix(&start)) {
            assert!(listed.lines().any(|line| line == format!("-N {chain}")), "{chain} in:\n{listed}");
        }
        let own = listed.lines().filter(|line| line.contains("172.26.64.3"));
        own.for_each(|line| assert!(rules.contains(&format!("{start}{line}").as_str()), "{line} is not in {rules:#?}"));
    }
    assert_eq!(chains.len(), 2, "masquerade and ports: {chains:?}");
}

/// No repair brings back an address: CHECK of the plugin says that it is gone.
#[test]
fn what_only_an_add_makes_is_found_by_check() {
    let sandbox = host();
    let attached = PublishedContainer::add(&sandbox, "first", 8080);
    attached.container.sh("ip addr flush dev eth0");
    let found = findings(&sandbox, "first", FOUND);
    let bridge =
        found.iter().find(|[_, says, _]| says.starts_with("eth0 in network nomad: bridge has lost something: "));
    let [severity, _, cure] = bridge.unwrap_or_else(|| panic!("of bridge: {found:?}"));
    assert_eq!([severity, cure], ["problem", "delete the container by its runtime, and add it again"]);
}

/// Without a process nobody has had the time to set it up.
#[test]
fn a_running_container_whose_lo_is_down_is_named() {
    let sandbox = host();
    let list = json!({"cniVersion": "1.0.0", "name": "n1", "plugins": [
        {"type": "bridge", "bridge": "br0", "ipam": {"type": "host-local", "subnet": "10.1.2.0/24"}}]});
    let (cnitool, container) = (CniTool::new(&sandbox, &list), sandbox.container("first"));
    cnitool.add(&container).expect_success();
    let says = |words: &[&str]| tool(&sandbox, &[&["doctor"], words].concat()).stdout().contains("lo is down");
    assert!(!says(&[]) && !says(&["first"]), "without a process");
    let _process = process_in(&container);
    let found = findings(&sandbox, "first", 0);
    let [[severity, text, cure]] = &found[..] else { panic!("{found:?}") };
    assert_eq!(severity, "note");
    assert!(text.ends_with(": lo is down, so it does not reach its own addresses"), "{text}");
    assert!(cure.contains("--net=/run/netns/first ip link set lo up") && cure.contains("network n1"), "{cure}");
    assert!(says(&[]), "doctor names it too");
    sandbox.sh("ip -n first link set lo up");
    assert!(!says(&[]) && !says(&["first"]), "lo is up");
}
