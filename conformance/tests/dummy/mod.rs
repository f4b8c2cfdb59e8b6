//! The dummy plugin, where the kernel has links of that kind. What it refuses, and what it says of other
//! kernels, is shown on any.

use cni_conformance::{Attachment, Container, Namespace, Runtime, Sandbox, leases};
use serde_json::{Value, json};

use crate::on_a_master::{calls, has_eth0, shell, with_script};

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

/// All that a container has of links, addresses and routes.
fn contents(container: &Namespace) -> String {
    shell(container, "ip -o link; ip -o address; ip route show table all; ip -6 route show table all")
}

/// The addresses that host-local has given away, in order.
fn leases() -> Vec<String> {
    leases::of_network(LEASES, "services")
}
