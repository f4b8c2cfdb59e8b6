//! Ports of the host beside containers of the reference, whose iptables has the older rules first too, many at once, and the cost of
//! tracked connections. All else is in `cases/portmap`.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use cni_conformance::reference::{self, Reference};
use cni_conformance::traffic::{Echo, Transport, ask_by, crowd};
use cni_conformance::{
    Attachment, Container, Flavour, Invocation, Nomad, Outside, PortMapping, Runtime, Sandbox, Spelling, Verb,
    result_cache,
};
use serde_json::Value;

const PORT: u16 = 8080;

/// A host with an outside.
struct PublishingHost {
    outside: Outside,
    list: Value,
    sandbox: Sandbox,
}

/// A container, and what the runtime knows of it.
struct PublishedContainer {
    attachment: Attachment,
    container: Container,
}

/// Whose plugins make a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Ours,
    Reference,
}

use Side::{Ours, Reference as Theirs};

impl PublishingHost {
    fn new(flavour: Flavour) -> Self {
        let sandbox = Sandbox::with_flavour(flavour);
        let nomad = Nomad::default().dual_stack();
        nomad.ensure_forwarding_rules(&sandbox);
        Self { outside: sandbox.outside(), list: nomad.conflist(), sandbox }
    }

    fn runtime(&self, side: Side, reference: &Reference) -> Runtime<'_> {
        let runtime = Runtime::new(&self.sandbox, self.list.clone());
        if side == Ours { runtime } else { runtime.binaries(&reference.folder) }
    }

    fn add(&self, side: Side, reference: &Reference, name: &str) -> PublishedContainer {
        let container = self.sandbox.container(name);
        let ports = PortMapping::twins(PORT, 80);
        let mut attachment = Attachment::new(name, &container).ports(&ports, Spelling::Go);
        self.runtime(side, reference).add(&mut attachment).expect_success();
        result_cache::store(&self.list, &attachment);
        PublishedContainer { attachment, container }
    }

    fn del(&self, side: Side, reference: &Reference, published: &PublishedContainer) {
        self.runtime(side, reference).del(&published.attachment).expect_success();
    }

    /// Requires that the port leads to a container, in both families.
    #[track_caller]
    fn leads_to(&self, published: &PublishedContainer) {
        let _servers = Echo::everywhere(&published.container, 80);
        let hosts: [IpAddr; 2] = [Outside::HOST_V4.into(), Outside::HOST_V6.into()];
        for (host, transport) in hosts.iter().flat_map(|host| Transport::ALL.map(|transport| (host, transport))) {
            let answer = ask_by(&self.outside, transport, SocketAddr::new(*host, PORT), 0, Duration::from_secs(60));
            let (_, name) = answer.unwrap_or_else(|error| panic!("{}: {error}", published.container.name()));
            assert_eq!(name, published.container.name());
        }
    }

    /// The rules that lead to containers, and the records of ports.
    fn left(&self) -> String {
        let rules = ["iptables", "ip6tables"].map(|program| self.sandbox.sh(&format!("{program} -t nat -S"))).concat();
        let entries: Vec<&str> = rules.lines().filter(|line| line.starts_with("-A CNI-HOSTPORT-DNAT ")).collect();
        entries.join("\n") + &self.sandbox.sh("find /run/cni -path */port/* -type f")
    }
}

/// Who adds the older container, who the newer one, and who deletes the older one.
const HISTORIES: [[Side; 3]; 6] = [
    [Theirs, Ours, Theirs],
    [Theirs, Ours, Ours],
    [Ours, Theirs, Ours],
    [Ours, Theirs, Theirs],
    [Ours, Ours, Theirs],
    [Theirs, Theirs, Ours],
];

#[test]
fn the_older_one_keeps_the_port_until_its_del_whichever_plugins_are_called() {
    let Some(reference) = reference::find("two containers with one host port") else { return };
    for (flavour, [old_by, new_by, del_by]) in Flavour::ALL.iter().flat_map(|one| HISTORIES.map(|by| (*one, by))) {
        let host = PublishingHost::new(flavour);
        let (old, new) = (host.add(old_by, &reference, "old"), host.add(new_by, &reference, "new"));
        host.leads_to(&old);
        host.del(del_by, &reference, &old);
        host.leads_to(&new);
    }
}

