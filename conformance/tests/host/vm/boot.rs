//! A virtual machine that boots on the device: Debian's kernel, which takes its addresses from the result.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use cni_conformance::state::{await_none, differences};
use cni_conformance::traffic::Echo;
use cni_conformance::{
    Attachment, Container, Guest, GuestSettings, Namespace, Outside, PortMapping, Runtime, Sandbox, Spelling, State,
};
use serde_json::{Value, json};

/// The container's ID, which is also that of the machine.
const ID: &str = "vm1";

const PATIENCE: Duration = Duration::from_secs(60);

/// A host with an outside, and a container that is to be a virtual machine.
struct BootHost {
    outside: Outside,
    container: Container,
    attachment: Attachment,
    list: Value,
    before: Vec<String>,
    sandbox: Sandbox,
}

impl BootHost {
    fn new(list: Value) -> Self {
        let sandbox = Sandbox::new();
        let outside = sandbox.outside();
        // What containers share stays: a neighbour has made it.
        let neighbour = sandbox.container("neighbour");
        let ports = [PortMapping::new(9090, 80, "tcp")];
        let mut kept = Attachment::new("neighbour", &neighbour).ports(&ports, Spelling::Go);
        Runtime::new(&sandbox, list.clone()).add(&mut kept).expect_success();
        let container = sandbox.container("c1");
        let ports = [PortMapping::new(8080, 80, "tcp")];
        let attachment = Attachment::new(ID, &container).ports(&ports, Spelling::Go);
        let before = State::capture(&sandbox, &[&container]).lasting();
        Self { outside, container, attachment, list, before, sandbox }
    }

    fn runtime(&self) -> Runtime<'_> {
        Runtime::new(&self.sandbox, self.list.clone())
    }

    /// Runs ADD, boots a machine from the result alone, lets it ask servers, and returns it with what it has printed.
    fn start_reaching(&mut self, servers: &[IpAddr]) -> (Guest, String) {
        let mut attachment = self.attachment.clone();
        self.runtime().add(&mut attachment).expect_success();
        self.attachment = attachment;
        Guest::boot(&self.container, &GuestSettings { reach: servers.to_vec(), ..self.settings() })
    }

    fn settings(&self) -> GuestSettings {
        settings(self.attachment.result.as_ref().expect("a result"))
    }

    /// The first address of the machine.
    fn address(&self) -> IpAddr {
        let (address, _) = self.settings().addresses.swap_remove(0);
        address.split('/').next().and_then(|address| address.parse().ok()).expect("an address")
    }

    /// Requires that nothing of the container is left after DEL, and after another.
    #[track_caller]
    fn ends(&self) {
        for _ in 0..2 {
            self.runtime().del(&self.attachment).expect_success();
            await_none(|| differences(&self.before, &State::capture(&self.sandbox, &[&self.container]).lasting()));
        }
    }
}

/// What a monitor takes from the result.
fn settings(result: &Value) -> GuestSettings {
    let interfaces = result["interfaces"].as_array().expect("interfaces");
    let guest = interfaces.iter().position(|one| one["sandbox"] == ID).expect("an entry of the machine");
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let own = result["ips"].as_array().expect("addresses").iter().filter(|ip| ip["interface"] == guest);
    let addresses = own.map(|ip| (text(&ip["address"]), text(&ip["gateway"]).parse().expect("a gateway")));
    GuestSettings {
        tap: text(&interfaces[guest]["name"]),
        mac: text(&interfaces[guest]["mac"]),
        addresses: addresses.collect(),
        reach: Vec::new(),
        says: ID.to_owned(),
    }
}

/// Asks a machine for its page.
#[track_caller]
fn page(from: &Namespace, server: SocketAddr) -> String {
    let said = from.run(|| {
        let mut stream = TcpStream::connect_timeout(&server, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
        let mut said = String::new();
        stream.read_to_string(&mut said).map(|_| said)
    });
    said.unwrap_or_else(|error| panic!("{server} does not answer: {error}"))
}

/// Both families. The result has each address twice, which makes no rule twice. DEL comes while the machine runs, as when a runtime gives up
/// waiting for it.
#[test]
fn a_machine_behind_bridge_firewall_and_portmap_is_reached_by_its_published_port() {
    let ipam = json!({
        "type": "host-local", "ranges": [[{"subnet": "10.88.0.0/24"}], [{"subnet": "fd00:88::/64"}]],
        "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}],
    });
    let plugins = json!([
        {"type": "bridge", "bridge": "br0", "isGateway": true, "ipMasq": true, "hairpinMode": true, "ipam": ipam},
        {"type": "tc-redirect-tap"}, {"type": "firewall", "backend": "iptables"},
        {"type": "portmap", "capabilities": {"portMappings": true}, "snat": true},
    ]);
    let mut machine = BootHost::new(json!({"cniVersion": "1.1.0", "name": "fcnet", "plugins": plugins}));
    let _servers = Echo::everywhere(&machine.outside, 7);
    let (guest, said) = machine.start_reaching(&[Outside::V4.into(), Outside::V6.into()]);
    assert!(said.contains(&format!("reached {}: {}:", Outside::V4, Outside::HOST_V4)), "masqueraded: {said}");
    assert!(said.contains(&format!("reached {}: [{}]:", Outside::V6, Outside::HOST_V6)), "masqueraded: {said}");
    for host in [IpAddr::from(Outside::HOST_V4), Outside::HOST_V6.into()] {
        assert!(page(&machine.outside, (host, 8080).into()).contains(ID), "the outside reaches the machine by {host}");
    }
    assert!(page(machine.sandbox.host(), (machine.address(), 80).into()).contains(ID), "the host reaches the machine");
    machine.runtime().check(&machine.attachment).expect_success();
    let rules = machine.sandbox.sh("iptables-save");
    for own in [format!("-A CNI-FORWARD -s {}/32", machine.address()), "--dport 8080 -j DNAT".to_owned()] {
        assert_eq!(rules.lines().filter(|rule| rule.contains(&own)).count(), 1, "{own}: {rules}");
    }
    machine.ends();
    guest.kill();
    machine.ends();
}
