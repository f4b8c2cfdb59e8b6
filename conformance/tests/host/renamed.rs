//! DEL under another network name than ADD: the network was renamed, or its ADD was refused since another network has the interface.
//!
//! A renamed network leaves nothing, and a refused ADD takes nothing from the network that has the interface. The reference removes the
//! interface in both cases, and leaves rules and leases in both.

use cni_conformance::cases::for_each;
use cni_conformance::keys::with;
use cni_conformance::{Attachment, Container, Flavour, PortMapping, Runtime, Sandbox, Spelling, State, flannel, state};
use serde_json::{Value, json};

/// What changes with each ADD and belongs to no container: where the next address is looked for, the age of the index of leases, and
/// empty files that are locked.
const CHANGING: [&str; 3] = ["/last_reserved_ip.", "/.cni-plugins-rs/stamp", "/run/cni/.cni-plugins-rs/filter-"];

/// The mark of a refused ADD, which stays while the other network has the interface.
const MARK: &str = "/refused";

/// A list, and what makes its ADD fail where nothing else does.
struct List {
    name: &'static str,
    plugins: Value,
    refused: Value,
}

/// Every plugin that this kernel has links for; `on_a_master` and `vrf` have the others.
fn lists() -> Vec<List> {
    let ipam = json!({"type": "host-local", "subnet": "10.1.2.0/24", "routes": [{"dst": "0.0.0.0/0"}]});
    let bridge = json!({"type": "bridge", "bridge": "br0", "isGateway": true, "ipMasq": true, "macspoofchk": true, "ipam": ipam});
    let ptp = json!({"type": "ptp", "ipMasq": true, "ipam": ipam});
    let macvlan = json!({"type": "macvlan", "master": "up0", "ipam": ipam});
    let tuning = json!({"type": "tuning", "mtu": 1400, "mac": "02:00:00:00:00:07",
                        "sysctl": {"net.ipv4.conf.IFNAME.arp_notify": "1", "net.core.somaxconn": "500"}});
    let ports = |backend: &str| json!({"type": "portmap", "backend": backend, "capabilities": {"portMappings": true}});
    let limit = 1_000_000;
    let bandwidth = json!({"type": "bandwidth", "ingressRate": limit, "ingressBurst": limit,
                           "egressRate": limit, "egressBurst": limit});
    let routes = json!({"type": "route-override", "addroutes": [{"dst": "10.99.0.0/16"}], "flushgateway": true});
    let firewall = json!({"type": "firewall", "backend": "iptables", "ingressPolicy": "same-bridge"});
    let flannel = json!({"type": "flannel", "delegate": {"bridge": "br0"}});
    let list = |name, plugins: Value| List { name, plugins, refused: Value::Null };
    let alone = |name, mut plugin: Value, unusable: Value| {
        plugin["prevResult"] = json!({
            "cniVersion": "1.0.0", "interfaces": [{"name": "eth0", "sandbox": "/run/netns/c1"}],
            "ips": [{"address": "10.1.2.3/24", "gateway": "10.1.2.1", "interface": 0}],
        });
        List { name, refused: json!([with(&plugin, &unusable)]), plugins: json!([plugin]) }
    };
    vec![
        list("bridge and all rules", json!([bridge, firewall, ports("iptables"), bandwidth, tuning])),
        list("bridge, sbr", json!([bridge, {"type": "sbr"}])),
        list("bridge, tc-redirect-tap", json!([bridge, {"type": "tc-redirect-tap"}])),
        list("ptp, portmap", json!([with(&ptp, &json!({"ipMasqBackend": "nftables"})), ports("nftables")])),
        list("ptp, route-override", json!([ptp, routes])),
        list("macvlan, tuning, consul-cni", json!([macvlan, tuning, {"type": "consul-cni"}])),
        list("tap", json!([{"type": "tap", "ipam": ipam}])),
        list("host-device, tuning", json!([{"type": "host-device", "device": "dev0", "ipam": ipam}, tuning])),
        list("flannel, portmap", json!([flannel, ports("iptables")])),
        alone("tuning", tuning.clone(), json!({"sysctl": {"net.ipv4.conf.IFNAME.no_such_key": "1"}})),
        alone("sbr", json!({"type": "sbr"}), json!({"table": -1})),
        alone("route-override", routes.clone(), json!({"addroutes": [{"dst": "no network"}]})),
    ]
}

