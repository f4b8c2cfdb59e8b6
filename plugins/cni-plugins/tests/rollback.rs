//! A failed ADD leaves nothing: on the real kernel, every step of every plugin's plan is made to fail in
//! turn, and the machine is compared with what it was.
//!
//! The plugins run in this process, in namespaces of the test's own thread, on a host that refuses one
//! change. What containers share (the bridge, top-level chains, forwarding) may stay; undoing is not
//! refused. Needs root.

mod support;

use std::io;
use std::thread;
use std::time::Duration;

use cni_catalog::PluginKind;
use cni_core::error::Error;
use cni_core::request::{Environment, Request};
use cni_linux::host::LinuxHost;
use cni_plugin::host::Host;
use cni_plugin::run::{Plugin, Process, run};

use support::refusing::RefusingHost;
use support::sandbox::{Sandbox, add_addressed_interface, add_device, add_interface, add_master};

/// A process whose host refuses the change of a number, counted from zero.
struct OneRefusal<'a> {
    stdin: &'a str,
    stdout: String,
    refused: usize,
}

impl Process for OneRefusal<'_> {
    fn read_stdin(&mut self) -> io::Result<Vec<u8>> {
        Ok(self.stdin.as_bytes().to_vec())
    }

    fn write_stdout(&mut self, text: &str) -> io::Result<()> {
        self.stdout.push_str(text);
        Ok(())
    }

    fn write_stderr(&mut self, text: &str) {
        eprint!("{text}");
    }

    fn host(&mut self, request: &Request) -> Result<Box<dyn Host>, Error> {
        Ok(Box::new(RefusingHost::new(LinuxHost::new(request), self.refused)))
    }
}

const PREV_RESULT: &str = r#""prevResult":{"cniVersion":"1.0.0",
    "interfaces":[{"name":"br1"},{"name":"veth0"},{"name":"eth0","sandbox":"/run/netns/c1"}],
    "ips":[{"address":"10.1.2.5/24","interface":2},{"address":"fd00:1::5/64","interface":2}]}"#;

const IPAM: &str = r#""ipam":{"type":"host-local","ranges":[[{"subnet":"10.1.2.0/24"}],[{"subnet":"fd00:1::/64"}]],
    "routes":[{"dst":"0.0.0.0/0"},{"dst":"10.9.0.0/16"}]}"#;

