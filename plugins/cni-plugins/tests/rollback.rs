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
use cni_core::error::{Code, Error, Failure};
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

/// The change that was asked for is not made.
#[derive(Debug, thiserror::Error)]
#[error("refused by the test: {step}")]
struct Refused {
    step: String,
}

impl Failure for Refused {
    fn code(&self) -> Code {
        Code::Kernel
    }
}

const BRIDGE: &str = r#"{"cniVersion":"1.0.0","name":"net1","type":"bridge","bridge":"br1","isDefaultGateway":true,
    "ipMasq":true,"hairpinMode":true,"mtu":1400,"ipam":{"type":"host-local",
    "ranges":[[{"subnet":"10.1.2.0/24"}],[{"subnet":"fd00:1::/64"}]],"routes":[{"dst":"10.9.0.0/16"}]}}"#;

const LAYER_TWO: &str = r#"{"cniVersion":"1.0.0","name":"net1","type":"bridge","bridge":"br1"}"#;

const PTP: &str = r#"{"cniVersion":"1.0.0","name":"net1","type":"ptp","ipMasq":true,"mtu":1400,"ipam":{"type":"host-local",
    "ranges":[[{"subnet":"10.1.2.0/24"}],[{"subnet":"fd00:1::/64"}]],"routes":[{"dst":"0.0.0.0/0"},{"dst":"10.9.0.0/16"}]}}"#;

const HOST_DEVICE: &str = r#"{"cniVersion":"1.0.0","name":"net1","type":"host-device","device":"ens1","ipam":{"type":"host-local",
    "ranges":[[{"subnet":"10.1.2.0/24"}],[{"subnet":"fd00:1::/64"}]],"routes":[{"dst":"10.9.0.0/16"}]}}"#;

const LOOPBACK: &str = r#"{"cniVersion":"1.0.0","name":"net1","type":"loopback"}"#;

const MACVLAN: &str = r#"{"cniVersion":"1.0.0","name":"net1","type":"macvlan","master":"wire0","mode":"private","ipam":{
    "type":"host-local","ranges":[[{"subnet":"10.1.2.0/24"}],[{"subnet":"fd00:1::/64"}]],"routes":[{"dst":"10.9.0.0/16"}]}}"#;

const PREV_RESULT: &str = r#""prevResult":{"cniVersion":"1.0.0",
    "interfaces":[{"name":"br1"},{"name":"veth0"},{"name":"eth0","sandbox":"/run/netns/c1"}],
    "ips":[{"address":"10.1.2.5/24","interface":2},{"address":"fd00:1::5/64","interface":2}]}"#;

fn firewall(backend: &str) -> String {
    format!(
        r#"{{"cniVersion":"1.0.0","name":"net1","type":"firewall","backend":"{backend}","ingressPolicy":"isolated",{PREV_RESULT}}}"#
    )
}

fn portmap() -> String {
    format!(
        r#"{{"cniVersion":"1.0.0","name":"net1","type":"portmap","backend":"iptables","runtimeConfig":{{"portMappings":[
        {{"hostPort":8080,"containerPort":80,"protocol":"tcp"}},{{"hostPort":8080,"containerPort":80,"protocol":"udp"}}]}},
        {PREV_RESULT}}}"#
    )
}

fn tuning() -> String {
    format!(
        r#"{{"cniVersion":"1.0.0","name":"net1","type":"tuning","mac":"02:00:00:00:00:0a","mtu":1400,"promisc":true,
        "allmulti":true,"txQLen":500,"sysctl":{{"net.core.somaxconn":"500","net.ipv4.conf.IFNAME.arp_filter":"1"}},
        {PREV_RESULT}}}"#
    )
}

/// At most so many changes after one another are records that an ADD can do without.
const DISPENSABLE: usize = 4;

/// Makes the changes of an ADD fail one by one, until it succeeds; returns how many there were.
fn fail_at_every_step(plugin: &dyn Plugin, config: &str) -> usize {
    fail_at_every_step_after(|| {}, plugin, config)
}

