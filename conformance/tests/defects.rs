//! Defects that an attack on an early state of these plugins has found, as far as no other file shows that they are
//! gone. Their numbers are those of `conformance/reference/defects.md`.
//!
//! Where the others are shown: A2 `repair/deleted`; B1 `rules/lock`; B2, B3, C7, C9 `own_fate`; B4 `trust`; B5
//! `backends/policy`; B6 `protocol/netns`; C1, C2, C3 `protocol/inherited`; C4 `del/unidentified`; C5 `trust` and
//! `backends/broken`; C10 `bridge_keys/gateway`; C11 `host_local_keys/data_dir`; C12, C14 `bridge_keys/ipam`; C13
//! `protocol/stdin`; C15 `backends/many_ports`; C16 `host_local_keys/reboot`, `bridge_keys/spoof` and below.

use std::fs;
use std::os::unix::fs::symlink;
use std::thread;
use std::time::{Duration, Instant};

use cni_conformance::cases::for_each;
use cni_conformance::{CniTool, Invocation, Lone, Network, Nomad, Sandbox, Verb, at_once};
use serde_json::{Value, json};

/// No wait is longer than ten seconds; the rest is for the work on a busy machine. What these tests are for took a minute, or no end.
const SOON: Duration = Duration::from_secs(20);

fn ports(count: u16) -> Value {
    let port = |port: u16| json!({"hostPort": 20_000 + port, "containerPort": port + 1, "protocol": "udp"});
    (0..count).map(port).collect()
}

/// The refusals of a batch of that many rules are more than the kernel keeps for a socket: for 61 seconds nothing
/// happened, and then ADD failed, every time.
#[test]
fn a1_many_ports_come_at_once_where_there_are_no_tables() {
    for_each([78, 84, 120].map(|count| (count, count)), |count| {
        let sandbox = Sandbox::new();
        let keys = json!({"backend": "iptables", "runtimeConfig": {"portMappings": ports(count)}});
        let prev_result = json!({"cniVersion": "1.0.0", "ips": [{"address": "10.77.0.2/16"}]});
        let portmap = Lone::new(&sandbox, "portmap", "c1", &prev_result, &keys);
        let added = portmap.call(Verb::Add).deadline(SOON).run();
        added.expect_success();
        portmap.check();
        portmap.call(Verb::Del).deadline(SOON).run().expect_success();
        assert!(!sandbox.sh("iptables -t nat -S").contains("c1"));
    });
}

#[test]
fn a1_repair_puts_many_ports_back_where_there_are_no_tables() {
    let sandbox = Sandbox::new();
    let list = Nomad::version("1.0.0").conflist();
    Nomad::default().ensure_forwarding_rules(&sandbox);
    let tool = CniTool::new(&sandbox, &list).capabilities(json!({"portMappings": ports(100)}));
    let container = sandbox.container("c1");
    tool.add(&container).expect_success();
    sandbox.sh("nft flush ruleset");
    Nomad::default().ensure_forwarding_rules(&sandbox);
    Invocation::new(&sandbox, "cni-plugins", Verb::Add).arguments(&["repair"]).deadline(SOON).run().expect_success();
    tool.check(&container).expect_success();
}

/// STATUS makes and removes the folder of a network that has none yet. ADD met it in between: "no such file".
#[test]
fn c6_status_keeps_no_first_add_of_a_network_from_its_folder() {
    let sandbox = Sandbox::new();
    for number in 0..60 {
        let ipam = json!({"type": "host-local", "subnet": "10.1.2.0/24", "dataDir": "/run/leases"});
        let config = json!({"cniVersion": "1.1.0", "name": format!("n{number}"), "type": "bridge", "ipam": ipam});
        let call = |verb| Invocation::new(&sandbox, "host-local", verb).netns("/run/netns/c1").config(&config);
        let calls = [Verb::Status, Verb::Add, Verb::Status, Verb::Status].map(call);
        for outcome in at_once(&calls) {
            outcome.expect_success();
        }
    }
}

/// The DEL of either removed the rules of both.
#[test]
fn c8_one_address_in_two_networks_has_its_rules_until_the_last_owner_goes() {
    for_each([("the first goes first", [0, 1]), ("the last goes first", [1, 0])], |order| {
        let sandbox = Sandbox::new();
        let owners = [("c1", "n1"), ("c2", "n2")].map(|(id, network)| {
            let container = sandbox.container(id);
            container.sh("ip link add eth0 type bridge");
            container.sh("ip address add 10.1.2.3/24 dev eth0");
            let interfaces = json!([{"name": "eth0", "sandbox": container.path()}]);
            let ips = json!([{"address": "10.1.2.3/24", "interface": 0}]);
            let prev_result = json!({"cniVersion": "1.0.0", "interfaces": interfaces, "ips": ips});
            let keys = json!({"backend": "iptables", "name": network});
            (Lone::new(&sandbox, "firewall", id, &prev_result, &keys), container)
        });
        let rules = || sandbox.sh("iptables -S CNI-FORWARD").lines().filter(|line| line.contains("10.1.2.3")).count();
        for (owner, _) in &owners {
            owner.add();
            assert_eq!(rules(), 2);
        }
        let [goes, stays] = order.map(|at| &owners[at].0);
        goes.del();
        assert_eq!(rules(), 2);
        stays.check();
        stays.del();
        assert_eq!(rules(), 0);
    });
}

/// A link that was changed between two look-ups led ADD into the host's own namespace.
#[test]
fn c16_the_namespace_of_a_container_is_looked_up_once() {
    let sandbox = Sandbox::new();
    let container = sandbox.container("c1");
    let (link, trace) = ("/run/link", "/run/conformance/looked-up");
    symlink(container.path(), link).expect("link the namespace");
    let config = json!({"cniVersion": "1.0.0", "name": "n1", "type": "loopback"});
    let slowly = "inject=fstatfs:delay_exit=2000000:when=1";
    let words = ["/usr/bin/strace", "-qq", "-o", trace, "-e", "trace=fstatfs,setns", "-e", slowly, "--"];
    let call = Invocation::new(&sandbox, "loopback", Verb::Add).netns(link).config(&config).launched_by(&words);
    thread::scope(|scope| {
        let running = scope.spawn(|| call.run());
        let started = Instant::now();
        while !fs::read_to_string(trace).is_ok_and(|text| text.contains("fstatfs(")) {
            assert!(started.elapsed() < SOON, "the namespace is looked at");
            thread::sleep(Duration::from_millis(10));
        }
        fs::remove_file(link).expect("remove the link");
        symlink("/proc/thread-self/ns/net", link).expect("link the host's own");
        running.join().expect("ended").expect_success();
    });
    let lo = |network: Network| network.link("lo").expect("a loopback interface").to_string();
    assert!(lo(Network::observe(&container)).contains(" up "), "the container has got it");
}
