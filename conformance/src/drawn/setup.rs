//! A configuration list, and the objects that containers of its network share.

use serde_json::{Value, json};

use crate::keys::with;
use crate::skeleton::{filter, ports};
use crate::{Flavour, PortMapping, Skeleton};

/// A subnet, and its first address, which is the gateway.
pub type DrawnSubnet = (&'static str, &'static str);

/// All that is drawn.
#[derive(Debug, Clone)]
pub struct Setup {
    pub flavour: Flavour,
    pub version: &'static str,
    pub network: String,
    pub id: String,
    pub ifname: &'static str,
    /// Empty for a network without an IPAM plugin.
    pub subnets: Vec<DrawnSubnet>,
    pub routes: Vec<&'static str>,
    pub bridge: Value,
    pub firewall: Option<Value>,
    pub portmap: Option<(Value, Vec<PortMapping>)>,
}

impl Setup {
    /// Writes the list.
    pub fn list(&self) -> Value {
        let mut bridge = with(&json!({"type": "bridge", "bridge": "br0"}), &self.bridge);
        if !self.subnets.is_empty() {
            let ranges: Value = self.subnets.iter().map(|(subnet, _)| json!([{"subnet": subnet}])).collect();
            let routes: Value = self.routes.iter().map(|dst| json!({"dst": dst})).collect();
            bridge["ipam"] = json!({"type": "host-local", "ranges": ranges, "routes": routes, "dataDir": "/run/cni"});
        }
        let mut plugins = vec![bridge];
        plugins.extend(self.firewall.iter().map(|keys| with(&json!({"type": "firewall"}), keys)));
        let capable = json!({"type": "portmap", "capabilities": {"portMappings": true}});
        plugins.extend(self.portmap.iter().map(|(keys, _)| with(&capable, keys)));
        json!({"cniVersion": self.version, "name": self.network, "plugins": plugins})
    }

    /// Lists what may stay on the host.
    pub fn skeleton(&self) -> Skeleton {
        let mut skeleton =
            Skeleton::on_bridge("br0").with_leases(&format!("/run/cni/{}", self.network), self.subnets.len());
        if self.bridge["isGateway"] == true || self.bridge["isDefaultGateway"] == true {
            skeleton = self
                .subnets
                .iter()
                .fold(skeleton, |skeleton, (subnet, gateway)| skeleton.with_gateway(gateway, subnet));
        }
        for program in ["iptables", "ip6tables"] {
            if let Some(keys) = &self.firewall {
                let admin = keys["iptablesAdminChainName"].as_str().unwrap_or("CNI-ADMIN");
                skeleton = skeleton.with_rules(program, "filter", &filter(admin));
                skeleton = skeleton.with_rules(program, "filter", &isolation(keys["ingressPolicy"].as_str()));
            }
            if let Some((keys, _)) = &self.portmap {
                let bit = keys["markMasqBit"].as_u64().and_then(|bit| u32::try_from(bit).ok()).unwrap_or(13);
                skeleton = skeleton.with_rules(program, "nat", &ports(bit));
            }
        }
        skeleton
    }
}

/// The firewall's rules that keep bridges apart.
fn isolation(policy: Option<&str>) -> Vec<String> {
    let Some(policy @ ("same-bridge" | "isolated")) = policy else { return Vec::new() };
    let comment = |of: &str| format!("-m comment --comment \"CNI firewall plugin rules (ingressPolicy: {of})\"");
    let (own, all) = (comment(policy), comment("same-bridge|isolated"));
    let mut rules = vec![
        "-N CNI-ISOLATION-STAGE-1".to_owned(),
        "-N CNI-ISOLATION-STAGE-2".to_owned(),
        format!("-A FORWARD {all} -j CNI-ISOLATION-STAGE-1"),
        format!("-A CNI-ISOLATION-STAGE-1 -i br0 ! -o br0 {own} -j CNI-ISOLATION-STAGE-2"),
        format!("-A CNI-ISOLATION-STAGE-1 {all} -j RETURN"),
        format!("-A CNI-ISOLATION-STAGE-2 -o br0 {all} -j DROP"),
        format!("-A CNI-ISOLATION-STAGE-2 {all} -j RETURN"),
    ];
    if policy == "isolated" {
        rules.push(format!("-A CNI-ISOLATION-STAGE-1 -i br0 -o br0 {own} -j DROP"));
    }
    rules
}
