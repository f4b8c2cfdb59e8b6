//! Port mappings in the two spellings that runtimes send.
//!
//! The SPEC has `hostPort`; go-cni, and so Nomad, containerd and nerdctl, sends the names of its
//! Go fields, `HostPort`, and an empty `HostIP`.

use serde_json::{Value, json};

/// The spelling of a mapping's keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spelling {
    /// `hostPort`; an empty address is left out.
    Spec,
    /// `HostPort`; an empty address is sent.
    Go,
}

impl Spelling {
    /// Both of them, for tests that must hold for each.
    pub const ALL: [Self; 2] = [Self::Spec, Self::Go];
}

/// One host port that leads to a container's port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortMapping {
    /// The port on the host.
    pub host_port: u16,
    /// The port in the container.
    pub container_port: u16,
    /// `tcp`, `udp` or what a test wants to be refused.
    pub protocol: String,
    /// The host address, or nothing for all.
    pub host_ip: String,
}

impl PortMapping {
    /// Makes a mapping on all addresses of the host.
    pub fn new(host_port: u16, container_port: u16, protocol: &str) -> Self {
        Self { host_port, container_port, protocol: protocol.to_owned(), host_ip: String::new() }
    }

    /// Binds the mapping to one address of the host.
    #[must_use]
    pub fn on(mut self, host_ip: &str) -> Self {
        host_ip.clone_into(&mut self.host_ip);
        self
    }

    /// Makes what Nomad sends for one port: the same mapping for tcp and for udp.
    pub fn twins(host_port: u16, container_port: u16) -> Vec<Self> {
        ["tcp", "udp"].map(|protocol| Self::new(host_port, container_port, protocol)).to_vec()
    }

    fn render(&self, spelling: Spelling) -> Value {
        let Self { host_port, container_port, protocol, host_ip } = self;
        match spelling {
            Spelling::Go => json!({
                "HostPort": host_port, "ContainerPort": container_port,
                "Protocol": protocol, "HostIP": host_ip,
            }),
            Spelling::Spec if host_ip.is_empty() => json!({
                "hostPort": host_port, "containerPort": container_port, "protocol": protocol,
            }),
            Spelling::Spec => json!({
                "hostPort": host_port, "containerPort": container_port,
                "protocol": protocol, "hostIP": host_ip,
            }),
        }
    }
}

/// Writes mappings as the value of the `portMappings` capability.
pub fn render(mappings: &[PortMapping], spelling: Spelling) -> Value {
    mappings.iter().map(|mapping| mapping.render(spelling)).collect()
}