/// What the proxy of Consul is told.
const CONSUL: &str = r#"{"ProxyUserID":"101","ProxyInboundPort":20000,"ProxyOutboundPort":15001}"#;

struct RenamedHost {
    sandbox: Sandbox,
    list: List,
    container: Container,
    attachment: Attachment,
}

impl RenamedHost {
    /// Has made what containers of both networks share.
    fn new(list: List) -> Self {
        let sandbox = Sandbox::with_flavour(Flavour::Nft);
        sandbox.host().ip(&[
            "link add up0 type veth peer name up1",
            "link set up0 up",
            "link set up1 up",
            "link add dev0 mtu 1450 type veth peer name dev1",
        ]);
        flannel::write_lease(&flannel::lease("10.88.0.0/16", "10.88.0.1/24", 1450));
        let container = sandbox.container("c1");
        if !list.refused.is_null() {
            container.ip(&[
                "link add eth0 address 02:00:00:00:00:01 type veth peer name far",
                "link set far up",
                "link set eth0 up",
                "addr add 10.1.2.3/24 dev eth0",
                "route add default via 10.1.2.1",
            ]);
        }
        let args = format!("IgnoreUnknown=true;CONSUL_IPTABLES_CONFIG={CONSUL}");
        let attachment =
            Attachment::new("c1", &container).ports(&PortMapping::twins(8080, 80), Spelling::Go).args(&args);
        let mut host = Self { sandbox, list, container, attachment };
        for network in ["other", "first"] {
            host.add(network);
            host.del(network);
        }
        host
    }

    fn network(&self, name: &str, plugins: &Value) -> Runtime<'_> {
        Runtime::new(&self.sandbox, json!({"cniVersion": "1.1.0", "name": name, "plugins": plugins}))
    }

    fn add(&mut self, network: &str) {
        let mut attachment = self.attachment.clone();
        self.network(network, &self.list.plugins).add(&mut attachment).expect_success();
        self.attachment = attachment;
    }

    fn del(&self, network: &str) {
        self.network(network, &self.list.plugins).del(&self.attachment).expect_success();
    }

    /// ADD of the other network, which is refused, and DEL, as a runtime calls it then: without a result. To GC the attachment is unknown.
    fn refused(&self) {
        let plugins = if self.list.refused.is_null() { &self.list.plugins } else { &self.list.refused };
        let other = self.network("other", plugins);
        let mut attachment = self.attachment.clone().without_result();
        assert!(!other.add(&mut attachment).succeeded(), "the name is taken");
        for _ in ["once", "again"] {
            other.del(&attachment).expect_success();
            other.gc(&[]).expect_success();
        }
    }

    fn state(&self) -> Vec<String> {
        let mut lines = State::capture(&self.sandbox, &[&self.container]).with_nat_of(&self.container).lines();
        lines.retain(|line| !CHANGING.iter().any(|changing| line.contains(changing)));
        let host = ["tc qdisc show", "ip -o link show type veth"];
        let inside = ["tc qdisc show", "ip -o link show", "ip rule show", "ip -6 rule show"];
        let outputs =
            host.iter().map(|line| self.sandbox.sh(line)).chain(inside.iter().map(|line| self.container.sh(line)));
        lines.extend(outputs.flat_map(|output| output.lines().map(str::to_owned).collect::<Vec<_>>()));
        lines
    }

    #[track_caller]
    fn is(&self, before: &[String], when: &str) {
        let left = state::differences(before, &self.state());
        assert!(left.is_empty(), "{when}:\n{}", left.join("\n"));
    }

    /// The same but for the mark.
    #[track_caller]
    fn is_but_marked(&self, before: &[String], when: &str) {
        let mut left = state::differences(before, &self.state());
        left.retain(|line| !line.contains(MARK));
        assert!(left.is_empty(), "{when}:\n{}", left.join("\n"));
    }
}

