//! DEL with a path that leads to another container: the number of a process, or the name of a namespace, was given again.
//!
//! The other container keeps all that it has, with and without `prevResult`, in every version; and nothing of the deleted one
//! stays, although its namespace exists on without a name. The reference disconnects the other container.

use cni_conformance::cases::for_each;
use cni_conformance::{Attachment, Container, Network, PortMapping, Runtime, Sandbox, Spelling, State};
use serde_json::{Value, json};

/// Which plugins make up a list. What holds for macvlan holds for vlan and ipvlan, which most kernels of test machines lack:
/// they are removed by the same code, and tested on another kernel (`other_kernel`).
#[derive(Clone, Copy, Debug)]
enum Plugins {
    Macvlan,
    Tap,
    HostDevice,
    Ptp,
    Sbr,
    Tuning,
    Bandwidth,
    Portmap,
    Consul,
}

impl Plugins {
    const ALL: [Self; 9] = [
        Self::Macvlan,
        Self::Tap,
        Self::HostDevice,
        Self::Ptp,
        Self::Sbr,
        Self::Tuning,
        Self::Bandwidth,
        Self::Portmap,
        Self::Consul,
    ];

    /// The configuration of one of two containers.
    fn of(self, container: u8) -> Value {
        let ipam = json!({"type": "host-local", "subnet": "10.1.2.0/24", "dataDir": "/run/cni/leases"});
        let macvlan = json!({"type": "macvlan", "master": "up0", "ipam": ipam});
        let bridge = json!({"type": "bridge", "bridge": "br0", "isGateway": true, "ipam": ipam});
        match self {
            Self::Macvlan => json!([macvlan]),
            Self::Tap => json!([{"type": "tap", "ipam": ipam}]),
            Self::HostDevice => json!([{"type": "host-device", "device": format!("dev{container}"), "ipam": ipam}]),
            Self::Ptp => json!([{"type": "ptp", "ipMasq": true, "ipam": ipam}]),
            Self::Sbr => json!([macvlan, {"type": "sbr"}]),
            Self::Tuning => {
                let sysctl = json!({"net.ipv4.conf.IFNAME.arp_notify": "1"});
                json!([macvlan, {"type": "tuning", "sysctl": sysctl, "mtu": 1400}])
            }
            Self::Bandwidth => {
                let limit = 1_000_000;
                json!([bridge, {"type": "bandwidth", "ingressRate": limit, "ingressBurst": limit,
                                "egressRate": limit, "egressBurst": limit}])
            }
            Self::Portmap => {
                json!([bridge, {"type": "portmap", "capabilities": {"portMappings": true}}])
            }
            Self::Consul => json!([macvlan, {"type": "consul-cni"}]),
        }
    }
}

/// What the proxy of Consul is told.
const CONSUL: &str = r#"{"ProxyUserID":"101","ProxyInboundPort":20000,"ProxyOutboundPort":15001}"#;

struct MeshHost {
    sandbox: Sandbox,
    plugins: Plugins,
    version: &'static str,
}

impl MeshHost {
    fn new(plugins: Plugins, version: &'static str) -> Self {
        let sandbox = Sandbox::new();
        sandbox.host().ip(&[
            "link add up0 type veth peer name up1",
            "link set up0 up",
            "link set up1 up",
            "link add dev1 type veth peer name peer1",
            "link add dev2 type veth peer name peer2",
        ]);
        Self { sandbox, plugins, version }
    }

    fn runtime(&self, container: u8) -> Runtime<'_> {
        let list = json!({"cniVersion": self.version, "name": "net1", "plugins": self.plugins.of(container)});
        Runtime::new(&self.sandbox, list)
    }

    /// Without the file that tells which address was given last.
    fn state(&self, container: &Container) -> Vec<String> {
        let lines = State::capture(&self.sandbox, &[container]).lines();
        lines.into_iter().filter(|line| !line.contains("last_reserved_ip")).collect()
    }

    fn add(&self, number: u8, name: &str) -> (Container, Attachment) {
        let container = self.sandbox.container(name);
        let port = PortMapping::twins(8080 + u16::from(number), 80);
        let args = format!("IgnoreUnknown=true;CONSUL_IPTABLES_CONFIG={CONSUL}");
        let mut attachment = Attachment::new(name, &container).ports(&port, Spelling::Go).args(&args);
        self.runtime(number).add(&mut attachment).expect_success();
        (container, attachment)
    }
}

#[test]
fn del_with_the_path_of_another_container_removes_its_own_and_nothing_of_that_one() {
    let mut rows = Vec::new();
    for plugins in Plugins::ALL {
        for version in ["0.3.1", "0.4.0", "1.1.0"] {
            for with_result in [true, false] {
                let result = if with_result { "with prevResult" } else { "without" };
                rows.push((format!("{plugins:?} {version} {result}"), (plugins, version, with_result)));
            }
        }
    }
    for_each(rows, |(plugins, version, with_result)| {
        let host = MeshHost::new(plugins, version);
        let (neighbour, neighbours) = host.add(1, "neighbour");
        let before = host.state(&neighbour);
        let (old, attachment) = host.add(2, "old");
        let elsewhere = attachment.netns(neighbour.path());
        let elsewhere = if with_result { elsewhere } else { elsewhere.without_result() };
        for _ in ["once", "again, without a record"] {
            host.runtime(2).del(&elsewhere).expect_success();
        }
        if version != "0.3.1" {
            host.runtime(1).check(&neighbours).expect_success();
        }
        let left = Network::observe(&old).link("eth0").map(|link| link.kind.clone());
        // What came from the host comes back when the namespace ends, and the runtime has lost that.
        if matches!(plugins, Plugins::HostDevice) {
            host.sandbox.exec(&["ip", "netns", "del", old.name()]);
        } else {
            assert_eq!(left, None, "the interface is removed though the path leads elsewhere");
        }
        if matches!(plugins, Plugins::HostDevice) {
            assert_eq!(Network::observe(&neighbour).addresses_of("eth0"), ["10.1.2.2/24"]);
        } else {
            assert_eq!(host.state(&neighbour), before);
        }
    });
}

/// The container may rename its interface. Its address must not be given to another container while it is in use.
#[test]
fn an_interface_under_another_name_is_removed() {
    for_each([Plugins::Macvlan, Plugins::Tap].map(|plugins| (format!("{plugins:?}"), plugins)), |plugins| {
        let host = MeshHost::new(plugins, "1.0.0");
        let (container, attachment) = host.add(2, "old");
        container.ip(&["link set eth0 down", "link set eth0 name renamed"]);
        host.runtime(2).del(&attachment).expect_success();
        assert_eq!(Network::observe(&container).links.len(), 1, "only lo stays");
    });
}
