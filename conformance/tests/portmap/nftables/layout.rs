//! The content of the table, as `nft` lists it.
//!
//! In contrast to the reference, a rule of `hostports` and `masquerading` jumps to a chain of the attachment, so the
//! networks of a container are separate; the container's network is masqueraded, and only translated packets, so a
//! neighbour gets its answers even if bridged packets do not pass the rules; conditions are in the container's chain,
//! not in `prerouting` and `output`.

use cni_conformance::Sandbox;
use serde_json::json;

use crate::portmap::nftables::{DUAL, V4, portmap, ruleset, table, tcp, udp};

/// The digits of network `n1` and of `eth0` in container `ctr1`.
const OWN: &str = "43d91f8451058a70-7883a6f9ce71eedb";

/// A table of the reference's layout.
struct Golden {
    family: &'static str,
    hostports: Vec<String>,
    masquerading: Option<Vec<String>>,
    own: Vec<(&'static str, Vec<String>)>,
}

impl Golden {
    fn text(&self) -> String {
        let family = self.family;
        let mut text = format!("add table {family} cni_hostport {{ comment \"CNI portmap plugin\" ; }}\n");
        let mut rules = String::new();
        let mut chain = |name: &str, kind: &str, lines: &[String]| {
            text.push_str(&format!("add chain {family} cni_hostport {name} {kind}\n"));
            for line in lines {
                rules.push_str(&format!("add rule {family} cni_hostport {name} {line}\n"));
            }
        };
        let local = ["fib daddr type local jump hostports_all".to_owned()];
        let all = ["jump hostip_hostports".to_owned(), "jump hostports".to_owned()];
        chain("hostports", "", &self.hostports);
        chain("hostip_hostports", "", &[]);
        chain("hostports_all", "", &all);
        chain("prerouting", "{ type nat hook prerouting priority -100 ; }", &local);
        chain("output", "{ type nat hook output priority -100 ; }", &local);
        if let Some(masquerading) = &self.masquerading {
            chain("masquerading", "{ type nat hook postrouting priority 100 ; }", masquerading);
        }
        for (start, lines) in &self.own {
            chain(&format!("{start}-{OWN}"), "", lines);
        }
        text + &rules
    }

    /// Requires that the table is listed as `nft` itself would have made it.
    #[track_caller]
    fn assert_listed(&self, sandbox: &Sandbox) {
        let listed = table(sandbox, self.family);
        let own = Sandbox::new();
        crate::portmap::nftables::run_script(&own, &self.text());
        assert_eq!(listed, table(&own, self.family));
    }
}

fn entry(words: &str) -> String {
    format!("{words} jump dnat-{OWN} comment \"ctr1\"")
}

fn masquerade(words: &str) -> String {
    format!("{words} jump masquerade-{OWN} comment \"ctr1\"")
}

fn v4_masquerading() -> Vec<String> {
    ["ip saddr 10.88.0.0/24 ip daddr 10.88.0.5 ct status dnat", "ip saddr 127.0.0.1 ip daddr 10.88.0.5"]
        .map(masquerade)
        .to_vec()
}

fn texts(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|line| (*line).to_owned()).collect()
}

#[test]
fn one_port() {
    let sandbox = Sandbox::new();
    let lone = portmap(&sandbox, "ctr1", V4, json!([tcp(8080, 80)]), &json!({}));
    lone.add();
    let golden = Golden {
        family: "ip",
        hostports: vec![entry("tcp dport 8080")],
        masquerading: Some(v4_masquerading()),
        own: vec![("dnat", texts(&["tcp dport 8080 dnat to 10.88.0.5:80"])), ("masquerade", texts(&["masquerade"]))],
    };
    golden.assert_listed(&sandbox);
    assert!(!ruleset(&sandbox).contains("ip6 cni_hostport"), "a family that is not in use is left alone");
    lone.check();
    lone.del();
    let after = Golden { family: "ip", hostports: vec![], masquerading: Some(vec![]), own: vec![] };
    after.assert_listed(&sandbox);
    lone.del();
    after.assert_listed(&sandbox);
}

