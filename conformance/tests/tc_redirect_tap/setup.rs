//! (set-up) a host whose containers are virtual machines, and what the original plugin makes by the commands of its page

use cni_conformance::keys::with;
use cni_conformance::{Attachment, Container, Network};
use serde_json::{Value, json};

pub const PLUGIN: &str = "tc-redirect-tap";

/// A list of ptp, with addresses of both families, and the plugin.
pub fn list(keys: &Value) -> Value {
    let ipam = json!({
        "type": "host-local", "ranges": [[{"subnet": "10.1.2.0/24"}], [{"subnet": "fd00:1::/64"}]],
        "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}], "dataDir": "/run/cni",
    });
    let plugin = with(&json!({"type": PLUGIN}), keys);
    json!({"cniVersion": "1.1.0", "name": "net1", "plugins": [{"type": "ptp", "mtu": 1400, "ipam": ipam}, plugin]})
}

pub fn has(container: &Container, name: &str) -> bool {
    Network::observe(container).link(name).is_some()
}

/// What `ip` prints about the device's kind.
pub fn details(container: &Container, name: &str) -> String {
    container.must(&["ip", "-details", "link", "show", "dev", name])
}

/// What `tc` prints about a link: the disciplines that somebody made, and the filters on what it receives.
pub fn traffic_control(container: &Container, name: &str) -> Vec<String> {
    let qdiscs = container.sh(&format!("tc qdisc show dev {name}"));
    let filters = container.sh(&format!("tc filter show dev {name} ingress"));
    let made = qdiscs.lines().filter(|line| !line.contains(" 0: "));
    let unnumbered = filters.lines().filter(|line| !line.trim().is_empty() && !line.contains("index "));
    made.chain(unnumbered).map(|line| line.trim().to_owned()).collect()
}

/// Makes what the original makes, by hand, and tells what it answers.
pub fn add_as_the_original(container: &Container, attachment: &Attachment, result: &Value) -> Value {
    let ifname = &attachment.ifname;
    let link = Network::observe(container).link(ifname).expect("the interface").clone();
    container.ip(&[
        "tuntap add dev tap0 mode tap pi one_queue vnet_hdr user 0 group 0",
        &format!("link set tap0 mtu {} up", link.mtu),
    ]);
    for (from, to) in [("tap0", ifname.as_str()), (ifname, "tap0")] {
        container.sh(&format!("tc qdisc add dev {from} ingress"));
        container.sh(&format!(
            "tc filter add dev {from} parent ffff: protocol all u32 match u32 0 0 action mirred egress redirect dev {to}"
        ));
    }
    let mut result = result.clone();
    let interfaces = result["interfaces"].as_array_mut().expect("interfaces");
    let own = interfaces.iter().position(|one| one["name"] == *ifname).expect("the interface");
    interfaces.push(json!({"name": "tap0", "sandbox": attachment.netns}));
    interfaces.push(json!({"name": "tap0", "sandbox": attachment.container_id, "mac": link.mac}));
    let guest = interfaces.len() - 1;
    let ips = result["ips"].as_array_mut().expect("addresses");
    let copies: Vec<Value> = ips.iter().filter(|ip| ip["interface"] == json!(own)).cloned().collect();
    ips.extend(copies.into_iter().map(|copy| with(&copy, &json!({"interface": guest}))));
    result
}

/// Removes by hand what the original removes.
pub fn del_as_the_original(container: &Container, ifname: &str, tap: &str) {
    container.sh(&format!("tc qdisc del dev {ifname} parent ffff:fff1"));
    container.sh(&format!("ip link del {tap}"));
}
