//! `doctor CONTAINER`: what one container has, where it is kept, and what is wrong with it.

use std::fs;
use std::path::Path;

use cni_conformance::{CniTool, Sandbox};
use serde_json::{Value, json};

use crate::admin::{ContainerProcess, FOUND, PublishedContainer, cache, document, forgotten, host, lose, state, tool};

/// The ID that the runtime has given to the container in a namespace.
fn id(netns: &str) -> String {
    let entries = cache().into_iter().map(|file| fs::read(file).expect("read the cache"));
    let mut entries = entries.map(|entry| serde_json::from_slice::<Value>(&entry).expect("JSON"));
    let entry = entries.find(|entry| entry["netns"] == netns).expect("its entry");
    entry["containerId"].as_str().expect("an ID").to_owned()
}

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

#[test]
fn a_whole_container_is_shown_with_all_that_it_has() {
    let sandbox = host();
    let _attached =
        [("first", 8080), ("second", 8081)].map(|(name, port)| PublishedContainer::add(&sandbox, name, port));
    let id = id("/run/netns/second");
    let before = state(&sandbox);
    let (about, code) = document(&sandbox, &["doctor", &id]);
    assert_eq!((code, &about["container"]), (Some(0), &json!(id)), "{about:#}");
    let one = &about["attachments"][0];
    for (key, value) in [
        ("network", json!("nomad")),
        ("ifname", json!("eth0")),
        ("state", json!("whole")),
        ("netns", json!("/run/netns/second")),
        ("namespace", json!("alive")),
        ("addresses", json!(["172.26.64.3"])),
        ("ports", json!(["8081->80/tcp"])),
        ("plugins", json!(["loopback", "bridge", "firewall", "portmap"])),
        ("leases", json!(["/var/run/cni/nomad/172.26.64.3"])),
        ("cache", json!(format!("/var/lib/cni/results/nomad-{id}-eth0"))),
    ] {
        assert_eq!(one[key], value, "{key}: {about:#}");
    }
    let interfaces = texts(&one["hostInterfaces"]);
    assert!(interfaces.contains(&"nomad") && interfaces.len() == 2, "{interfaces:?}");
    let records = texts(&about["records"]);
    assert!(records.iter().any(|path| path.contains("/attachments/")), "{records:?}");
    assert!(records.iter().all(|path| fs::read_to_string(path).is_ok_and(|text| text.contains(&id))), "{records:?}");
    assert_eq!(about["findings"][0]["says"], "nothing is wrong with it");
    assert_eq!(before, state(&sandbox), "it changes nothing");

    let said = tool(&sandbox, &["doctor", &id]);
    said.expect_success();
    for line in ["namespace    /run/netns/second (alive)", "leases       /var/run/cni/nomad/172.26.64.3"] {
        assert!(said.stdout().lines().any(|one| one == line), "{line}: {said}");
    }
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

#[test]
fn a_container_is_named_by_its_id_its_beginning_or_its_namespace() {
    let sandbox = host();
    let _attached =
        [("first", 8080), ("second", 8081)].map(|(name, port)| PublishedContainer::add(&sandbox, name, port));
    let [first, second] = ["first", "second"].map(|name| id(&format!("/run/netns/{name}")));
    let shared = first.chars().zip(second.chars()).take_while(|(one, other)| one == other).count();
    for word in [&second, &second[..=shared], "second", "/run/netns/second", "/var/run/netns/second"] {
        let (about, code) = document(&sandbox, &["doctor", word]);
        assert_eq!((&about["container"], code), (&json!(second), Some(0)), "{word}: {about:#}");
    }
    let mut both = [first.as_str(), &second];
    both.sort_unstable();
    let ambiguous =
        format!("{:?} means 2 containers: {}, {}; write more of the ID", &first[..shared], both[0], both[1]);
    let unknown = "no container has the ID or namespace \"third\"; cni-plugins list --full shows all".to_owned();
    for (word, says) in [(&first[..shared], ambiguous), ("third", unknown)] {
        let refused = tool(&sandbox, &["doctor", word]);
        assert_eq!((refused.code(), refused.stdout()), (Some(1), ""), "{refused}");
        assert_eq!(refused.stderr(), format!("cni-plugins doctor: {says}\n"));
    }
    for words in [&["doctor", "first", "--config-dir", "/etc"][..], &["doctor", "--network", "nomad"], &["doctor", ""]]
    {
        assert_eq!(tool(&sandbox, words).code(), Some(2), "{words:?}");
    }
}

#[test]
fn what_is_missing_is_named_with_the_command_that_helps() {
    let sandbox = host();
    let _attached = PublishedContainer::add(&sandbox, "first", 8080);
    sandbox.sh("iptables -t nat -F CNI-HOSTPORT-DNAT");
    let found = findings(&sandbox, "first", FOUND);
    let [[severity, says, cure]] = &found[..] else { panic!("one finding: {found:?}") };
    assert_eq!((severity.as_str(), cure.as_str()), ("problem", "cni-plugins repair --network nomad"));
    assert!(says.starts_with("eth0 in network nomad: a rule of portmap is missing: iptables -t nat -A CNI-"), "{says}");
    tool(&sandbox, &["repair", "--network", "nomad"]).expect_success();
    assert_eq!(findings(&sandbox, "first", 0)[0][1], "nothing is wrong with it");
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
    assert_eq!(
        (severity.as_str(), cure.as_str()),
        ("problem", "delete the container by its runtime, and add it again")
    );
}

#[test]
fn a_container_that_has_ended_is_shown_with_what_is_left_of_it() {
    let sandbox = host();
    let _attached =
        [("first", 8080), ("second", 8081)].map(|(name, port)| PublishedContainer::add(&sandbox, name, port));
    let dead = id("/run/netns/second");
    lose(&sandbox, "second");
    let found = findings(&sandbox, &dead, FOUND);
    assert_eq!(found[0][2], "cni-plugins gc --remove --network nomad", "{found:?}");
    let ghost = forgotten(&sandbox, "ghost", 8082);
    let (about, code) = document(&sandbox, &["doctor", &ghost]);
    assert_eq!(code, Some(FOUND), "{about:#}");
    let one = &about["attachments"][0];
    assert_eq!((&one["cache"], &one["state"]), (&Value::Null, &json!("left over")), "{about:#}");
    let [lease] = &texts(&one["leases"])[..] else { panic!("one lease: {about:#}") };
    assert!(Path::new(lease).exists(), "{lease}");
    assert_eq!(about["findings"][0]["cure"], "cni-plugins gc --remove --network nomad");
    tool(&sandbox, &["gc", "--remove", "--network", "nomad"]).expect_success();
    assert_eq!(tool(&sandbox, &["doctor", &ghost]).code(), Some(1));
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
    let _process = ContainerProcess::of(&container);
    let found = findings(&sandbox, "first", 0);
    let [[severity, text, cure]] = &found[..] else { panic!("{found:?}") };
    assert_eq!(severity, "note");
    assert!(text.ends_with(": lo is down, so it does not reach its own addresses"), "{text}");
    assert!(cure.contains("--net=/run/netns/first ip link set lo up") && cure.contains("network n1"), "{cure}");
    assert!(says(&[]), "doctor names it too");
    sandbox.sh("ip -n first link set lo up");
    assert!(!says(&[]) && !says(&["first"]), "lo is up");
}
