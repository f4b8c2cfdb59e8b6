//! `list`: what there is of containers, and what is missing or left over.

use cni_conformance::{Attachment, Nomad, Runtime, Sandbox};
use serde_json::{Value, json};

use crate::admin::{ContainerProcess, FOUND, PublishedContainer, document, forgotten, host, lease, lose, state, tool};

#[track_caller]
fn states(sandbox: &Sandbox, status: i32) -> Vec<String> {
    let (found, code) = document(sandbox, &["list"]);
    assert_eq!(code, Some(status), "{found:#}");
    let attachments = found["attachments"].as_array().expect("attachments").iter();
    attachments.map(|one| one["state"].as_str().expect("a state").to_owned()).collect()
}

#[test]
fn every_container_is_listed_with_what_it_has() {
    let sandbox = host();
    assert_eq!(tool(&sandbox, &["list"]).stdout(), "no containers\n");
    let _attached =
        [("first", 8080), ("second", 8081)].map(|(name, port)| PublishedContainer::add(&sandbox, name, port));
    let (found, code) = document(&sandbox, &["list"]);
    assert_eq!(code, Some(0), "{found:#}");
    assert_eq!((&found["leftOver"], &found["problems"]), (&json!([]), &json!([])));
    let second = &found["attachments"][1];
    for (key, value) in [
        ("network", json!("nomad")),
        ("ifname", json!("eth0")),
        ("netns", json!("/run/netns/second")),
        ("addresses", json!(["172.26.64.3"])),
        ("ports", json!([{"hostPort": 8081, "containerPort": 80, "protocol": "tcp", "hostIP": ""}])),
        ("plugins", json!(["loopback", "bridge", "firewall", "portmap"])),
        ("state", json!("whole")),
    ] {
        assert_eq!(second[key], value, "{key}: {second:#}");
    }
    let container = second["container"].as_str().expect("a name");

    let table = tool(&sandbox, &["list"]);
    table.expect_success();
    let lines: Vec<Vec<&str>> = table.stdout().lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["NETWORK", "CONTAINER", "INTERFACE", "ADDRESSES", "PORTS", "PLUGINS", "AGE", "STATE"]);
    assert_eq!(lines[2][..2], ["nomad", &format!("{}…", &container[..12])]);
    let plugins = "loopback,bridge,firewall,portmap";
    assert_eq!(lines[2][2..6], ["eth0", "172.26.64.3", "8081->80/tcp", plugins], "{table}");
    assert_eq!((lines[2][7], lines.len()), ("whole", 3), "{table}");
    assert!(tool(&sandbox, &["list", "--full"]).stdout().contains(container));
    assert_eq!(tool(&sandbox, &["list", "--network", "other"]).stdout(), "no containers\n");
}

#[test]
fn a_wide_table_has_more_columns() {
    let sandbox = host();
    let _attached =
        [("first", 8080), ("second", 8081)].map(|(name, port)| PublishedContainer::add(&sandbox, name, port));
    lose(&sandbox, "second");
    let table = tool(&sandbox, &["list", "--wide"]);
    assert_eq!(table.code(), Some(FOUND), "{table}");
    let lines: Vec<Vec<&str>> = table.stdout().lines().map(|line| line.split_whitespace().collect()).collect();
    let headings =
        ["NAMESPACE", "INTERFACE", "MAC", "HOST-INTERFACES", "ADDRESSES", "PORTS", "PLUGINS", "AGE", "STATE"];
    assert_eq!(lines[0][2..], headings, "{table}");
    let mac = sandbox.sh("ip netns exec first cat /sys/class/net/eth0/address");
    assert_eq!(lines[1][2..5], ["/run/netns/first", "eth0", mac.trim()], "{table}");
    let (bridge, port) = lines[1][5].split_once(',').expect("a bridge and its port");
    assert_eq!(bridge, "nomad", "{table}");
    sandbox.sh(&format!("ip link show {port}"));
    assert!(table.stdout().lines().any(|line| line.ends_with("  gone: its network namespace has ended")), "{table}");
    let (found, _) = document(&sandbox, &["list"]);
    let first = &found["attachments"][0];
    assert_eq!((&first["macs"], &first["hostInterfaces"]), (&json!([mac.trim()]), &json!([bridge, port])), "{found:#}");
}

/// The older one has the port; no ADD fails for that.
#[test]
fn a_contested_port_is_shown_with_both_containers() {
    let sandbox = host();
    let _attached = ["first", "second"].map(|name| PublishedContainer::add(&sandbox, name, 8080));
    let (found, code) = document(&sandbox, &["list"]);
    assert_eq!(code, Some(0), "{found:#}");
    let [first, second] = [0, 1].map(|at| found["attachments"][at]["container"].as_str().expect("a name").to_owned());
    let named = |container: &str| json!({"network": "nomad", "container": container});
    let (holder, waiting) = (named(&first), json!([named(&second)]));
    let contested = json!([{
        "hostIP": "", "hostPort": 8080, "protocol": "tcp", "holder": holder, "holderIsDead": false, "waiting": waiting,
    }]);
    assert_eq!(found["contestedPorts"], contested);
    let line = format!("host port 8080/tcp: container {first} has it, and {second} waits for it");
    assert_eq!(tool(&sandbox, &["list"]).stdout().lines().last(), Some(&line[..]));
    let doctor = tool(&sandbox, &["doctor"]);
    assert!(doctor.stdout().contains(&format!("note     ports: {line}")), "{doctor}");
}