/// After a swap to the reference and back: the record of its port is of the namespace before.
#[test]
fn a_container_that_the_reference_has_added_again_keeps_its_port() {
    let Some(reference) = reference::find("the port of a container that the reference has added again") else { return };
    let host = PublishingHost::new(Flavour::Nft);
    let old = host.add(Ours, &reference, "old");
    host.del(Theirs, &reference, &old);
    host.sandbox.end(&old.container);
    let again = host.add(Theirs, &reference, "old");
    let new = host.add(Ours, &reference, "new");
    host.leads_to(&again);
    host.del(Ours, &reference, &new);
    host.leads_to(&again);
    let newer = host.add(Ours, &reference, "newer");
    host.del(Ours, &reference, &again);
    host.leads_to(&newer);
    host.del(Ours, &reference, &newer);
    assert_eq!(host.left(), "");
}

/// Only the first repair records the ports of a container that the reference has made.
#[test]
fn the_older_one_keeps_the_port_however_often_all_rules_are_flushed_and_repaired() {
    let Some(reference) = reference::find("repairs of the port of the reference's container") else { return };
    for [old_by, new_by] in [[Theirs, Ours], [Theirs, Theirs], [Ours, Theirs], [Ours, Ours]] {
        let host = PublishingHost::new(Flavour::Nft);
        let (old, new) = (host.add(old_by, &reference, "old"), host.add(new_by, &reference, "new"));
        for _ in 0..2 {
            for line in ["iptables -F", "iptables -t nat -F", "ip6tables -F", "ip6tables -t nat -F"] {
                host.sandbox.sh(line);
            }
            let repair = Invocation::new(&host.sandbox, "cni-plugins", Verb::Add).arguments(&["repair"]);
            repair.run().expect_success();
            host.leads_to(&old);
        }
        host.del(Ours, &reference, &old);
        host.leads_to(&new);
        host.del(Ours, &reference, &new);
        assert_eq!(host.left(), "", "{old_by:?} {new_by:?}");
    }
}

/// A list whose only plugin is portmap, behind others that have given an address.
fn alone(backend: &str) -> Value {
    serde_json::json!({"cniVersion": "1.0.0", "name": "n1", "plugins": [{
        "type": "portmap", "backend": backend, "capabilities": {"portMappings": true},
        "prevResult": {"cniVersion": "1.0.0", "ips": [{"address": "10.88.0.5/24"}, {"address": "fd00:88::5/64"}]},
    }]})
}

/// The refusals of a batch of that many rules are more than the kernel keeps for a socket: for 61 seconds nothing happened, and then ADD
/// failed, every time.
#[test]
fn many_ports_come_at_once_where_there_are_no_tables() {
    for count in [78, 84, 120] {
        let sandbox = Sandbox::new();
        let container = sandbox.container("c1");
        let ports: Vec<PortMapping> = (0..count).map(|port| PortMapping::new(20_000 + port, port + 1, "udp")).collect();
        let mut attachment = Attachment::new("c1", &container).ports(&ports, Spelling::Go);
        // No wait is longer than ten seconds; the rest is for the work on a busy machine.
        let runtime = Runtime::new(&sandbox, alone("iptables")).deadline(Duration::from_secs(20));
        runtime.add(&mut attachment).expect_success();
        runtime.check(&attachment).expect_success();
        runtime.del(&attachment).expect_success();
        assert!(!sandbox.sh("iptables -t nat -S").contains("c1"));
    }
}

/// The kernel deletes connections of IPv4 without listing any, unless there are many. Those of IPv6 are listed
/// once, however many ports there are. The reference lists both families for every port.
#[test]
fn one_listing_of_connections_serves_all_ports() {
    const TRACE: &str = "/run/conformance/sent";
    let sandbox = Sandbox::new();
    let container = sandbox.container("guest");
    let ports: Vec<PortMapping> = (5300..5303).map(|port| PortMapping::new(port, 53, "udp")).collect();
    let attachment = Attachment::new("guest", &container).ports(&ports, Spelling::Go);
    let runtime = Runtime::new(&sandbox, alone("iptables"));
    sandbox.sh("iptables -A INPUT -m conntrack --ctstate NEW -j ACCEPT");
    // An empty table would not be listed at all.
    crowd(&sandbox, 100);
    for verb in [Verb::Add, Verb::Del] {
        let strace = ["/usr/bin/strace", "-f", "-qq", "-o", TRACE, "-e", "trace=sendto,sendmsg", "-e", "signal=none"];
        runtime.invocation(verb, "portmap", &attachment, None).launched_by(&strace).run().expect_success();
        let sent = std::fs::read_to_string(TRACE).expect("read what was sent");
        let listings: Vec<&str> = sent.lines().filter(|line| line.contains("IPCTNL_MSG_CT_GET")).collect();
        let [listing] = listings[..] else { panic!("{verb}: {listings:#?}") };
        assert!(listing.contains("nfgen_family=AF_INET6"), "{verb}: {listing}");
    }
}
