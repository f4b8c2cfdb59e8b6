//! What Nomad does around and with the plugins.
//!
//! The configuration list of its `bridge` network mode, the admin chain that it fills before
//! ADD, and the `CNI_ARGS` that it sends, all as Nomad 2.0 does.

use serde_json::{Value, json};

use crate::sandbox::Sandbox;

/// Nomad's default IPv4 network.
pub const SUBNET_V4: &str = "172.26.64.0/20";
/// The gateway in it.
pub const GATEWAY_V4: &str = "172.26.64.1";
/// The IPv6 network that Nomad's documentation uses.
pub const SUBNET_V6: &str = "fd00:a110:c8::/120";
/// The gateway in it.
pub const GATEWAY_V6: &str = "fd00:a110:c8::1";
/// The chain that Nomad fills.
pub const ADMIN_CHAIN: &str = "NOMAD-ADMIN";

/// Which families the network has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subnets {
    /// Nomad's default.
    V4,
    /// With `bridge_network_subnet_ipv6` set.
    V4AndV6,
}

/// The setting `bridge_network_hairpin_mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hairpin {
    /// Nomad's default.
    Off,
    /// Containers reach themselves through their host ports.
    On,
}

/// A Nomad client's network settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nomad {
    /// `0.4.0` from Nomad itself; operators copy the list with later versions.
    pub cni_version: String,
    /// The families.
    pub subnets: Subnets,
    /// The hairpin setting.
    pub hairpin: Hairpin,
    /// The bridge's name.
    pub bridge: String,
    /// The directory of the leases.
    pub data_dir: String,
}

impl Default for Nomad {
    fn default() -> Self {
        Self {
            cni_version: "0.4.0".to_owned(),
            subnets: Subnets::V4,
            hairpin: Hairpin::Off,
            bridge: "nomad".to_owned(),
            data_dir: "/var/run/cni".to_owned(),
        }
    }
}

impl Nomad {
    /// Takes the defaults with another version.
    pub fn version(cni_version: &str) -> Self {
        Self { cni_version: cni_version.to_owned(), ..Self::default() }
    }

    /// Adds the IPv6 network.
    #[must_use]
    pub fn dual_stack(mut self) -> Self {
        self.subnets = Subnets::V4AndV6;
        self
    }

    /// Sets hairpin mode.
    #[must_use]
    pub fn hairpin(mut self, hairpin: Hairpin) -> Self {
        self.hairpin = hairpin;
        self
    }

    /// Returns the configuration list that Nomad generates.
    pub fn conflist(&self) -> Value {
        let (ranges, routes) = match self.subnets {
            Subnets::V4 => (json!([[{"subnet": SUBNET_V4}]]), json!([{"dst": "0.0.0.0/0"}])),
            Subnets::V4AndV6 => (
                json!([[{"subnet": SUBNET_V4}], [{"subnet": SUBNET_V6}]]),
                json!([{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]),
            ),
        };
        json!({
            "cniVersion": self.cni_version,
            "name": "nomad",
            "plugins": [
                {"type": "loopback"},
                {
                    "type": "bridge", "bridge": self.bridge, "ipMasq": true, "isGateway": true,
                    "forceAddress": true, "hairpinMode": self.hairpin == Hairpin::On,
                    "ipam": {
                        "type": "host-local", "ranges": ranges, "routes": routes,
                        "dataDir": self.data_dir,
                    },
                },
                {"type": "firewall", "backend": "iptables", "iptablesAdminChainName": ADMIN_CHAIN},
                {"type": "portmap", "capabilities": {"portMappings": true}, "snat": true},
            ],
        })
    }

    /// Makes the admin chain and its rule where absent, as Nomad does before each ADD and CHECK.
    pub fn ensure_forwarding_rules(&self, sandbox: &Sandbox) {
        self.ensure_admin_chain(sandbox, "iptables", SUBNET_V4);
        if self.subnets == Subnets::V4AndV6 {
            self.ensure_admin_chain(sandbox, "ip6tables", SUBNET_V6);
        }
    }

    fn ensure_admin_chain(&self, sandbox: &Sandbox, program: &str, subnet: &str) {
        let chains = sandbox.sh(&format!("{program} -t filter -S --wait"));
        if !chains.lines().any(|line| line == format!("-N {ADMIN_CHAIN}")) {
            sandbox.sh(&format!("{program} -t filter -N {ADMIN_CHAIN} --wait"));
        }
        let rule = format!("{ADMIN_CHAIN} -o {} -d {subnet} -j ACCEPT --wait", self.bridge);
        let probe = format!("{program} -t filter -C {rule}");
        if sandbox.exec(&probe.split_whitespace().collect::<Vec<_>>()).code != Some(0) {
            sandbox.sh(&format!("{program} -t filter -A {rule}"));
        }
    }
}

/// Returns `CNI_ARGS` as Nomad sends them for ADD and CHECK; for DEL it sends none.
///
/// Nomad's order is random. `user` are the pairs of a job's own `args` block.
pub fn args(alloc_id: &str, job_id: &str, user: &[(&str, &str)]) -> String {
    let mut pairs = vec![format!("NOMAD_JOB_ID={job_id}"), "NOMAD_NAMESPACE=default".to_owned()];
    pairs.extend(user.iter().map(|(key, value)| format!("{key}={value}")));
    pairs.push(format!("NOMAD_ALLOC_ID={alloc_id}"));
    pairs.push("IgnoreUnknown=true".to_owned());
    pairs.push("NOMAD_GROUP_NAME=group".to_owned());
    pairs.push("NOMAD_REGION=global".to_owned());
    pairs.join(";")
}
