//! Rules of the reference are checked and deleted, and the reference finds ours.
//!
//! The reference's ADD is a script of `nft`; its DEL deletes the rules whose comment is the container's ID in three
//! chains; its CHECK counts them. All three are written here.

use cni_conformance::{Sandbox, Standalone};
use serde_json::json;

use crate::portmap::nftables::{V4, portmap, ruleset, run_script, table, tcp};

/// The reference's ADD of a container with two ports.
const ADD: &str = r#"
add table ip cni_hostport { comment "CNI portmap plugin" ; }
add chain ip cni_hostport hostports
add chain ip cni_hostport hostip_hostports
add chain ip cni_hostport hostports_all
flush chain ip cni_hostport hostports_all
add rule ip cni_hostport hostports_all jump hostip_hostports
add rule ip cni_hostport hostports_all jump hostports
add chain ip cni_hostport prerouting { type nat hook prerouting priority -100 ; }
flush chain ip cni_hostport prerouting
add rule ip cni_hostport prerouting fib daddr type local jump hostports_all
add chain ip cni_hostport output { type nat hook output priority -100 ; }
flush chain ip cni_hostport output
add rule ip cni_hostport output fib daddr type local jump hostports_all
add chain ip cni_hostport masquerading { type nat hook postrouting priority 100 ; }
add rule ip cni_hostport hostports ip daddr 10.88.0.1 tcp dport 8080 dnat to 10.88.0.5:80 comment "ctr1"
add rule ip cni_hostport hostports tcp dport 8081 dnat to 10.88.0.5:81 comment "ctr1"
add rule ip cni_hostport masquerading ip saddr 10.88.0.5 ip daddr 10.88.0.5 masquerade comment "ctr1"
add rule ip cni_hostport masquerading ip saddr 127.0.0.1 ip daddr 10.88.0.5 masquerade comment "ctr1"
"#;

fn lone(sandbox: &Sandbox) -> Standalone<'_> {
    let mut first = tcp(8080, 80);
    first["hostIP"] = json!("10.88.0.1");
    portmap(sandbox, "ctr1", V4, json!([first, tcp(8081, 81)]), &json!({}))
}

/// The rules of a chain that the reference regards as the container's.
fn counted(sandbox: &Sandbox, chain: &str) -> Vec<String> {
    let listed = sandbox.sh(&format!("nft -a list chain ip cni_hostport {chain}"));
    let rules = listed.lines().filter(|line| line.contains(" comment \"ctr1\" # handle "));
    rules.map(|line| line.rsplit(' ').next().expect("a handle").to_owned()).collect()
}

#[test]
fn a_container_that_the_reference_made_is_checked_and_deleted() {
    let sandbox = Sandbox::new();
    run_script(&sandbox, ADD);
    lone(&sandbox).check();
    let other = portmap(&sandbox, "ctr2", &["10.88.0.6/24"], json!([tcp(9090, 90)]), &json!({}));
    other.add();
    lone(&sandbox).check();
    lone(&sandbox).del();
    assert!(!ruleset(&sandbox).contains("ctr1"));
    other.check();
}

#[test]
fn add_takes_the_place_of_what_the_reference_made_for_the_same_ports() {
    let sandbox = Sandbox::new();
    run_script(&sandbox, ADD);
    let mut moved = lone(&sandbox);
    moved.config["prevResult"]["ips"] = json!([{"address": "10.88.0.9/24"}]);
    moved.add();
    let listed = table(&sandbox, "ip");
    assert!(!listed.contains("dnat to 10.88.0.5"), "{listed}");
    moved.check();
    moved.del();
    assert!(!ruleset(&sandbox).contains("ctr1"));
}

#[test]
fn the_reference_finds_as_many_rules_as_it_looks_for_and_deletes_them() {
    let sandbox = Sandbox::new();
    lone(&sandbox).add();
    assert_eq!((counted(&sandbox, "hostports").len(), counted(&sandbox, "masquerading").len()), (2, 2));
    for chain in ["hostports", "masquerading"] {
        for handle in counted(&sandbox, chain) {
            sandbox.sh(&format!("nft delete rule ip cni_hostport {chain} handle {handle}"));
        }
    }
    let listed = table(&sandbox, "ip");
    assert!(!listed.contains("jump dnat-") && !listed.contains("jump masquerade-"), "nothing leads there: {listed}");
    lone(&sandbox).add();
    lone(&sandbox).check();
    lone(&sandbox).del();
    assert!(!ruleset(&sandbox).contains("10.88.0.5"));
}