#[test]
fn every_form_of_host_ip_in_both_families() {
    let sandbox = Sandbox::new();
    let on = |mut port: serde_json::Value, host_ip: &str| {
        port["hostIP"] = json!(host_ip);
        port
    };
    let mut sctp = tcp(8083, 83);
    sctp["protocol"] = json!("sctp");
    let ports = json!([
        on(tcp(8080, 80), "10.88.0.1"),
        on(tcp(8081, 81), "0.0.0.0"),
        on(udp(8082, 82), "fd00:88::1"),
        on(sctp, "::"),
        on(udp(8084, 84), ""),
    ]);
    let lone = portmap(&sandbox, "ctr1", DUAL, ports, &json!({}));
    lone.add();
    let v4 = Golden {
        family: "ip",
        hostports: ["ip daddr 10.88.0.1 tcp dport 8080", "tcp dport 8081", "udp dport 8084"].map(entry).to_vec(),
        masquerading: Some(v4_masquerading()),
        own: vec![
            (
                "dnat",
                texts(&[
                    "ip daddr 10.88.0.1 tcp dport 8080 dnat to 10.88.0.5:80",
                    "tcp dport 8081 dnat to 10.88.0.5:81",
                    "udp dport 8084 dnat to 10.88.0.5:84",
                ]),
            ),
            ("masquerade", texts(&["masquerade"])),
        ],
    };
    let v6 = Golden {
        family: "ip6",
        hostports: ["ip6 daddr fd00:88::1 udp dport 8082", "sctp dport 8083", "udp dport 8084"].map(entry).to_vec(),
        masquerading: Some(vec![masquerade("ip6 saddr fd00:88::/64 ip6 daddr fd00:88::5 ct status dnat")]),
        own: vec![
            (
                "dnat",
                texts(&[
                    "ip6 daddr fd00:88::1 udp dport 8082 dnat to [fd00:88::5]:82",
                    "sctp dport 8083 dnat to [fd00:88::5]:83",
                    "udp dport 8084 dnat to [fd00:88::5]:84",
                ]),
            ),
            ("masquerade", texts(&["masquerade"])),
        ],
    };
    v4.assert_listed(&sandbox);
    v6.assert_listed(&sandbox);
    lone.check();
}

#[test]
fn without_snat_there_is_no_masquerading() {
    let sandbox = Sandbox::new();
    let lone = portmap(&sandbox, "ctr1", V4, json!([tcp(8080, 80)]), &json!({"snat": false}));
    lone.add();
    let golden = Golden {
        family: "ip",
        hostports: vec![entry("tcp dport 8080")],
        masquerading: None,
        own: vec![("dnat", texts(&["tcp dport 8080 dnat to 10.88.0.5:80"]))],
    };
    golden.assert_listed(&sandbox);
    lone.check();
}

/// The reference ignores the key.
#[test]
fn masq_all_masquerades_everything_that_is_translated_to_the_container() {
    let sandbox = Sandbox::new();
    let lone = portmap(&sandbox, "ctr1", V4, json!([tcp(8080, 80)]), &json!({"masqAll": true}));
    lone.add();
    let listed = table(&sandbox, "ip");
    let rule = masquerade("ip daddr 10.88.0.5 ct status dnat");
    assert!(listed.lines().any(|line| line.trim() == rule), "{listed}");
}

/// The reference's last ADD decides for all containers. Words that have no type of our own take `nft`.
#[test]
fn conditions_are_the_containers_own() {
    let sandbox = Sandbox::new();
    let words = json!(["ip", "saddr", "{", "192.0.2.2,", "192.0.2.3", "}", "ip", "ttl", ">", "5"]);
    let limited = portmap(&sandbox, "ctr1", V4, json!([tcp(8080, 80)]), &json!({"conditionsV4": words}));
    limited.add();
    let before = table(&sandbox, "ip");
    let rule = "ip saddr { 192.0.2.2, 192.0.2.3 } ip ttl > 5 tcp dport 8080 dnat to 10.88.0.5:80";
    assert!(before.contains(rule), "{before}");
    let free = portmap(&sandbox, "ctr2", &["10.88.0.6/24"], json!([tcp(8081, 80)]), &json!({}));
    free.add();
    let both = table(&sandbox, "ip");
    assert!(both.contains(rule) && both.matches("ip ttl").count() == 1, "{both}");
    limited.check();
    limited.add();
    assert_eq!(table(&sandbox, "ip").matches("ip ttl").count(), 1);
    free.del();
    assert!(table(&sandbox, "ip").contains(rule));
    limited.del();
    assert!(!table(&sandbox, "ip").contains("ctr1"));
}
