//! Lists whose first plugin makes no bridge and no link on the host: macvlan. `tests/dhcp/nomad.rs` has the one with
//! addresses from a server.

use cni_conformance::cases::for_each;
use cni_conformance::{Attachment, Container, Network, Runtime, Sandbox, binaries, nomad};
use serde_json::{Value, json};

use crate::nomad_lists::life::{NomadListHost, live};
use crate::nomad_lists::served::{ALLOC, Egress, Served};
use crate::nomad_lists::waiting::{list, portmap};

/// The keys of the bridge plugin do nothing on macvlan, and must not be refused.
fn over_vxlan() -> Value {
    let main = json!({
        "type": "macvlan", "master": "vxbr1", "mode": "bridge", "isDefaultGateway": true, "forceAddress": true,
        "ipMasq": true,
        "ipam": {
            "type": "host-local",
            "ranges": [[{
                "subnet": "192.168.3.0/24", "rangeStart": "192.168.3.66", "rangeEnd": "192.168.3.126",
                "gateway": "192.168.3.65",
            }]],
            "routes": [{"dst": "0.0.0.0/0", "gw": "192.168.3.65"}],
            "dataDir": "/run/cni/ipam-state",
        },
    });
    let firewall = json!({"type": "firewall", "backend": "iptables", "iptablesAdminChainName": "NOMAD-ADMIN"});
    list("1.0.0", "part", json!([{"type": "loopback"}, main, firewall, portmap()]))
}

fn by_the_job() -> Value {
    let keys = json!({"type": "macvlan", "master": "eth0", "ipam": {"type": "static"}});
    list("1.0.0", "fixed", json!([keys]))
}

fn without_ipam() -> Value {
    list("1.0.0", "bare", json!([{"type": "macvlan", "master": "eth0", "ipam": {}}]))
}

/// A router on the network of a master, which is a bridge here; the host has no address there.
fn router(sandbox: &Sandbox, master: &str) -> Container {
    let router = sandbox.container("router");
    sandbox.sh(&format!("ip link add {master} type bridge"));
    sandbox.sh(&format!("ip link add wire1 master {master} type veth peer name eth0 netns router"));
    for link in [master, "wire1"] {
        sandbox.sh(&format!("ip link set {link} up"));
    }
    router.sh("ip address add 192.168.3.65/24 dev eth0");
    router.sh("ip link set eth0 up");
    router
}

/// Nomad sends ports, which nobody outside reaches by way of the host; that is no error.
fn served(list: Value, address: &'static str) -> Served {
    let served = Served::new(list, "192.168.3.0/24", "192.168.3.65");
    Served { address: Some(address), egress: Egress::PastTheHost, published: Vec::new(), ..served }
}

fn fixed_by_the_job() -> Served {
    let user = [("IP", "192.168.3.77/24"), ("GATEWAY", "192.168.3.65"), ("NOMAD_JOB_NAME", "web")];
    Served { args: nomad::args(ALLOC, "web", &user), ..served(by_the_job(), "192.168.3.77/24") }
}

#[test]
fn every_list_of_macvlan_lives() {
    for_each(
        [
            ("firewall, portmap", ("vxbr1", served(over_vxlan(), "192.168.3.68/24"))),
            ("addresses by the job", ("eth0", fixed_by_the_job())),
        ],
        |(master, served)| {
            let host = NomadListHost::new(binaries::under_test);
            let _router = router(&host.sandbox, master);
            live(&host, &served);
        },
    );
}

/// Nomad itself refuses a result without an address.
#[test]
fn a_list_without_ipam_gives_a_link_without_an_address() {
    let sandbox = Sandbox::new();
    let _router = router(&sandbox, "eth0");
    let container = sandbox.container("c1");
    let mut attachment = Attachment::new("c1", &container);
    let runtime = Runtime::new(&sandbox, without_ipam());
    runtime.add(&mut attachment).expect_success();
    assert!(attachment.result.as_ref().is_some_and(|result| result.get("ips").is_none()), "{:?}", attachment.result);
    assert!(Network::observe(&container).link("eth0").is_some_and(|link| link.up));
    runtime.check(&attachment).expect_success();
    runtime.del(&attachment).expect_success();
    assert!(Network::observe(&container).link("eth0").is_none());
}