/// Of the two that ask for a port the older one has died after the ADD of the other.
#[test]
fn a_port_that_a_dead_container_keeps_is_shown_until_gc_has_removed_its_rules() {
    let sandbox = host();
    let attached = ["first", "second"].map(|name| PublishedContainer::add(&sandbox, name, 8080));
    let (found, _) = document(&sandbox, &["list"]);
    let [first, second] = [0, 1].map(|at| found["attachments"][at]["container"].as_str().expect("a name").to_owned());
    attached[0].container.remove();
    let (found, code) = document(&sandbox, &["list"]);
    let contested = &found["contestedPorts"][0];
    assert_eq!((code, &contested["holderIsDead"]), (Some(FOUND), &json!(true)), "{found:#}");
    let line = format!("host port 8080/tcp: container {first}, which is dead, has it, and {second} waits for it");
    let text = format!("problem  ports: {line}\n         -> cni-plugins gc --remove\n");
    for words in [&["doctor"][..], &["doctor", &second]] {
        let doctor = tool(&sandbox, words);
        assert!(doctor.stdout().contains(&text), "{doctor}");
    }
    let rules = || sandbox.sh("iptables -t nat -S CNI-HOSTPORT-DNAT");
    assert!(rules().contains(&first), "{}", rules());
    tool(&sandbox, &["gc", "--remove"]).expect_success();
    assert!(rules().contains(&second) && !rules().contains(&first), "{}", rules());
    let (found, code) = document(&sandbox, &["list"]);
    assert_eq!((code, &found["contestedPorts"]), (Some(0), &json!([])), "{found:#}");
}

#[test]
fn what_is_missing_is_named_and_nothing_is_changed() {
    let sandbox = host();
    let _attached =
        [("first", 8080), ("second", 8081)].map(|(name, port)| PublishedContainer::add(&sandbox, name, port));
    sandbox.sh("iptables -t nat -F CNI-HOSTPORT-DNAT");
    let before = state(&sandbox);
    assert_eq!(states(&sandbox, FOUND), ["missing"; 2]);
    let (found, _) = document(&sandbox, &["list"]);
    assert_eq!(found["attachments"][0]["missing"][0]["plugin"], "portmap", "{found:#}");
    let table = tool(&sandbox, &["list"]);
    assert_eq!(table.code(), Some(FOUND), "{table}");
    assert_eq!(table.stdout().matches("missing: portmap: ").count(), 2, "{table}");
    assert_eq!(before, state(&sandbox));
    tool(&sandbox, &["repair"]).expect_success();
    assert_eq!(states(&sandbox, 0), ["whole"; 2]);
}

#[test]
fn a_container_whose_namespace_is_gone_is_shown_as_gone() {
    let sandbox = host();
    let _attached =
        [("first", 8080), ("second", 8081)].map(|(name, port)| PublishedContainer::add(&sandbox, name, port));
    lose(&sandbox, "second");
    assert_eq!(states(&sandbox, FOUND), ["whole", "gone"]);
}

/// A runtime may lose the name of a namespace in which a process lives.
#[test]
fn a_namespace_that_has_only_lost_its_name_is_not_gone() {
    let sandbox = host();
    let attached = PublishedContainer::add(&sandbox, "first", 8080);
    let _inhabitant = ContainerProcess::of(&attached.container);
    sandbox.sh("ip netns del first");
    assert_eq!(states(&sandbox, FOUND), ["unclear"]);
}

fn left(sandbox: &Sandbox) -> Value {
    document(sandbox, &["list"]).0["leftOver"].clone()
}

#[test]
fn an_address_that_nobody_uses_is_left_over() {
    let sandbox = host();
    let _attached = PublishedContainer::add(&sandbox, "first", 8080);
    let ghost = forgotten(&sandbox, "ghost", 8081);
    let left = left(&sandbox);
    assert_eq!((&left[0]["container"], &left[0]["addresses"]), (&json!(ghost), &json!(["172.26.64.3"])), "{left:#}");
    let table = tool(&sandbox, &["list"]);
    assert_eq!(table.code(), Some(FOUND), "{table}");
    assert!(table.stdout().lines().any(|line| line.contains("172.26.64.3") && line.ends_with("left over")), "{table}");
}

#[test]
fn an_address_that_is_used_or_new_is_not_left_over() {
    let sandbox = host();
    let _attached = PublishedContainer::add(&sandbox, "first", 8080);
    lease(&sandbox, "172.26.64.98", "new", "10 seconds");
    // Of a runtime without a cache.
    let mut attachment = Attachment::new("uncached-id", &sandbox.container("uncached"));
    Runtime::new(&sandbox, Nomad::version("1.0.0").conflist()).add(&mut attachment).expect_success();
    let result = attachment.result.expect("the result of ADD");
    let (address, _) = result["ips"][0]["address"].as_str().and_then(|text| text.split_once('/')).expect("an address");
    sandbox.sh(&format!("touch --date 2hours {}/{address}", crate::admin::LEASES));
    assert_eq!(left(&sandbox), json!([]));
}
