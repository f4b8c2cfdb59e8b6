//! A host that has nothing yet, who keeps its rules, and its network.

use std::path::{Path, PathBuf};

use cni_conformance::firewalld::FirewalldHost;
use cni_conformance::{CniTool, Container, Flavour, Sandbox, binaries, script};
use serde_json::{Value, json};

use crate::parallel::calls::KnownContainer;

/// The bridge of the network.
pub const BRIDGE: &str = "br0";
/// Where its leases are.
pub const LEASES: &str = "/run/leases/n1";
/// The programs of iptables that plugins run.
const PROGRAMS: [&str; 6] =
    ["iptables", "iptables-save", "iptables-restore", "ip6tables", "ip6tables-save", "ip6tables-restore"];

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
    pub fn name(self) -> &'static str {
        match self {
            Self::IptablesNft => "iptables-nft",
            Self::IptablesScripts => "iptables-nft by its programs",
            Self::IptablesLegacy => "iptables-legacy",
            Self::Nftables => "nftables",
            Self::Firewalld => "firewalld",
        }
    }

    fn flavour(self) -> Flavour {
        match self {
            Self::IptablesLegacy => Flavour::Legacy,
            Self::IptablesNft | Self::IptablesScripts | Self::Nftables | Self::Firewalld => Flavour::Nft,
        }
    }

    /// The value of firewall's `backend`, and that of portmap's and of bridge's `ipMasqBackend`.
    fn keys(self) -> [&'static str; 2] {
        match self {
            Self::IptablesNft | Self::IptablesScripts | Self::IptablesLegacy => ["iptables", "iptables"],
            Self::Nftables => ["nftables", "nftables"],
            Self::Firewalld => ["firewalld", "iptables"],
        }
    }

    /// What the reference v1.1.1 makes of the same network: it knows no nftables.
    fn keys_of_reference(self) -> [&'static str; 2] {
        match self {
            Self::Nftables => ["iptables", "iptables"],
            Self::IptablesNft | Self::IptablesScripts | Self::IptablesLegacy | Self::Firewalld => self.keys(),
        }
    }
}

/// Whose plugins are called.
#[derive(Debug, Clone)]
pub enum Sides {
    Ours,
    /// Ours, and those in this folder.
    Both(PathBuf),
}

/// The host.
pub struct ParallelHost {
    pub backend: Backend,
    machine: FirewalldHost,
}

impl ParallelHost {
    pub fn fresh(backend: Backend) -> Self {
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

    pub fn machine(&self) -> &FirewalldHost {
        &self.machine
    }

    pub fn list(&self) -> Value {
        list(self.backend.keys())
    }

    /// The real runtime, with our plugins or the reference's.
    pub fn tool(&self, folder: Option<&Path>) -> CniTool<'_> {
        let keys = if folder.is_some() { self.backend.keys_of_reference() } else { self.backend.keys() };
        let (key, value) = self.machine.bus_variable();
        let folder = folder.map_or_else(binaries::under_test, Path::to_path_buf);
        CniTool::new(self.sandbox(), &list(keys)).binaries(&folder).env(key, value)
    }

    /// So many containers that are not attached yet.
    pub fn all_attached(&self, sides: &Sides, count: usize) -> Vec<KnownContainer> {
        let container = |number: usize| self.sandbox().container(&format!("c{number}"));
        let containers: Vec<Container> = (0..count).map(container).collect();
        containers
            .iter()
            .enumerate()
            .map(|(number, container)| KnownContainer::new(self, sides, number, container))
            .collect()
    }
}

/// A script in the place of a program may be there for a reason, so it is run.
fn install_scripts(sandbox: &Sandbox) {
    let folder = sandbox.search_path().split(':').next().expect("a search path has folders");
    for program in PROGRAMS {
        let path = Path::new(folder).join(program);
        std::fs::remove_file(&path).unwrap_or_else(|error| panic!("remove {}: {error}", path.display()));
        script::install(&path, &format!("exec /usr/sbin/xtables-nft-multi {program} \"$@\"\n"));
    }
}

fn list([firewall, others]: [&str; 2]) -> Value {
    let ranges = json!([[{"subnet": "10.88.0.0/16"}], [{"subnet": "fd00:88::/64"}]]);
    let routes = json!([{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]);
    json!({
        "cniVersion": "1.0.0",
        "name": "n1",
        "plugins": [
            {"type": "loopback"},
            {
                "type": "bridge", "bridge": BRIDGE, "isGateway": true, "hairpinMode": true,
                "ipMasq": true, "ipMasqBackend": others,
                "ipam": {"type": "host-local", "dataDir": "/run/leases", "ranges": ranges, "routes": routes},
            },
            {"type": "firewall", "backend": firewall},
            {"type": "portmap", "backend": others, "snat": true, "capabilities": {"portMappings": true}},
        ],
    })
}
