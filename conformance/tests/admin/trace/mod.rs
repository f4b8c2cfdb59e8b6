//! `trace`: the last line of its output on a good host, and on hosts with one defect each.

use std::net::{IpAddr, SocketAddr};

use cni_conformance::traffic::{Echo, Transport};
use cni_conformance::{CniTool, Container, Namespace, Outcome, Sandbox};
use serde_json::{Value, json};

use crate::admin::tool;

mod answers;
mod container;
mod firewalls;
mod ipv6;
mod killed;
mod legacy;
mod others;
mod routes;

/// The exit status when the packet did not arrive.
const LOST: i32 = 3;

const ADDRESS: &str = "10.22.0.2";
const OUTSIDE: &str = "192.0.2.2:80";

const ADDRESS_V6: &str = "fd00:22::2";
const OUTSIDE_V6: &str = "[2001:db8:2::2]:80";

/// What the list has beside bridge and portmap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extra {
    Nothing,
    Firewall,
    NoMasquerade,
    /// The firewall, and addresses of IPv6 alone.
    FirewallV6,
}

fn list(extra: Extra) -> Value {
    let (subnet, everywhere) =
        if extra == Extra::FirewallV6 { ("fd00:22::/64", "::/0") } else { ("10.22.0.0/24", "0.0.0.0/0") };
    let mut plugins = vec![
        json!({"type": "loopback"}),
        json!({
            "type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": extra != Extra::NoMasquerade,
            "ipam": {
                "type": "host-local", "dataDir": "/run/cni/leases", "ranges": [[{"subnet": subnet}]],
                "routes": [{"dst": everywhere}],
            },
        }),
        json!({"type": "portmap", "capabilities": {"portMappings": true}}),
    ];
    if matches!(extra, Extra::Firewall | Extra::FirewallV6) {
        plugins.push(json!({"type": "firewall"}));
    }
    json!({"cniVersion": "1.0.0", "name": "n1", "plugins": plugins})
}

/// A container that publishes its port 80 as 8080.
fn add(sandbox: &Sandbox, name: &str, extra: Extra) -> Container {
    let ports = json!([{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]);
    let container = sandbox.container(name);
    let attached = CniTool::new(sandbox, &list(extra)).capabilities(json!({"portMappings": ports})).add(&container);
    attached.expect_success();
    container
}

/// The name that cnitool has given to the container that was added last.
fn name_of(address: &str) -> String {
    let lease = std::fs::read_to_string(format!("/run/cni/leases/n1/{address}")).expect("read the lease");
    lease.lines().next().expect("a name").trim().to_owned()
}

fn serve(place: &Namespace, address: &str) -> Echo {
    Echo::start(place, Transport::Tcp, address.parse::<SocketAddr>().expect("an address"))
}

#[track_caller]
fn last_line(done: &Outcome) -> String {
    done.stdout().lines().last().unwrap_or_else(|| panic!("it says nothing: {done}")).to_owned()
}

/// Runs `trace` with the probe, and expects how the packet ends and what the last line says.
#[track_caller]
fn probe(sandbox: &Sandbox, words: &[&str], code: i32, says: &str) -> Outcome {
    let done = tool(sandbox, &[&["trace"], words, &["--probe"]].concat());
    assert_eq!(done.code(), Some(code), "{done}");
    let last = last_line(&done);
    assert!(last.starts_with(says), "{last:?} begins with {says:?}\n{done}");
    assert_eq!(own_tables(sandbox), "", "the table is removed");
    assert_eq!(own_links(sandbox), "", "the probe's link is removed");
    done
}

fn own_tables(sandbox: &Sandbox) -> String {
    let tables = sandbox.sh("nft list tables");
    tables.lines().filter(|line| line.contains("cni-plugins-trace-")).collect()
}

fn own_links(sandbox: &Sandbox) -> String {
    let links = sandbox.sh("ip -oneline link show");
    links.lines().filter(|line| line.contains("cnitrace")).collect()
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}
