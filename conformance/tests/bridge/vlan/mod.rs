//! Containers in VLANs of one bridge: `vlan`, `vlanTrunk` and `preserveDefaultVlan`.

use std::net::IpAddr;
use std::time::Duration;

use cni_conformance::keys::with;
use cni_conformance::traffic::{ping, ping_until_answered};
use cni_conformance::{Attachment, Container, Namespace, Runtime, Sandbox};
use serde_json::{Value, json};

mod check;
mod gateway;
mod ports;
mod refused;
mod traffic;

/// How long the first packet may take, and how long to wait for one that must not come.
const SOON: Duration = Duration::from_secs(20);
const NEVER: Duration = Duration::from_millis(300);

/// A network on the bridge `br0` that differs from others by these keys.
fn network(keys: &Value) -> Value {
    let plugin = with(&json!({"type": "bridge", "bridge": "br0"}), keys);
    json!({"cniVersion": "1.0.0", "name": "vlans", "plugins": [plugin]})
}

/// As [`network`], with addresses.
fn addressed(subnet: &str, keys: &Value) -> Value {
    let mut list = network(keys);
    list["plugins"][0]["ipam"] =
        json!({"type": "host-local", "ranges": [[{"subnet": subnet}]], "dataDir": "/run/ipam"});
    list
}

/// Attaches a new container and returns it with what the runtime remembers.
#[track_caller]
fn attach(sandbox: &Sandbox, list: &Value, name: &str) -> (Container, Attachment) {
    let container = sandbox.container(name);
    let mut attachment = Attachment::new(name, &container);
    Runtime::new(sandbox, list.clone()).add(&mut attachment).expect_success();
    (container, attachment)
}

/// The name of an interface of the result.
fn interface(attachment: &Attachment, index: usize) -> String {
    let result = attachment.result.as_ref().expect("the container is attached");
    result["interfaces"][index]["name"].as_str().expect("an interface has a name").to_owned()
}

/// The container's first address.
fn address(attachment: &Attachment) -> IpAddr {
    let result = attachment.result.as_ref().expect("the container is attached");
    let text = result["ips"][0]["address"].as_str().expect("an address is text");
    text.split('/').next().unwrap_or(text).parse().expect("an address")
}

/// The VLANs of a port on the host, as `5 pvid untagged` or `20-30`.
fn vlans(sandbox: &Sandbox, port: &str) -> Vec<String> {
    let text = sandbox.sh(&format!("bridge -j -compressvlans vlan show dev {port}"));
    let ports: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("bridge printed {text}: {error}"));
    let vlans = ports[0]["vlans"].as_array().cloned().unwrap_or_default();
    vlans.iter().map(vlan_text).collect()
}

fn vlan_text(vlan: &Value) -> String {
    let mut text = vlan["vlan"].to_string();
    if let Some(end) = vlan["vlanEnd"].as_u64() {
        text = format!("{text}-{end}");
    }
    for (flag, word) in [("PVID", " pvid"), ("Egress Untagged", " untagged")] {
        if vlan["flags"].as_array().is_some_and(|flags| flags.iter().any(|set| set == flag)) {
            text.push_str(word);
        }
    }
    text
}

/// Requires that one namespace reaches an address.
#[track_caller]
fn assert_reaches(from: &Namespace, target: IpAddr) {
    ping_until_answered(from, target, SOON);
}

/// Requires that one namespace does not reach an address; what it does reach is asked for first, so that
/// its own port is known to pass packets.
#[track_caller]
fn assert_does_not_reach(from: &Namespace, target: IpAddr) {
    assert!(!ping(from, target, NEVER), "{} reaches {target}", from.name());
}
