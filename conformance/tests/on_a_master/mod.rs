//! Links on a master: macvlan, vlan and ipvlan. Every test is for each kind, on a kernel that has it; what differs is in the table.

use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use cni_conformance::keys::with;
use cni_conformance::traffic::ping_until_answered;
use cni_conformance::{
    Attachment, Container, Feature, Namespace, Network, Outside, Runtime, Sandbox, binaries, leases, script,
};
use serde_json::{Value, json};

mod add;
mod check;
mod del;
mod differential;
mod hidden;
mod master;
mod moved_on;
mod nomad;
mod property;
mod reference;
mod refused;
mod traffic;

/// The kinds, by what they need of a kernel.
pub const KINDS: &[Feature] = &[Feature::MacvlanLinks, Feature::VlanLinks, Feature::IpvlanLinks];

/// The interface of the host that leads to the network.
pub const UPLINK: &str = Outside::HOST_LINK;

/// How long the first packet may take.
const SOON: Duration = Duration::from_secs(20);

/// How long to wait for a packet that must not come.
pub const NEVER: Duration = Duration::from_millis(300);

/// The plugin for a kind of links, which is the kernel's word for them.
pub fn plugin(kind: Feature) -> &'static str {
    match kind {
        Feature::MacvlanLinks => "macvlan",
        Feature::VlanLinks => "vlan",
        Feature::IpvlanLinks => "ipvlan",
        Feature::BridgeVlans | Feature::DummyLinks | Feature::Hardware | Feature::VrfLinks => {
            panic!("{kind:?} is no kind of link on a master")
        }
    }
}

/// A host with an uplink, and a router at its other end.
pub struct MasterHost {
    pub sandbox: Sandbox,
    pub outside: Outside,
    pub kind: Feature,
}

impl MasterHost {
    pub fn new(kind: Feature) -> Self {
        let sandbox = Sandbox::new();
        let outside = sandbox.outside();
        let machine = Self { sandbox, outside, kind };
        if kind == Feature::VlanLinks {
            machine.outside.ip(&[
                &format!("link add link {} name {} type vlan id 5", Outside::LINK, machine.wire()),
                &format!("link set {} up", machine.wire()),
            ]);
        }
        let address = |address: &str| format!("address add {address} dev {}", machine.wire());
        machine.outside.ip(&[&address("10.7.0.1/24"), &address("fd00:7::1/64 nodad")]);
        machine
    }

    /// The router's link into the network of the containers.
    pub fn wire(&self) -> &'static str {
        if self.kind == Feature::VlanLinks { "wire0.5" } else { Outside::LINK }
    }

    /// The plugin's configuration with these keys beside those that it needs.
    pub fn network(&self, keys: &Value) -> Value {
        let mut plugin = json!({"type": plugin(self.kind), "master": UPLINK, "ipam": ipam()});
        if self.kind == Feature::VlanLinks {
            plugin["vlanId"] = json!(5);
        }
        json!({"cniVersion": "1.1.0", "name": "lan", "plugins": [with(&plugin, keys)]})
    }

    pub fn runtime(&self, list: &Value) -> Runtime<'_> {
        Runtime::new(&self.sandbox, list.clone())
    }

    /// Attaches a new container and returns it with what the runtime remembers.
    #[track_caller]
    pub fn attach(&self, list: &Value, name: &str) -> (Container, Attachment) {
        let container = self.sandbox.container(name);
        let mut attachment = Attachment::new(name, &container);
        self.runtime(list).add(&mut attachment).expect_success();
        (container, attachment)
    }

    /// The names of the links on the host.
    pub fn links(&self) -> Vec<String> {
        Network::observe(self.sandbox.host()).links.into_iter().map(|link| link.name).collect()
    }

    /// The addresses that host-local has given away, in order.
    pub fn leases(&self) -> Vec<String> {
        leases::of_network(LEASES, "lan")
    }
}

const LEASES: &str = "/run/ipam";

/// Addresses of one family, since the kernel takes its time to look for another owner of one of the other.
fn ipam() -> Value {
    json!({
        "type": "host-local", "ranges": [[{"subnet": "10.7.0.0/24", "rangeStart": "10.7.0.2"}]],
        "routes": [{"dst": "0.0.0.0/0"}, {"dst": "10.99.0.0/16"}], "dataDir": LEASES,
    })
}

/// Addresses of both.
pub fn of_both_families() -> Value {
    json!({
        "type": "host-local", "dataDir": LEASES, "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}],
        "ranges": [[{"subnet": "10.7.0.0/24", "rangeStart": "10.7.0.2"}], [{"subnet": "fd00:7::/64", "rangeStart": "fd00:7::2"}]],
    })
}

/// Runs lines of shell in a namespace; each must succeed.
pub fn shell(namespace: &Namespace, lines: &str) -> String {
    namespace.must(&["sh", "-ec", lines])
}

/// All that a container has of links, addresses and routes, but for what the kernel does by itself in a while.
fn contents(container: &Namespace) -> String {
    let text = shell(container, "ip -o -d link; ip -o address; ip route show table all; ip -6 route show table all");
    let lines = text.lines().filter(|line| !["fe80:", "ff00:"].iter().any(|own| line.contains(own)));
    let states = ["UNKNOWN", "UP", "DOWN", "LOWERLAYERDOWN"].map(|state| format!(" state {state} "));
    lines.map(|line| states.iter().fold(line.to_owned(), |line, state| line.replace(state, " ")) + "\n").collect()
}

pub fn has_eth0(container: &Namespace) -> bool {
    Network::observe(container).link("eth0").is_some()
}

#[track_caller]
pub fn assert_reaches(from: &Namespace, target: &str) {
    ping_until_answered(from, target.parse::<IpAddr>().expect("an address"), SOON);
}

/// A folder of plugins with an IPAM plugin `script` beside those under test, which notes in `calls` what it is
/// called for and whether the container has the link then, and answers by a line of shell.
pub fn with_script(answer: &str) -> String {
    let folder = "/run/conformance/plugins";
    fs::create_dir_all(folder).expect("create a folder for plugins");
    let look = "ip -n c1 link show eth0 >/dev/null 2>&1 && link=there || link=gone";
    let lines = format!("{look}\necho $CNI_COMMAND $link >> {folder}/calls\ncat >/dev/null\n{answer}\n");
    script::install(&Path::new(folder).join("script"), &lines);
    format!("{folder}:{}", binaries::under_test().display())
}

/// What the script has noted.
pub fn calls() -> Vec<String> {
    let text = fs::read_to_string("/run/conformance/plugins/calls").expect("read the calls");
    text.lines().map(str::to_owned).collect()
}