/// A plugin, what is there before its ADD, its keys, what stands beside them, and how many changes there are at least.
type Row = (&'static str, fn(), &'static str, &'static str, usize);

const NOTHING: fn() = || {};

/// Without a row, a plugin has the keys of its `plugin.json`.
const ROWS: [Row; 16] = [
    ("loopback", NOTHING, "", "", 1),
    (
        "bridge",
        NOTHING,
        r#""bridge":"br1","isDefaultGateway":true,"ipMasq":true,"hairpinMode":true,"mtu":1400"#,
        IPAM,
        26,
    ),
    ("bridge", NOTHING, r#""bridge":"br1""#, "", 9),
    ("ptp", NOTHING, r#""ipMasq":true,"mtu":1400"#, IPAM, 26),
    ("host-device", add_device, r#""device":"ens1""#, IPAM, 13),
    ("firewall", NOTHING, r#""backend":"iptables","ingressPolicy":"isolated""#, PREV_RESULT, 4),
    ("firewall", NOTHING, r#""backend":"nftables","ingressPolicy":"isolated""#, PREV_RESULT, 3),
    (
        "portmap",
        NOTHING,
        r#""backend":"iptables","runtimeConfig":{"portMappings":[{"hostPort":8080,"containerPort":80,"protocol":"tcp"},
            {"hostPort":8080,"containerPort":80,"protocol":"udp"}]}"#,
        PREV_RESULT,
        2,
    ),
    ("macvlan", add_master, r#""master":"wire0","mode":"private""#, IPAM, 11),
    ("tap", NOTHING, "", IPAM, 11),
    // The delegate's own steps are those of bridge.
    ("flannel", write_lease, r#""delegate":{"bridge":"br1"}"#, "", 2),
    ("tc-redirect-tap", add_interface, "", PREV_RESULT, 5),
    (
        "tuning",
        add_interface,
        r#""mac":"02:00:00:00:00:0a","mtu":1400,"promisc":true,"allmulti":true,"txQLen":500,
            "sysctl":{"net.core.somaxconn":"500","net.ipv4.conf.IFNAME.arp_filter":"1"}"#,
        PREV_RESULT,
        9,
    ),
    (
        "sbr",
        add_addressed_interface,
        "",
        r#""prevResult":{"cniVersion":"1.0.0","ips":[{"address":"10.1.2.5/24","gateway":"10.1.2.1"},
            {"address":"fd00:1::5/64"}]}"#,
        8,
    ),
    (
        "bandwidth",
        add_interface,
        r#""ingressRate":8000000,"ingressBurst":160000,"egressRate":16000000,"egressBurst":160000"#,
        PREV_RESULT,
        8,
    ),
    ("consul-cni", NOTHING, "", PREV_RESULT, 1),
];

/// They need a server, or change nothing but leases.
const WITHOUT: [&str; 3] = ["dhcp", "host-local", "static"];

/// At most so many changes after one another are records that an ADD can do without.
const DISPENSABLE: usize = 4;

/// Makes the changes of an ADD fail one by one, until it succeeds; returns how many there were.
fn fail_at_every_step(plugin: &dyn Plugin, others: fn(), config: &str) -> usize {
    let mut last = None;
    for refused in 0.. {
        let sandbox = Sandbox::new();
        others();
        let before = sandbox.state();
        let mut process = OneRefusal { stdin: config, stdout: String::new(), refused };
        let status = run(plugin, "0.0.0", sandbox.environment("ADD"), &mut process);
        if status == 0 {
            // A record that cannot be written is done without, and then the next change may be refused.
            if refused < last.map_or(0, |last: usize| last + 1) + DISPENSABLE {
                continue;
            }
            return last.unwrap_or_else(|| panic!("{} makes no change at all", plugin.kind())) + 1;
        }
        last = Some(refused);
        assert!(process.stdout.contains("refused by the test: "), "change {refused}: {}", process.stdout);
        assert!(!process.stdout.contains("while undoing"), "change {refused}: {}", process.stdout);
        let left = left_since(&before, &sandbox);
        assert!(left.is_empty(), "after {}:\n{}", process.stdout, left.join("\n"));
    }
    unreachable!("the numbers do not end")
}

/// What is new (+) or missing (-), but for link-local addresses, which the kernel gives. It takes a moment to notice that a link which is up again has a
/// carrier; what was forgotten does not go by itself.
fn left_since(before: &[String], sandbox: &Sandbox) -> Vec<String> {
    let only_in = |mark: &str, one: &[String], other: &[String]| -> Vec<String> {
        let lines = one.iter().filter(|line| !other.contains(line) && !line.contains("inet6 fe80:"));
        lines.map(|line| format!("{mark} {line}")).collect()
    };
    let observe = || {
        let now = sandbox.state();
        [only_in("+", &now, before), only_in("-", before, &now)].concat()
    };
    let mut left = observe();
    for _ in 0..20 {
        if left.is_empty() {
            break;
        }
        thread::sleep(Duration::from_millis(100));
        left = observe();
    }
    left
}

fn write_lease() {
    let lease = "FLANNEL_NETWORK=10.1.0.0/16\nFLANNEL_SUBNET=10.1.2.1/24\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=true\n";
    std::fs::create_dir_all("/run/flannel").expect("folder");
    std::fs::write("/run/flannel/subnet.env", lease).expect("lease");
}

fn roll_back((kind, others, keys, beside, least): Row) {
    let parts: Vec<&str> = [keys, beside].into_iter().filter(|part| !part.is_empty()).collect();
    let comma = if parts.is_empty() { "" } else { "," };
    let config = format!(r#"{{"cniVersion":"1.0.0","name":"net1","type":"{kind}"{comma}{}}}"#, parts.join(","));
    let steps = fail_at_every_step(cni_builtin::plugin(kind).expect("ours"), others, &config);
    assert!(steps >= least, "{kind}: {steps} changes");
}

#[test]
fn every_plugin_is_rolled_back_from_every_step() {
    thread::scope(|scope| {
        for rows in ROWS.chunks(4) {
            scope.spawn(|| rows.iter().copied().for_each(roll_back));
        }
    });
}

/// By the configurations in the files of the plugins.
#[test]
fn every_other_plugin_is_rolled_back_from_every_step() {
    for plugin in cni_builtin::PLUGINS.iter().map(|plugin| plugin.kind()) {
        let entry = cni_catalog::entry(plugin).expect("a row");
        if entry.kernel_link.is_some() || WITHOUT.contains(&plugin) || ROWS.iter().any(|row| row.0 == plugin) {
            continue;
        }
        let data = cni_catalog::test_data(plugin);
        let keys = data.failing.as_ref().unwrap_or(&data.real).to_string();
        let keys = keys.trim_start_matches('{').trim_end_matches('}').to_owned().leak();
        let beside = match entry.kind {
            PluginKind::Interface => IPAM,
            PluginKind::Chained | PluginKind::Loopback | PluginKind::Ipam => PREV_RESULT,
        };
        roll_back((plugin, add_addressed_interface, keys, beside, 1));
    }
}

/// Keeps the environment's type in one place for the support module.
fn environment(pairs: &[(&str, &str)]) -> Environment {
    Environment::new(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())))
}
