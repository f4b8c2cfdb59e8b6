//! A host whose rules are kept by one of the back ends, and its network.
//!
//! The chain is loopback, bridge with host-local, firewall and portmap; all keep their rules with the same back end where they have it: portmap has
//! none for firewalld, and is in the tables of iptables there, as the reference's.

use std::path::Path;

use cni_conformance::firewalld::FirewalldHost;
use cni_conformance::{CniTool, Flavour, Runtime, Sandbox, script};
use serde_json::{Value, json};

/// The bridge of the network.
pub const BRIDGE: &str = "br0";
/// Where its leases are.
pub const LEASES: &str = "/run/leases/n1";

/// Who keeps the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    IptablesNft,
    /// The same, but scripts stand before the programs, so that the kernel is not asked without them.
    IptablesScripts,
    IptablesLegacy,
    Nftables,
    Firewalld,
}

impl Backend {
    fn flavour(self) -> Flavour {
        if self == Self::IptablesLegacy { Flavour::Legacy } else { Flavour::Nft }
    }

    /// The values of firewall's `backend`, and of portmap's `backend` and bridge's `ipMasqBackend`.
    pub fn keys(self) -> [&'static str; 2] {
        match self {
            Self::IptablesNft | Self::IptablesScripts | Self::IptablesLegacy => ["iptables"; 2],
            Self::Nftables => ["nftables"; 2],
            Self::Firewalld => ["firewalld", "iptables"],
        }
    }
}

/// The host.
pub struct BackendHost {
    pub backend: Backend,
    pub machine: FirewalldHost,
}

impl BackendHost {
    pub fn new(backend: Backend) -> Self {
        let sandbox = Sandbox::with_flavour(backend.flavour());
        if backend == Backend::IptablesScripts {
            install_scripts(&sandbox);
        }
        let mut machine = FirewalldHost::on(sandbox);
        if backend == Backend::Firewalld {
            machine.start();
        }
        Self { backend, machine }
    }

    pub fn sandbox(&self) -> &Sandbox {
        self.machine.sandbox()
    }

    pub fn list(&self) -> Value {
        list(self.backend.keys())
    }

    pub fn runtime(&self) -> Runtime<'_> {
        let (key, value) = self.machine.bus_variable();
        Runtime::new(self.sandbox(), self.list()).env(key, value)
    }

    /// The real runtime.
    pub fn tool(&self) -> CniTool<'_> {
        let (key, value) = self.machine.bus_variable();
        CniTool::new(self.sandbox(), &self.list()).env(key, value)
    }
}

/// A script in the place of a program may be there for a reason, so it is run.
fn install_scripts(sandbox: &Sandbox) {
    let folder = Path::new(sandbox.search_path().split(':').next().expect("a search path has folders"));
    for program in ["iptables", "ip6tables"]
        .iter()
        .flat_map(|family| ["", "-save", "-restore"].map(|end| format!("{family}{end}")))
    {
        let path = folder.join(&program);
        std::fs::remove_file(&path).unwrap_or_else(|error| panic!("remove {}: {error}", path.display()));
        script::install(&path, &format!("exec /usr/sbin/xtables-nft-multi {program} \"$@\"\n"));
    }
}

fn list([firewall, others]: [&str; 2]) -> Value {
    let ranges = json!([[{"subnet": "10.88.0.0/16"}], [{"subnet": "fd00:88::/64"}]]);
    let routes = json!([{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]);
    json!({"cniVersion": "1.0.0", "name": "n1", "plugins": [
        {"type": "loopback"},
        {
            "type": "bridge", "bridge": BRIDGE, "isGateway": true, "hairpinMode": true,
            "ipMasq": true, "ipMasqBackend": others,
            "ipam": {"type": "host-local", "dataDir": "/run/leases", "ranges": ranges, "routes": routes},
        },
        {"type": "firewall", "backend": firewall},
        {"type": "portmap", "backend": others, "snat": true, "capabilities": {"portMappings": true}},
    ]})
}