/// The same after other plugins have done something.
fn fail_at_every_step_after(others: fn(), plugin: &dyn Plugin, config: &str) -> usize {
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

/// What is new. The kernel takes a moment to notice that a link which is up again has a carrier; what was forgotten does not go
/// by itself.
fn left_since(before: &[String], sandbox: &Sandbox) -> Vec<String> {
    let observe = || sandbox.state().into_iter().filter(|line| !before.contains(line)).collect::<Vec<_>>();
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

#[test]
fn loopback_is_rolled_back() {
    assert_eq!(fail_at_every_step(&cni_loopback::Loopback, LOOPBACK), 1);
}

#[test]
fn a_dual_stack_bridge_is_rolled_back_from_every_step() {
    let steps = fail_at_every_step(&cni_bridge::Bridge, BRIDGE);
    assert!(steps > 25, "{steps} changes");
}

#[test]
fn a_layer_two_bridge_is_rolled_back_from_every_step() {
    let steps = fail_at_every_step(&cni_bridge::Bridge, LAYER_TWO);
    assert!(steps > 8, "{steps} changes");
}

#[test]
fn a_dual_stack_pair_is_rolled_back_from_every_step() {
    let steps = fail_at_every_step(&cni_ptp::Ptp, PTP);
    assert!(steps > 25, "{steps} changes");
}

#[test]
fn a_device_of_the_host_is_moved_back_from_every_step() {
    let steps = fail_at_every_step_after(add_device, &cni_host_device::HostDevice, HOST_DEVICE);
    assert!(steps > 12, "{steps} changes");
}

#[test]
fn firewall_is_rolled_back_from_every_step() {
    for (backend, least) in [("iptables", 4), ("nftables", 3)] {
        let steps = fail_at_every_step(&cni_firewall::Firewall, &firewall(backend));
        assert!(steps >= least, "{backend}: {steps} changes");
    }
}

#[test]
fn portmap_is_rolled_back_from_every_step() {
    let steps = fail_at_every_step(&cni_portmap::Portmap, &portmap());
    assert!(steps >= 2, "{steps} changes");
}

#[test]
fn macvlan_is_rolled_back_from_every_step() {
    let steps = fail_at_every_step_after(add_master, &cni_macvlan::Macvlan, MACVLAN);
    assert!(steps > 10, "{steps} changes");
}

#[test]
fn tap_is_rolled_back_from_every_step() {
    let steps = fail_at_every_step(&cni_tap::Tap, &MACVLAN.replace("macvlan", "tap"));
    assert!(steps > 10, "{steps} changes");
}

/// The delegate's own steps are those of bridge.
#[test]
fn flannel_is_rolled_back_from_every_step() {
    let config = r#"{"cniVersion":"1.0.0","name":"net1","type":"flannel","delegate":{"bridge":"br1"}}"#;
    let steps = fail_at_every_step_after(write_lease, cni_builtin::plugin("flannel").expect("ours"), config);
    assert!(steps >= 2, "{steps} changes");
}

fn write_lease() {
    let lease = "FLANNEL_NETWORK=10.1.0.0/16\nFLANNEL_SUBNET=10.1.2.1/24\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=true\n";
    std::fs::create_dir_all("/run/flannel").expect("folder");
    std::fs::write("/run/flannel/subnet.env", lease).expect("lease");
}

#[test]
fn tc_redirect_tap_is_rolled_back_from_every_step() {
    let config = format!(r#"{{"cniVersion":"1.0.0","name":"net1","type":"tc-redirect-tap",{PREV_RESULT}}}"#);
    let steps = fail_at_every_step_after(add_interface, &cni_tc_redirect_tap::TcRedirectTap, &config);
    assert!(steps >= 5, "{steps} changes");
}

#[test]
fn tuning_is_rolled_back_from_every_step() {
    let steps = fail_at_every_step_after(add_interface, &cni_tuning::Tuning, &tuning());
    assert!(steps >= 9, "{steps} changes");
}

#[test]
fn sbr_is_rolled_back_from_every_step() {
    let result = r#""prevResult":{"cniVersion":"1.0.0","ips":[{"address":"10.1.2.5/24","gateway":"10.1.2.1"},{"address":"fd00:1::5/64"}]}"#;
    let config = format!(r#"{{"cniVersion":"1.0.0","name":"net1","type":"sbr",{result}}}"#);
    let steps = fail_at_every_step_after(add_addressed_interface, &cni_sbr::Sbr, &config);
    assert!(steps >= 8, "{steps} changes");
}

#[test]
fn bandwidth_is_rolled_back_from_every_step() {
    let limits = r#""ingressRate":8000000,"ingressBurst":160000,"egressRate":16000000,"egressBurst":160000"#;
    let config = format!(r#"{{"cniVersion":"1.0.0","name":"net1","type":"bandwidth",{limits},{PREV_RESULT}}}"#);
    let steps = fail_at_every_step_after(add_interface, &cni_bandwidth::Bandwidth, &config);
    assert_eq!(steps, 8);
}

#[test]
fn consul_cni_is_rolled_back_from_every_step() {
    let config = format!(r#"{{"cniVersion":"1.0.0","name":"net1","type":"consul-cni",{PREV_RESULT}}}"#);
    let steps = fail_at_every_step(&cni_consul_cni::ConsulCni, &config);
    assert!(steps >= 1, "{steps} changes");
}

/// The plugins that have a test above, or need a server or another kernel.
const OWN_TEST: [&str; 16] = [
    "flannel",
    "loopback",
    "bridge",
    "ptp",
    "host-device",
    "firewall",
    "portmap",
    "macvlan",
    "tap",
    "tuning",
    "sbr",
    "bandwidth",
    "consul-cni",
    "dhcp",
    "host-local",
    "static",
];

/// By the configurations in the rows.
#[test]
fn every_other_plugin_is_rolled_back_from_every_step() {
    for plugin in cni_builtin::PLUGINS.iter().copied().filter(|plugin| !OWN_TEST.contains(&plugin.kind())) {
        let entry = cni_catalog::entry(plugin.kind()).expect("a row");
        if entry.kernel_link.is_some() {
            continue;
        }
        let data = cni_catalog::test_data(plugin.kind());
        let keys = data.failing.as_ref().unwrap_or(&data.real).to_string();
        let keys = keys.trim_start_matches('{').trim_end_matches('}');
        let comma = if keys.is_empty() { "" } else { "," };
        let beside = match entry.kind {
            PluginKind::Interface => r#""ipam":{"type":"host-local","subnet":"10.1.2.0/24"}"#,
            PluginKind::Chained | PluginKind::Loopback | PluginKind::Ipam => PREV_RESULT,
        };
        let kind = plugin.kind();
        let config = format!(r#"{{"cniVersion":"1.0.0","name":"net1","type":"{kind}",{keys}{comma}{beside}}}"#);
        let steps = fail_at_every_step_after(add_addressed_interface, plugin, &config);
        assert!(steps >= 1, "{kind}: {steps} changes");
    }
}

#[test]
fn a_result_that_cannot_be_written_takes_the_attachment_back() {
    struct NoStdout<'a>(OneRefusal<'a>);
    impl Process for NoStdout<'_> {
        fn read_stdin(&mut self) -> io::Result<Vec<u8>> {
            self.0.read_stdin()
        }
        fn write_stdout(&mut self, text: &str) -> io::Result<()> {
            self.0.write_stdout(text)?;
            Err(io::Error::from(io::ErrorKind::StorageFull))
        }
        fn write_stderr(&mut self, text: &str) {
            self.0.write_stderr(text);
        }
        fn host(&mut self, request: &Request) -> Result<Box<dyn Host>, Error> {
            self.0.host(request)
        }
    }
    let sandbox = Sandbox::new();
    let before = sandbox.state();
    let mut process = NoStdout(OneRefusal { stdin: BRIDGE, stdout: String::new(), refused: usize::MAX });
    assert_eq!(run(&cni_bridge::Bridge, "0.0.0", sandbox.environment("ADD"), &mut process), 1);
    assert!(process.0.stdout.contains("could not write the result to stdout"), "{}", process.0.stdout);
    let left: Vec<String> = sandbox.state().into_iter().filter(|line| !before.contains(line)).collect();
    assert!(left.is_empty(), "{}", left.join("\n"));
}

/// Keeps the environment's type in one place for the support module.
fn environment(pairs: &[(&str, &str)]) -> Environment {
    Environment::new(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())))
}
