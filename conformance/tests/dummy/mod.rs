//! The dummy plugin, where the kernel has links of that kind. What it refuses, and what it says of other
//! kernels, is shown on any.

use std::fs;
use std::path::Path;

use cni_conformance::{Attachment, Container, Namespace, Network, Runtime, Sandbox, binaries, leases, script};
use serde_json::{Value, json};

mod add;
mod check;
mod del;
mod refused;

/// A network of two families whose only plugin is dummy.
fn network() -> Value {
    with_ipam(json!({
        "type": "host-local", "ranges": [[{"subnet": "10.7.0.0/24"}], [{"subnet": "fd00:7::/64"}]],
        "routes": [{"dst": "10.99.0.0/16"}, {"dst": "::/0"}], "dataDir": LEASES,
    }))
}

const LEASES: &str = "/run/ipam";

fn with_ipam(ipam: Value) -> Value {
    json!({"cniVersion": "1.1.0", "name": "services", "plugins": [{"type": "dummy", "ipam": ipam}]})
}

/// Attaches a new container and returns it with what the runtime remembers.
#[track_caller]
fn attach(sandbox: &Sandbox, list: &Value, name: &str) -> (Container, Attachment) {
    let container = sandbox.container(name);
    let mut attachment = Attachment::new(name, &container);
    Runtime::new(sandbox, list.clone()).add(&mut attachment).expect_success();
    (container, attachment)
}

/// Runs lines of shell in a container, of which each must succeed.
fn shell(container: &Namespace, lines: &str) -> String {
    container.must(&["sh", "-ec", lines])
}

/// All that a container has of links, addresses and routes.
fn contents(container: &Namespace) -> String {
    shell(container, "ip -o link; ip -o address; ip route show table all; ip -6 route show table all")
}

fn has_eth0(container: &Namespace) -> bool {
    Network::observe(container).link("eth0").is_some()
}

/// The addresses that host-local has given away, in order.
fn leases() -> Vec<String> {
    leases::of_network(LEASES, "services")
}

/// A folder of plugins with an IPAM plugin `script` beside those under test, which notes in `calls` what it is
/// called for and whether the container has the link then, and answers by a line of shell.
fn with_script(answer: &str) -> String {
    let folder = "/run/conformance/plugins";
    fs::create_dir_all(folder).expect("create a folder for plugins");
    let look = "ip -n c1 link show eth0 >/dev/null 2>&1 && link=there || link=gone";
    let lines = format!("{look}\necho $CNI_COMMAND $link >> {folder}/calls\ncat >/dev/null\n{answer}\n");
    script::install(&Path::new(folder).join("script"), &lines);
    format!("{folder}:{}", binaries::under_test().display())
}

/// What the script has noted.
fn calls() -> Vec<String> {
    let text = fs::read_to_string("/run/conformance/plugins/calls").expect("read the calls");
    text.lines().map(str::to_owned).collect()
}
