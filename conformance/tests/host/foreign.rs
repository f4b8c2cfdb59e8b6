//! Interfaces of other projects under the name that the runtime wants: no DEL removes them.
//!
//! The runtime calls DEL after an ADD that was refused since the name is taken, and may call it without any ADD. The reference deletes
//! any interface of the name, or moves it to the host.

use cni_conformance::cases::for_each;
use cni_conformance::{Attachment, Container, Runtime, Sandbox, State, flannel, state};
use serde_json::{Value, json};

/// The plugins that make interfaces of a kind that this kernel has.
fn plugins() -> Vec<Value> {
    let ipam = json!({"type": "host-local", "subnet": "10.1.2.0/24"});
    vec![
        json!({"type": "bridge", "bridge": "br0", "isGateway": true, "ipMasq": true, "ipam": ipam}),
        json!({"type": "ptp", "ipMasq": true, "ipam": ipam}),
        json!({"type": "macvlan", "master": "up0", "ipam": ipam}),
        json!({"type": "tap", "ipam": ipam}),
        json!({"type": "host-device", "device": "dev0", "ipam": ipam}),
        json!({"type": "flannel", "delegate": {"bridge": "br0"}}),
    ]
}

/// The names that other projects give the host's ends of veths: Calico, Amazon's, Cilium, Azure's, Weave, OVN-Kubernetes, Docker, Antrea,
/// Kuryr, Terway, and the host's ends of others that are moved in by hand.
const VETHS: [&str; 11] = [
    "cali0123456789a",
    "eni0123456789a",
    "lxc0123456789ab",
    "azv0123456789a",
    "vethwepl1234567",
    "0123456789abcde",
    "veth1234567",
    "coredns--1a2b3c",
    "tap01234567-89",
    "veth0123456789a",
    "vethXYZ12345",
];

/// A name as the reference gives it, and Kube-router, which is built from its parts.
const AS_THE_REFERENCE: &str = "veth0a1b2c3d";

struct ForeignHost {
    sandbox: Sandbox,
    container: Container,
}

impl ForeignHost {
    /// `{}` in the commands is the temporary name of what becomes `eth0` in the container.
    fn new(made: &[&str]) -> Self {
        let sandbox = Sandbox::new();
        sandbox.host().ip(&[
            "link add up0 type veth peer name up1",
            "link set up0 up",
            "link set up1 up",
            "link add dev0 type veth peer name dev1",
        ]);
        flannel::write_lease(&flannel::lease("10.88.0.0/16", "10.88.0.1/24", 1450));
        let container = sandbox.container("c1");
        sandbox.host().ip(made);
        sandbox.host().ip(&["link set made netns c1 name eth0"]);
        container.ip(&["addr add 192.0.2.7/24 dev eth0", "link set eth0 up"]);
        Self { sandbox, container }
    }

    fn of_veth(name: &str) -> Self {
        Self::new(&[&format!("link add {name} type veth peer name made"), &format!("link set {name} up")])
    }

    fn runtime(&self, plugin: &Value) -> Runtime<'_> {
        Runtime::new(&self.sandbox, json!({"cniVersion": "1.0.0", "name": "net1", "plugins": [plugin]}))
    }

    fn interface(&self) -> Vec<String> {
        let lines = State::capture(&self.sandbox, &[&self.container]).lines();
        lines.into_iter().filter(|line| line.starts_with("c1 ")).collect()
    }

    /// A DEL without a result, and one with a result such as that of an ADD.
    #[track_caller]
    fn is_kept_by_del(&self, plugin: &Value) {
        let before = self.interface();
        let mut attachment = Attachment::new("c1", &self.container);
        let interfaces = json!([{"name": "veth11223344"}, {"name": "eth0", "sandbox": self.container.path()}]);
        for result in [None, Some(json!({"cniVersion": "1.0.0", "interfaces": interfaces}))] {
            attachment.result = result;
            self.runtime(plugin).del(&attachment).expect_success();
            let left = state::differences(&before, &self.interface());
            assert!(left.is_empty(), "{}", left.join("\n"));
        }
    }

    #[track_caller]
    fn is_kept_after_a_refused_add(&self, plugin: &Value) {
        let add = self.runtime(plugin).add(&mut Attachment::new("c1", &self.container));
        assert!(!add.succeeded(), "the name is taken");
        self.is_kept_by_del(plugin);
    }
}

#[test]
fn del_keeps_the_veth_of_another_project() {
    let rows = VETHS.iter().flat_map(|name| plugins().into_iter().map(move |plugin| (name, plugin)));
    for_each(rows.map(|(name, plugin)| (format!("{name}, {}", plugin["type"]), (name, plugin))), |(name, plugin)| {
        let host = ForeignHost::of_veth(name);
        host.is_kept_by_del(&plugin);
        host.is_kept_after_a_refused_add(&plugin);
    });
}

#[test]
fn del_after_a_refused_add_keeps_any_interface() {
    let kinds: [(&str, &[&str]); 6] = [
        ("a veth as of the reference", &[&format!("link add {AS_THE_REFERENCE} type veth peer name made")]),
        ("a macvlan", &["link add made link up0 type macvlan"]),
        ("a macvlan with an alias", &["link add made link up0 type macvlan", "link set made alias up7"]),
        ("a tap", &["tuntap add made mode tap"]),
        ("an ifb", &["link add made type ifb"]),
        ("a tunnel", &["link add made type vxlan id 5 dstport 4789"]),
    ];
    let rows = kinds.iter().flat_map(|(name, made)| plugins().into_iter().map(move |plugin| (*name, *made, plugin)));
    for_each(rows.map(|row| (format!("{}, {}", row.0, row.2["type"]), row)), |(_, made, plugin)| {
        ForeignHost::new(made).is_kept_after_a_refused_add(&plugin);
    });
}
