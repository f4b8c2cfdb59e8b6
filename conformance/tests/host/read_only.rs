//! Kernel parameters that cannot be written, as inside a container whose `/proc/sys` is read-only.

use cni_conformance::cases::for_each;
use cni_conformance::{Attachment, PortMapping, Runtime, Sandbox, Spelling, Verb};
use serde_json::{Value, json};

fn protect(sandbox: &Sandbox) {
    for line in ["mount --bind /proc/sys /proc/sys", "mount -o remount,bind,ro /proc/sys"] {
        sandbox.sh(line);
    }
}

fn list(plugins: &Value) -> Value {
    json!({"cniVersion": "1.1.0", "name": "n1", "plugins": plugins})
}

fn bridge(subnet: &str, is_gateway: bool) -> Value {
    let ipam = json!({"type": "host-local", "subnet": subnet});
    json!({"type": "bridge", "bridge": "br0", "isGateway": is_gateway, "ipam": ipam})
}

/// Without the parameter, packets would not pass, or the address would be lost with the carrier.
#[test]
fn add_fails_if_a_parameter_that_it_needs_cannot_be_written() {
    let portmap = json!({"type": "portmap", "capabilities": {"portMappings": true}});
    let rows = [
        ("net/ipv4/ip_forward", "0", json!([bridge("10.88.0.0/24", true)])),
        ("net/ipv6/conf/eth0/keep_addr_on_down", "0", json!([bridge("fd00:88::/64", false)])),
        ("net/ipv4/conf/br0/route_localnet", "1", json!([bridge("10.88.0.0/24", true), portmap])),
    ];
    for_each(rows.map(|row| (row.0, row)), |(parameter, forwards, plugins)| {
        let sandbox = Sandbox::new();
        sandbox.set_sysctl("net/ipv4/ip_forward", forwards);
        protect(&sandbox);
        let container = sandbox.container("web");
        let ports = [PortMapping::new(8080, 80, "tcp")];
        let mut attachment = Attachment::new("web", &container).ports(&ports, Spelling::Spec);
        let runtime = Runtime::new(&sandbox, list(&plugins));
        let (last, failed) = (plugins.as_array().expect("plugins").len() - 1, runtime.add(&mut attachment));
        failed.expect_error(plugins[last]["type"].as_str().expect("a type"), 101, parameter);
    });
}

/// The next DEL does it.
#[test]
fn del_of_tuning_remembers_what_it_could_not_set_back() {
    let sandbox = Sandbox::new();
    let container = sandbox.container("web");
    let tuning = json!({"type": "tuning", "sysctl": {"net.ipv4.ip_default_ttl": "70"}});
    let runtime = Runtime::new(&sandbox, list(&json!([bridge("10.88.0.0/24", false), tuning])));
    let mut attachment = Attachment::new("web", &container);
    runtime.add(&mut attachment).expect_success();
    let del = || runtime.invocation(Verb::Del, "tuning", &attachment, attachment.result.as_ref()).run();
    let value = || container.sh("cat /proc/sys/net/ipv4/ip_default_ttl");
    protect(&sandbox);
    let done = del();
    assert!(done.expect_success().stderr().contains("ip_default_ttl"), "{done}");
    assert_eq!(value(), "70\n");
    sandbox.sh("umount /proc/sys");
    del().expect_success();
    assert_eq!(value(), "64\n");
}
