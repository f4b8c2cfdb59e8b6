//! The keys of the firewall plugin, decoded and checked before anything is done.
//!
//! Values that cannot be used are refused here, with their key; a valid [`Config`] can be carried out.

use cni_core::error::Error;
use cni_core::fail;
use cni_core::names::ChainName;
use cni_core::request::Request;
use cni_netfilter::firewalld::{Zone, ZoneError};
use cni_netfilter::nftables::NftName;
use serde::Deserialize;

use crate::nftables;
use crate::policy::IngressPolicy;

/// The chain of the administrator, unless the configuration names another.
const ADMIN_CHAIN: &str = "CNI-ADMIN";

/// The zone of firewalld, unless the configuration names another.
const ZONE: &str = "trusted";

/// The chain that admits a container's traffic.
pub const FORWARD_CHAIN: &str = "CNI-FORWARD";

/// The chain that asks which bridge a packet comes from.
pub const STAGE_1: &str = "CNI-ISOLATION-STAGE-1";

/// The chain that matches the bridge to which a packet goes.
pub const STAGE_2: &str = "CNI-ISOLATION-STAGE-2";

/// Names that an administrator's chain cannot have: the table's built-in chains, iptables' verdicts, and our chains.
const TAKEN: [&str; 12] = [
    "INPUT",
    "FORWARD",
    "OUTPUT",
    "PREROUTING",
    "POSTROUTING",
    "ACCEPT",
    "DROP",
    "QUEUE",
    "RETURN",
    FORWARD_CHAIN,
    STAGE_1,
    STAGE_2,
];

/// The targets of iptables-extensions(8) in either family. `iptables -N` refuses their names, and `-j` means the target, not
/// the chain.
const TARGETS: [&str; 38] = [
    "AUDIT",
    "CHECKSUM",
    "CLASSIFY",
    "CLUSTERIP",
    "CONNMARK",
    "CONNSECMARK",
    "CT",
    "DNAT",
    "DNPT",
    "DSCP",
    "ECN",
    "HL",
    "HMARK",
    "IDLETIMER",
    "LED",
    "LOG",
    "MARK",
    "MASQUERADE",
    "NETMAP",
    "NFLOG",
    "NFQUEUE",
    "NOTRACK",
    "RATEEST",
    "REDIRECT",
    "REJECT",
    "SECMARK",
    "SET",
    "SNAT",
    "SNPT",
    "SYNPROXY",
    "TCPMSS",
    "TCPOPTSTRIP",
    "TEE",
    "TOS",
    "TPROXY",
    "TRACE",
    "TTL",
    "ULOG",
];

/// The checked configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The configured back end.
    pub backend: BackendKey,
    /// The zone in which firewalld is to have the addresses.
    pub zone: Zone,
    /// The chain that is asked before any rule for an address.
    pub admin_chain: ChainName,
    /// Which containers may reach each other.
    pub policy: IngressPolicy,
}

/// The configured back end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackendKey {
    /// firewalld if it runs, otherwise iptables, or nf_tables if there is no iptables.
    Auto,
    /// The tables of iptables.
    Iptables,
    Firewalld,
    /// A table of nf_tables.
    Nftables,
    /// No rules.
    None,
}

/// Where to look for rules without a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleSearch {
    /// The back end to search.
    pub backend: BackendKey,
    /// The zone of firewalld.
    pub zone: Zone,
}

/// The keys as they are written.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Keys {
    backend: String,
    firewalld_zone: String,
    iptables_admin_chain_name: String,
    ingress_policy: String,
}

impl TryFrom<Keys> for Config {
    type Error = Error;

    fn try_from(keys: Keys) -> Result<Self, Error> {
        let Keys { backend, firewalld_zone, iptables_admin_chain_name, ingress_policy } = keys;
        let backend = BackendKey::parse(&backend);
        let Some(policy) = IngressPolicy::parse(&ingress_policy) else {
            return Err(fail!(
                InvalidConfig,
                "unknown ingress policy: {ingress_policy:?}",
                details: "ingressPolicy must be open, same-bridge or isolated"
            ));
        };
        if backend == BackendKey::None && policy != IngressPolicy::Open {
            let policy = policy.as_str();
            return Err(fail!(
                InvalidConfig,
                "ingressPolicy {policy:?} needs rules, and backend \"none\" makes none",
                details: "ingressPolicy must be open with this backend"
            ));
        }
        let admin_chain = admin_chain(iptables_admin_chain_name)?;
        let config = Self { backend, zone: zone(&firewalld_zone)?, admin_chain, policy };
        if backend == BackendKey::Nftables {
            config.admin_chain_of_nftables()?;
        }
        Ok(config)
    }
}

impl Config {
    /// Reads and checks every key.
    pub fn load(request: &Request) -> Result<Self, Error> {
        Self::try_from(request.decode::<Keys>()?)
    }

    /// The administrator's chain by a name that `nft` can read, so that the administrator can fill it.
    ///
    /// # Errors
    /// If the name is valid only in iptables.
    pub fn admin_chain_of_nftables(&self) -> Result<NftName, Error> {
        let name = self.admin_chain.as_str();
        if nftables::CHAINS.contains(&name) {
            return Err(taken(name));
        }
        let starts = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
        let clean = name.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_./".contains(letter));
        let no_keyword = name.contains(|letter: char| letter.is_ascii_uppercase() || letter == '_');
        let word = NftName::parse(name).ok().filter(|_| starts && clean && no_keyword);
        word.ok_or_else(|| {
            let details = "a chain of nft has letters, digits and - _ . / alone, starts with a letter or _, and a capital letter or \
                           _ tells it from the words of nft";
            let text = format!("invalid iptablesAdminChainName {name:?} for backend \"nftables\"");
            fail!(InvalidConfig, "{text}", details: "{details}")
        })
    }
}

