//! Links on a master: what no case can say: containers that hide their link.

use std::fs;
use std::path::Path;

use cni_conformance::keys::with;
use cni_conformance::{
    Attachment, Container, Feature, Namespace, Network, Outside, Runtime, Sandbox, binaries, leases, script,
};
use serde_json::{Value, json};

mod hidden;

/// A host with an uplink, and a network of macvlan on it.
struct MasterHost {
    sandbox: Sandbox,
    _outside: Outside,
}

impl MasterHost {
    fn new() -> Self {
        let sandbox = Sandbox::new();
        Self { _outside: sandbox.outside(), sandbox }
    }

    /// The plugin's configuration with these keys beside those that it needs.
    fn network(&self, keys: &Value) -> Value {
        let ranges = json!([[{"subnet": "10.7.0.0/24", "rangeStart": "10.7.0.2"}]]);
        let ipam = json!({"type": "host-local", "ranges": ranges, "dataDir": LEASES});
        let plugin = with(&json!({"type": "macvlan", "master": Outside::HOST_LINK, "ipam": ipam}), keys);
        json!({"cniVersion": "1.1.0", "name": "lan", "plugins": [plugin]})
    }

    fn runtime(&self, list: &Value) -> Runtime<'_> {
        Runtime::new(&self.sandbox, list.clone())
    }

    /// Attaches a new container and returns it with what the runtime remembers.
    #[track_caller]
    fn attach(&self, list: &Value, name: &str) -> (Container, Attachment) {
        let container = self.sandbox.container(name);
        let mut attachment = Attachment::new(name, &container);
        self.runtime(list).add(&mut attachment).expect_success();
        (container, attachment)
    }

    /// The addresses that host-local has given away, in order.
    fn leases(&self) -> Vec<String> {
        leases::of_network(LEASES, "lan")
    }
}

const LEASES: &str = "/run/ipam";

/// Runs lines of shell in a namespace; each must succeed.
fn shell(namespace: &Namespace, lines: &str) -> String {
    namespace.must(&["sh", "-ec", lines])
}

fn has_eth0(container: &Namespace) -> bool {
    Network::observe(container).link("eth0").is_some()
}

/// A folder of plugins with an IPAM plugin `script`, beside those under test, that answers by lines of shell.
fn with_script(answer: &str) -> String {
    let folder = "/run/conformance/plugins";
    fs::create_dir_all(folder).expect("create a folder for plugins");
    script::install(&Path::new(folder).join("script"), &format!("cat >/dev/null\n{answer}\n"));
    format!("{folder}:{}", binaries::under_test().display())
}

/// A kernel without such links says so, by STATUS and by ADD, which then leaves nothing.
#[test]
fn a_kernel_has_the_links_or_says_that_it_cannot_make_them() {
    let kinds = [
        ("macvlan", Feature::MacvlanLinks),
        ("vlan", Feature::VlanLinks),
        ("ipvlan", Feature::IpvlanLinks),
        ("dummy", Feature::DummyLinks),
    ];
    for (kind, feature) in kinds {
        let sandbox = Sandbox::new();
        let _outside = sandbox.outside();
        let ipam = json!({"type": "host-local", "ranges": [[{"subnet": "10.7.0.0/24"}]], "dataDir": LEASES});
        let plugin = json!({"type": kind, "master": Outside::HOST_LINK, "vlanId": 5, "ipam": ipam});
        let runtime = Runtime::new(&sandbox, json!({"cniVersion": "1.1.0", "name": "lan", "plugins": [plugin]}));
        let container = sandbox.container("c1");
        let (status, added) = (runtime.status(), runtime.add(&mut Attachment::new("c1", &container)));
        if feature.is_here() {
            status.expect_success();
            added.expect_success();
        } else {
            let text = format!("this kernel has no links of kind {kind}");
            status.expect_error(kind, 50, &text);
            added.expect_error(kind, 2, &text);
            assert!(!has_eth0(&container));
            assert_eq!(leases::of_network(LEASES, "lan"), [""; 0]);
        }
    }
    let (sandbox, plugin) = (Sandbox::new(), json!({"type": "vrf", "vrfname": "red"}));
    let status = Runtime::new(&sandbox, json!({"cniVersion": "1.1.0", "name": "lan", "plugins": [plugin]})).status();
    if !Feature::VrfLinks.is_here() {
        status.expect_error("vrf", 50, "this kernel has no links of kind vrf");
    }
}
