//! A good host: the last line says that the packet arrived, and the lines before it say how.

use cni_conformance::Sandbox;
use serde_json::Value;

use super::{ADDRESS, Extra, LOST, OUTSIDE, add, name_of, probe, serve};
use crate::admin::{document, tool};

#[test]
fn a_probe_that_a_container_answers_has_arrived() {
    let sandbox = Sandbox::new();
    let web = add(&sandbox, "web", Extra::Firewall);
    let _server = serve(&web, "0.0.0.0:80");
    let name = name_of(ADDRESS);
    let done = probe(&sandbox, &["8080"], 0, &format!("arrived: container {name} has answered port 8080/tcp"));
    let (way, _) = done.stdout().split_once("\ntcp 10.22.0.2:80 -> ").expect("the way of the answer");
    for text in [
        "  in           it comes by cnitrace",
        &format!("becomes {ADDRESS}:80"),
        &format!("[plugin portmap, container {name}]"),
        &format!("  route        to {ADDRESS} by cni0"),
        "  out          it leaves by cni0",
    ] {
        assert!(way.contains(text), "{text:?}: {done}");
    }
    assert!(way.contains("table ip nat, chain CNI-HOSTPORT-DNAT: "), "{done}");
    let of_firewall = format!("chain CNI-FORWARD: ip saddr {ADDRESS} accept   [plugin firewall, container {name}]\n");
    assert!(done.stdout().contains(&of_firewall), "the rule that accepts the answer: {done}");
}

#[test]
fn a_probe_from_a_container_shows_its_masquerade() {
    let sandbox = Sandbox::new();
    let outside = sandbox.outside();
    let _server = serve(&outside, "0.0.0.0:80");
    let _web = add(&sandbox, "web", Extra::Firewall);
    let name = name_of(ADDRESS);
    let done =
        probe(&sandbox, &["cnitool-", "to", OUTSIDE], 0, &format!("arrived: {OUTSIDE} has answered container {name}"));
    assert!(done.stdout().contains("  source       10.22.0.2:"), "{done}");
    assert!(done.stdout().contains("  out          it leaves by uplink0"), "{done}");
    assert!(done.stdout().contains(&format!("[plugin bridge or ptp (ipMasq), container {name}]")), "{done}");
    probe(&sandbox, &["cnitool-", "to", "192.0.2.2"], 0, "arrived: 192.0.2.2 has answered");
    probe(&sandbox, &["cnitool-", "to", "192.0.2.2:81"], 0, "arrived: 192.0.2.2:81 refuses the connection");
}

#[test]
fn programs_get_the_same_as_json() {
    let sandbox = Sandbox::new();
    let web = add(&sandbox, "web", Extra::Firewall);
    let _server = serve(&web, "0.0.0.0:80");
    let (document, code) = document(&sandbox, &["trace", "8080", "--probe"]);
    assert_eq!((code, &document["arrived"]), (Some(0), &Value::Bool(true)), "{document:#}");
    let steps = document["packets"][0]["steps"].as_array().expect("steps");
    let rule = steps.iter().find(|step| step["kind"] == "rule").expect("a rule");
    assert_eq!(rule["place"]["family"], "ip", "{document:#}");
    assert!(steps.iter().any(|step| step["kind"] == "destination"), "{document:#}");
}

/// A rule is shown by its number where no program shows its text.
#[test]
fn rules_have_numbers_without_nft() {
    let sandbox = Sandbox::new();
    let web = add(&sandbox, "web", Extra::Firewall);
    let _server = serve(&web, "0.0.0.0:80");
    let program = cni_conformance::binaries::under_test().join("cni-plugins");
    let line = format!("mount --bind /dev/null /usr/sbin/nft; exec {} trace 8080 --probe", program.display());
    let done = sandbox.exec(&["unshare", "-m", "sh", "-c", &line]);
    assert_eq!(done.code, Some(0), "{} {}", done.stdout, done.stderr);
    assert!(done.stdout.contains("chain CNI-HOSTPORT-DNAT: rule "), "{}", done.stdout);
}

#[test]
fn a_port_that_nobody_publishes_is_reported() {
    let sandbox = Sandbox::new();
    let nobody = "no container publishes port 9999/tcp, and no program of the host answers there: publish it";
    probe(&sandbox, &["9999"], LOST, nobody);
    let _server = serve(sandbox.host(), "0.0.0.0:9999");
    probe(&sandbox, &["9999"], 0, "arrived at a program of the host: port 9999/tcp is published by no container");
}

#[test]
fn what_cannot_be_followed_is_refused() {
    let sandbox = Sandbox::new();
    for (words, code, says) in [
        (&["trace", "0"][..], 2, "error: 0 is not a port"),
        (&["trace", "web", "to", "nowhere"], 2, "error: \"nowhere\" is not an address"),
        (&["trace", "web"], 1, "cni-plugins trace: there is no container web: cni-plugins list shows them"),
        (&["trace", "8080", "--seconds", "0"], 2, "error: invalid value '0' for '--seconds <N>'"),
    ] {
        let refused = tool(&sandbox, words);
        assert_eq!((refused.code(), refused.stdout()), (Some(code), ""), "{refused}");
        assert!(refused.stderr().starts_with(says), "{refused}");
    }
}
