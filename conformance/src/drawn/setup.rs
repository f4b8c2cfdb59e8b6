//! A configuration list, and a case for it.

use serde_json::{Value, json};

use crate::keys::with;
use crate::{PortMapping, Spelling, ports};

/// A subnet, and its first address, which is the gateway.
pub type DrawnSubnet = (&'static str, &'static str);

/// All that is drawn.
#[derive(Debug, Clone)]
pub struct Setup {
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
            bridge["ipam"] = host_local(&self.subnets, &self.routes);
        }
        let mut plugins = vec![bridge];
        plugins.extend(self.firewall.iter().map(|keys| with(&json!({"type": "firewall"}), keys)));
        let capable = json!({"type": "portmap", "capabilities": {"portMappings": true}});
        plugins.extend(self.portmap.iter().map(|(keys, _)| with(&capable, keys)));
        json!({"cniVersion": self.version, "name": self.network, "plugins": plugins})
    }

    /// A case: two containers are added, the second is deleted, and the host is as before it.
    pub fn case_text(&self) -> String {
        let add = |name: &str, further: u16| {
            let mut mappings = self.portmap.as_ref().map(|(_, mappings)| mappings.clone()).unwrap_or_default();
            mappings.iter_mut().for_each(|mapping| mapping.host_port += further);
            let (id, ports) = (&self.id, ports::render(&mappings, Spelling::Spec));
            format!("add {name} as={name} id={id}-{name} ifname={} 'portMappings={ports}'", self.ifname)
        };
        let check = if self.version < "0.4.0" { "" } else { "check first\n" };
        let script = [add("first", 0), "keep".to_owned(), add("second", 10_000), "del second\nsame".to_owned()];
        format!("# Drawn.\n{}\n{check}\n-- list.conflist --\n{}\n", script.join("\n"), self.list())
    }
}

/// The IPAM plugin with a range set for each subnet.
fn host_local(subnets: &[DrawnSubnet], routes: &[&str]) -> Value {
    let ranges: Value = subnets.iter().map(|(subnet, _)| json!([{"subnet": subnet}])).collect();
    let routes: Value = routes.iter().map(|dst| json!({"dst": dst})).collect();
    json!({"type": "host-local", "ranges": ranges, "routes": routes, "dataDir": "/run/cni"})
}