impl Keys {
    /// Where to look for rules without a record.
    pub fn into_search(self) -> RuleSearch {
        let backend = BackendKey::parse(&self.backend);
        RuleSearch { backend, zone: zone(&self.firewalld_zone).unwrap_or_else(|_| Zone::fixed(ZONE)) }
    }
}

impl BackendKey {
    /// An unknown value means the default, as in the reference.
    fn parse(backend: &str) -> Self {
        match backend {
            "" => Self::Auto,
            "iptables" => Self::Iptables,
            "firewalld" => Self::Firewalld,
            "none" => Self::None,
            "nftables" => Self::Nftables,
            _ => {
                log::warn!("unknown backend: {backend:?}: the default is used, as if there were no key");
                Self::Auto
            }
        }
    }
}

fn zone(name: &str) -> Result<Zone, ZoneError> {
    if name.is_empty() { Ok(Zone::fixed(ZONE)) } else { Zone::parse(name) }
}

fn taken(name: &str) -> Error {
    fail!(
        InvalidConfig,
        "iptablesAdminChainName {name:?} is reserved",
        details: "it must not be a chain, verdict or target of iptables itself, nor a chain of this plugin"
    )
}

fn admin_chain(name: String) -> Result<ChainName, Error> {
    if name.is_empty() {
        return Ok(ChainName::fixed(ADMIN_CHAIN));
    }
    if TAKEN.iter().chain(&TARGETS).any(|taken| *taken == name) {
        return Err(taken(&name));
    }
    ChainName::parse(&name).map_err(|_| {
        fail!(
            InvalidConfig,
            "invalid iptablesAdminChainName {name:?}",
            details: "an iptables chain has 1 to 28 characters, no blank or quote, and does not start with - or !"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use cni_core::json::Json;

    fn config(text: &str) -> Result<Config, (u32, String)> {
        let keys: Keys = Json::parse(text.as_bytes()).expect("JSON").decode().expect("types");
        Config::try_from(keys).map_err(|error| (error.code().number(), error.to_string()))
    }

    #[test]
    fn nothing_need_be_said() {
        let want = Config {
            backend: BackendKey::Auto,
            zone: Zone::fixed("trusted"),
            admin_chain: ChainName::fixed("CNI-ADMIN"),
            policy: IngressPolicy::Open,
        };
        for text in [
            "{}",
            r#"{"backend":"","firewalldZone":"","iptablesAdminChainName":"","ingressPolicy":""}"#,
            r#"{"backend":null,"firewalldZone":null,"iptablesAdminChainName":null,"ingressPolicy":null}"#,
            r#"{"ingressPolicy":"open","zone":"x"}"#,
        ] {
            assert_eq!(config(text), Ok(want.clone()), "{text}");
        }
    }

    #[test]
    fn a_backend_has_one_spelling() {
        for (name, backend) in [
            ("iptables", BackendKey::Iptables),
            ("nftables", BackendKey::Nftables),
            ("firewalld", BackendKey::Firewalld),
            ("none", BackendKey::None),
        ] {
            let keys = format!(r#"{{"backend":"{name}","firewalldZone":"work"}}"#);
            let config = config(&keys).expect("valid");
            assert_eq!((config.backend, config.zone.as_str()), (backend, "work"));
        }
        for name in ["ip6tables", "IPTables", "iptables ", "nft"] {
            let read = config(&format!(r#"{{"backend":"{name}"}}"#)).map(|config| config.backend);
            assert_eq!(read, Ok(BackendKey::Auto), "{name}, as in the reference");
        }
    }

    #[test]
    fn no_rules_make_no_policy() {
        assert!(config(r#"{"backend":"none","ingressPolicy":"open"}"#).is_ok());
        for policy in ["same-bridge", "isolated"] {
            let want = (7, format!("ingressPolicy {policy:?} needs rules, and backend \"none\" makes none"));
            assert_eq!(config(&format!(r#"{{"backend":"none","ingressPolicy":"{policy}"}}"#)), Err(want));
        }
    }

    #[test]
    fn what_cannot_be_used_is_looked_for_everywhere() {
        let search = |text: &str| {
            let keys: Keys = Json::parse(text.as_bytes()).expect("JSON").decode().expect("types");
            let RuleSearch { backend, zone } = keys.into_search();
            (backend, zone.to_string())
        };
        let everywhere = (BackendKey::Auto, "trusted".to_owned());
        for text in ["{}", r#"{"backend":"anything"}"#, r#"{"backend":"","firewalldZone":"a b"}"#] {
            assert_eq!(search(text), everywhere, "{text}");
        }
        let text = r#"{"backend":"firewalld","firewalldZone":"work","ingressPolicy":"bogus"}"#;
        assert_eq!(search(text), (BackendKey::Firewalld, "work".to_owned()));
    }

    /// What is refused besides is in `conformance/cases/firewall/refused.case`.
    #[test]
    fn a_name_that_looks_like_a_reserved_one_is_none() {
        let named = |keys: &str, name: &str| config(&format!(r#"{{{keys}"iptablesAdminChainName":"{name}"}}"#));
        let nftables = r#""backend":"nftables","#;
        for (keys, name) in [("", "REJECTED"), ("", "log"), ("", "NAT"), (nftables, "_a.b/c"), (nftables, "ACCEPTED")] {
            assert_eq!(named(keys, name).expect(name).admin_chain.as_str(), name);
        }
        for name in ["A#B", "jump", "ip", "hop-limit", ".A"] {
            let want = (7, format!("invalid iptablesAdminChainName {name:?} for backend \"nftables\""));
            assert_eq!(named(nftables, name), Err(want));
        }
    }
}