fn rows() -> impl Iterator<Item = (&'static str, List)> {
    lists().into_iter().map(|list| (list.name, list))
}

#[test]
fn del_under_the_new_name_removes_what_add_made_under_the_former() {
    let ways = [("with prevResult", true), ("without", false)];
    let rows = ways
        .into_iter()
        .flat_map(|(way, has_result)| rows().map(move |(name, list)| (format!("{name}, {way}"), (list, has_result))));
    for_each(rows, |(list, has_result)| {
        let mut host = RenamedHost::new(list);
        let before = host.state();
        host.add("first");
        if !has_result {
            host.attachment.result = None;
        }
        host.del("other");
        host.is(&before, "after DEL under the new name");
        host.del("first");
        host.is(&before, "after the late DEL under the former");
    });
}

#[test]
fn del_under_the_new_name_removes_what_is_left_of_a_namespace_that_has_ended() {
    for_each(rows(), |list| {
        let mut host = RenamedHost::new(list);
        let named = |host: &RenamedHost| {
            let mut lines = State::of_host(&host.sandbox).lines();
            lines.retain(|line| ["first", "c1", ".cni-plugins-rs"].iter().any(|name| line.contains(name)));
            lines.retain(|line| !CHANGING.iter().any(|changing| line.contains(changing)));
            lines
        };
        let before = named(&host);
        host.add("first");
        host.sandbox.end(&host.container);
        host.del("other");
        assert_eq!(named(&host), before);
    });
}

#[test]
fn del_after_a_refused_add_takes_nothing_from_the_network_that_has_the_interface() {
    for_each(rows(), |list| {
        let mut host = RenamedHost::new(list);
        let before = host.state();
        host.add("first");
        let alive = host.state();
        for _ in 0..2 {
            host.refused();
            host.is_but_marked(&alive, "after DEL of the refused ADD");
        }
        host.del("first");
        host.is(&before, "after DEL");
    });
}

/// ADD was refused in a namespace that has ended. The interface of the next one has the same index, and no record.
#[test]
fn del_after_a_refused_add_is_over_with_the_namespace() {
    let sandbox = Sandbox::new();
    let network = Runtime::new(
        &sandbox,
        json!({"cniVersion": "1.1.0", "name": "n1", "plugins": [{"type": "bridge", "bridge": "br0"}]}),
    );
    let container = |name: &str, port: &str| {
        let container = sandbox.container(name);
        sandbox.host().ip(&[&format!("link add {port} type veth peer name eth0 netns {name}")]);
        container
    };
    let earlier = container("earlier", "veth0a1b2c3d");
    assert!(!network.add(&mut Attachment::new("c1", &earlier)).succeeded(), "the name is taken");
    sandbox.end(&earlier);
    let container = container("c1", "veth0a1b2c3e");
    network.del(&Attachment::new("c1", &container)).expect_success();
    let links = container.sh("ip -o link show");
    assert!(!links.contains("eth0"), "{links}");
}

#[test]
fn del_takes_nothing_from_another_network_where_no_refusal_can_be_written_down() {
    let mut host = RenamedHost::new(lists().remove(0));
    host.add("first");
    let remount = |way: &str| drop(host.sandbox.sh(&format!("mount -o remount,{way} /run")));
    // The program leaves a directory in /run.
    remount("rw");
    let alive = host.state();
    remount("ro");
    host.refused();
    remount("rw");
    host.is(&alive, "after DEL of the refused ADD");
}
