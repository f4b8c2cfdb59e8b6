//! A good host: the last line says that the packet arrived, and the lines before it say how.

use std::net::SocketAddr;
use std::process::{Command, Output, Stdio};

use cni_conformance::traffic::{Transport, ask};
use cni_conformance::wait::wait_until;
use cni_conformance::{Flavour, Sandbox, binaries};
use serde_json::{Value, json};

use super::{LOST, TracedHost, V4, V6, left};
use crate::admin::document;

#[test]
fn a_probe_that_is_answered_has_arrived_and_shows_its_way() {
    for values in [V4, V6] {
        let host = TracedHost::with_firewall(values);
        let _servers = [host.serve(&host.web, false), host.serve(&host.outside, false)];
        let shows = |words: &str, says: &str, way: &[&str]| {
            let done = host.probe(words, 0, says);
            for text in way.iter().map(|text| host.text(text)) {
                assert!(done.stdout().contains(&text), "{text:?}: {done}");
            }
        };
        let way = [
            "  in           it comes by cnitrace",
            "becomes $own80",
            "table $ipv nat, chain CNI-HOSTPORT-DNAT: ",
            "[plugin portmap, container $id]",
            "  route        to $own by cni0",
            "  out          it leaves by cni0",
            "\ntcp $own80 -> ",
            "chain CNI-FORWARD: $ipv saddr $own accept   [plugin firewall, container $id]\n",
        ];
        shows("8080", "arrived: container $id has answered port 8080/tcp", &way);
        let masqueraded = ["  source       ", "[plugin bridge or ptp (ipMasq), container $id]", "it leaves by uplink0"];
        shows("cnitool- to $out80", "arrived: $out80 has answered container $id", &masqueraded);
        shows("cnitool- to $out", "arrived: $out has answered", &[]);
        let (document, code) = document(&host.sandbox, &["trace", "8080", "--probe"]);
        assert_eq!((code, &document["arrived"]), (Some(0), &Value::Bool(true)), "{document:#}");
        let steps = document["packets"][0]["steps"].as_array().expect("steps");
        let rule = steps.iter().find(|step| step["kind"] == "rule").expect("a rule");
        assert_eq!(rule["place"]["family"], host.text("$ipv"), "{document:#}");
        // A rule is shown by its number where no program shows its text.
        let program = binaries::under_test().join("cni-plugins");
        let line = format!("mount --bind /dev/null /usr/sbin/nft; exec {} trace 8080 --probe", program.display());
        let done = host.sandbox.exec(&["unshare", "-m", "sh", "-c", &line]);
        assert!(done.code == Some(0) && done.stdout.contains("chain CNI-HOSTPORT-DNAT: rule "), "{}", done.stdout);
        if values == V4 {
            host.probe("cnitool- to $out:81", 0, "arrived: $out:81 refuses the connection");
        }
    }
}

#[test]
fn a_port_that_nobody_publishes_is_reported() {
    let host = TracedHost::with_firewall(V4);
    host.probe("80", LOST, "no container publishes port 80/tcp, and no program of the host answers there: publish it in the container's portMappings");
    let _server = host.serve(host.sandbox.host(), false);
    host.probe("80", 0, "arrived at a program of the host: port 80/tcp is published by no container");
}

/// Runs `trace` while packets come, once it listens.
fn during(sandbox: &Sandbox, words: &[&str], packets: impl FnOnce()) -> Output {
    let mut command = Command::new(binaries::under_test().join("cni-plugins"));
    command.arg("trace").args(words).env_clear().env("PATH", sandbox.search_path());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start the tool");
    wait_until("the table of the trace", || !left(sandbox).is_empty());
    packets();
    child.wait_with_output().expect("the tool ends")
}

#[test]
fn packets_of_others_are_followed_to_their_answers() {
    let host = TracedHost::with_firewall(V4);
    let _servers = [host.serve(&host.web, false), host.serve(&host.outside, false)];
    let ask = |from, to: &str| {
        ask(from, Transport::Tcp, to.parse::<SocketAddr>().expect("an address")).expect("an answer");
    };
    let done = during(&host.sandbox, &["8080", "--seconds", "60"], || ask(&host.outside, "192.0.2.1:8080"));
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && said.starts_with("tcp 192.0.2.2:"), "{said}");
    assert!(said.contains("  in           it comes by uplink0\n"), "{said}");
    assert!(said.ends_with(&host.text("arrived: container $id has answered port 8080/tcp\n")), "{said}");
    let words = ["cnitool-", "to", "192.0.2.2", "--seconds", "60"];
    let done = during(&host.sandbox, &words, || ask(&host.web, "192.0.2.2:80"));
    assert!(String::from_utf8_lossy(&done.stdout).contains("\narrived: 192.0.2.2 has answered container "), "{done:?}");
    let done = during(&host.sandbox, &["8080", "--seconds", "1"], || {});
    let said = String::from_utf8_lossy(&done.stdout);
    assert_eq!(done.status.code(), Some(LOST), "{said}");
    assert!(
        said.starts_with(
            "no packet to port 8080/tcp came within 1 seconds: look at the way to this host, or let --probe send one"
        ),
        "{said}"
    );
}

/// No trace sees the rules of iptables-legacy, so `trace` shows those whose counters have moved.
#[test]
fn counters_of_iptables_legacy_stand_in_for_the_trace() {
    let host = TracedHost::of(V4, Flavour::Legacy, &json!({}), &[]);
    host.sh("iptables -P FORWARD DROP");
    let says = "dropped in the hook forward by iptables-legacy, whose counter has moved: iptables-legacy -t filter -P FORWARD DROP: change it, or move to the nft flavour of iptables";
    let done = host.probe("8080", LOST, says);
    for text in [
        "note: iptables-legacy has rules, which no trace sees",
        "becomes 10.22.0.2:80",
        "packets: iptables-legacy -t nat -A CNI-HOSTPORT-DNAT ",
    ] {
        assert!(done.stdout().contains(text), "{text}: {done}");
    }
}
