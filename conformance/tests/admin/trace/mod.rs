//! `trace`: the last line of its output on a good host, and on hosts with one defect each.

use std::net::SocketAddr;

use cni_conformance::traffic::{Echo, Transport};
use cni_conformance::{CniTool, Container, Flavour, Namespace, Outcome, Outside, Sandbox};
use serde_json::{Value, json};

use crate::admin::tool;

mod answers;
mod defects;
mod firewalls;
mod killed;

/// The exit status when the packet did not arrive.
const LOST: i32 = 3;

/// What the texts of the tests call by name in each family. A name comes before those that it begins with.
const V4: &str = "own80=10.22.0.2:80 own=10.22.0.2 out80=192.0.2.2:80 out=192.0.2.2 gateway=10.22.0.1 wrong=10.22.0.99 \
    subnet=10.22.0.0/24 all=0.0.0.0/0 forwarding=net.ipv4.ip_forward iptables=iptables ipv=ip far80=203.0.113.9:80 \
    far=203.0.113.9 v=4";
const V6: &str = "own80=[fd00:22::2]:80 own=fd00:22::2 out80=[2001:db8:2::2]:80 out=2001:db8:2::2 gateway=fd00:22::1 \
    wrong=fd00:22::99 subnet=fd00:22::/64 all=::/0 forwarding=net.ipv6.conf.all.forwarding iptables=ip6tables ipv=ip6 \
    far80=[2001:db8:77::9]:80 far=2001:db8:77::9 v=6";

fn expand(text: &str, values: &str) -> String {
    let pairs = values.split(' ').filter_map(|pair| pair.split_once('='));
    pairs.fold(text.to_owned(), |text, (name, value)| text.replace(&format!("${name}"), value))
}

/// A host with an outside and a container of one family, which publishes its port 80 as 8080.
struct TracedHost {
    sandbox: Sandbox,
    outside: Outside,
    web: Container,
    values: &'static str,
    id: String,
}

impl TracedHost {
    fn of(values: &'static str, flavour: Flavour, bridge: &Value, more: &[Value]) -> Self {
        let sandbox = Sandbox::with_flavour(flavour);
        let (outside, web) = (sandbox.outside(), sandbox.container("web"));
        add(&sandbox, &web, &list(values, bridge, more)).expect_success();
        let lease = std::fs::read_to_string(expand("/run/cni/leases/n1/$own", values)).expect("read the lease");
        let id = lease.lines().next().expect("a name").trim().to_owned();
        Self { sandbox, outside, web, values, id }
    }

    /// With the plugin firewall.
    fn with_firewall(values: &'static str) -> Self {
        Self::of(values, Flavour::Nft, &json!({}), &[json!({"type": "firewall"})])
    }

    /// Puts what names stand for in their place.
    fn text(&self, text: &str) -> String {
        expand(text, self.values).replace("$id", &self.id)
    }

    /// Runs `trace` with the probe, and expects how the packet ends and what the last line begins with.
    #[track_caller]
    fn probe(&self, words: &str, code: i32, says: &str) -> Outcome {
        let (line, says) = (self.text(&format!("trace {words} --probe")), self.text(says));
        let done = tool(&self.sandbox, &line.split(' ').collect::<Vec<_>>());
        assert_eq!(done.code(), Some(code), "{done}");
        assert!(last_line(&done).starts_with(&says), "begins with {says:?}\n{done}");
        assert_eq!(left(&self.sandbox), "", "table and link of the probe are removed");
        done
    }

    #[track_caller]
    fn sh(&self, line: &str) {
        self.sandbox.exec(&["sh", "-ec", &self.text(line)]).expect_success();
    }

    fn serve(&self, place: &Namespace, loopback: bool) -> Echo {
        let address = match (self.values == V6, loopback) {
            (false, false) => "0.0.0.0:80",
            (false, true) => "127.0.0.1:80",
            (true, false) => "[::]:80",
            (true, true) => "[::1]:80",
        };
        Echo::start(place, Transport::Tcp, address.parse::<SocketAddr>().expect("an address"))
    }
}

/// loopback, bridge with these keys, portmap, and more plugins.
fn list(values: &str, bridge: &Value, more: &[Value]) -> Value {
    let ipam = json!({"type": "host-local", "dataDir": "/run/cni/leases", "ranges": [[{"subnet": expand("$subnet", values)}]],
        "routes": [{"dst": expand("$all", values)}]});
    let own = json!({"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": true, "ipam": ipam});
    let first = [json!({"type": "loopback"}), cni_conformance::keys::with(&own, bridge)];
    let portmap = json!({"type": "portmap", "capabilities": {"portMappings": true}});
    let plugins: Vec<Value> = first.into_iter().chain([portmap]).chain(more.iter().cloned()).collect();
    json!({"cniVersion": "1.0.0", "name": "n1", "plugins": plugins})
}

fn add(sandbox: &Sandbox, container: &Container, list: &Value) -> Outcome {
    let ports = json!([{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]);
    CniTool::new(sandbox, list).capabilities(json!({"portMappings": ports})).add(container)
}

#[track_caller]
fn last_line(done: &Outcome) -> String {
    done.stdout().lines().last().unwrap_or_else(|| panic!("it says nothing: {done}")).to_owned()
}

/// The tables and links that a trace makes.
fn left(sandbox: &Sandbox) -> String {
    let all = sandbox.sh("nft list tables") + &sandbox.sh("ip -oneline link show");
    all.lines().filter(|line| ["cni-plugins-trace-", "cnitrace"].iter().any(|own| line.contains(own))).collect()
}
