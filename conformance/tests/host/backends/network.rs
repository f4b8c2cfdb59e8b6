//! The cells' dimensions: who keeps the rules, which families a network has, and what that means in words.

use std::net::IpAddr;

use cni_conformance::{Flavour, Outside};
use serde_json::{Value, json};

/// The bridge of the network.
pub const BRIDGE: &str = "br0";

/// Where its leases are.
pub const LEASES: &str = "/run/leases/n1";

/// Who keeps the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    IptablesNft,
    IptablesLegacy,
    Nftables,
    Firewalld,
}

impl Backend {
    pub const ALL: [Self; 4] = [Self::IptablesNft, Self::IptablesLegacy, Self::Nftables, Self::Firewalld];

    pub fn name(self) -> &'static str {
        match self {
            Self::IptablesNft => "iptables-nft",
            Self::IptablesLegacy => "iptables-legacy",
            Self::Nftables => "nftables",
            Self::Firewalld => "firewalld",
        }
    }

    pub fn flavour(self) -> Flavour {
        match self {
            Self::IptablesLegacy => Flavour::Legacy,
            Self::IptablesNft | Self::Nftables | Self::Firewalld => Flavour::Nft,
        }
    }

    /// The value of firewall's `backend`.
    pub fn of_firewall(self) -> &'static str {
        match self {
            Self::IptablesNft | Self::IptablesLegacy => "iptables",
            Self::Nftables => "nftables",
            Self::Firewalld => "firewalld",
        }
    }

    /// The value of portmap's `backend` and of bridge's `ipMasqBackend`, which know no firewalld.
    pub fn of_others(self) -> &'static str {
        match self {
            Self::IptablesNft | Self::IptablesLegacy | Self::Firewalld => "iptables",
            Self::Nftables => "nftables",
        }
    }
}

/// The families of a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stack {
    V4,
    V6,
    Dual,
}

impl Stack {
    pub const ALL: [Self; 3] = [Self::V4, Self::V6, Self::Dual];

    pub fn name(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
            Self::Dual => "dual",
        }
    }

    pub fn families(self) -> &'static [FamilyTexts] {
        match self {
            Self::V4 => &FAMILIES[..1],
            Self::V6 => &FAMILIES[1..],
            Self::Dual => &FAMILIES,
        }
    }
}

/// What differs between the families.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FamilyTexts {
    pub program: &'static str,
    /// The family of nf_tables.
    pub nft: &'static str,
    pub subnet: &'static str,
    pub gateway: IpAddr,
    pub host: IpAddr,
    pub outside: IpAddr,
    /// The host's loopback, where the kernel routes anything from it.
    pub loopback: Option<IpAddr>,
    default: &'static str,
}

const FAMILIES: [FamilyTexts; 2] = [
    FamilyTexts {
        program: "iptables",
        nft: "ip",
        subnet: "10.88.0.0/24",
        gateway: IpAddr::V4(std::net::Ipv4Addr::new(10, 88, 0, 1)),
        host: IpAddr::V4(Outside::HOST_V4),
        outside: IpAddr::V4(Outside::V4),
        loopback: Some(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST)),
        default: "0.0.0.0/0",
    },
    FamilyTexts {
        program: "ip6tables",
        nft: "ip6",
        subnet: "fd00:88::/64",
        gateway: IpAddr::V6(std::net::Ipv6Addr::new(0xfd00, 0x88, 0, 0, 0, 0, 0, 1)),
        host: IpAddr::V6(Outside::HOST_V6),
        outside: IpAddr::V6(Outside::V6),
        loopback: None,
        default: "::/0",
    },
];

/// Writes the network configuration list.
pub fn list(backend: Backend, stack: Stack) -> Value {
    let ranges: Value = stack.families().iter().map(|family| json!([{"subnet": family.subnet}])).collect();
    let routes: Value = stack.families().iter().map(|family| json!({"dst": family.default})).collect();
    json!({
        "cniVersion": "1.1.0",
        "name": "n1",
        "plugins": [
            {"type": "loopback"},
            {
                "type": "bridge", "bridge": BRIDGE, "isGateway": true, "hairpinMode": true,
                "ipMasq": true, "ipMasqBackend": backend.of_others(),
                "ipam": {"type": "host-local", "dataDir": "/run/leases", "ranges": ranges, "routes": routes},
            },
            {"type": "firewall", "backend": backend.of_firewall()},
            {"type": "portmap", "backend": backend.of_others(), "capabilities": {"portMappings": true}},
        ],
    })
}

/// Writes the same network once more: with another name, bridge and addresses.
pub fn second(list: &Value) -> Value {
    let renamed = [("\"n1\"", "\"n2\""), ("\"br0\"", "\"br1\""), ("10.88.0.", "10.89.0."), ("fd00:88:", "fd00:89:")];
    let text = renamed.iter().fold(list.to_string(), |text, (from, to)| text.replace(from, to));
    serde_json::from_str(&text).expect("JSON")
}
