//! The keys of the firewall plugin's configuration, decoded and judged before anything is done.
//!
//! What cannot be used is refused here with the key and its value; a [`Config`] can only be carried out.

use cni_core::error::{Code, Failure};
use cni_core::names::ChainName;
use serde::{Deserialize, Deserializer};

/// The chain of the administrator, unless the configuration names another.
const ADMIN_CHAIN: &str = "CNI-ADMIN";

/// The chain that admits a container's traffic.
pub const FORWARD_CHAIN: &str = "CNI-FORWARD";

/// The chain that asks which bridge a packet comes from.
pub const STAGE_1: &str = "CNI-ISOLATION-STAGE-1";

/// The chain that asks which bridge a packet goes to.
pub const STAGE_2: &str = "CNI-ISOLATION-STAGE-2";

/// Names that an administrator's chain cannot have: those of the table's own chains, of iptables' verdicts, and ours.
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

/// What the plugin is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Who keeps the rules.
    pub backend: Backend,
    /// The chain that is asked before any rule for an address.
    pub admin_chain: ChainName,
    /// Which containers may reach each other.
    pub policy: IngressPolicy,
}

/// Who keeps the rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    /// The tables of iptables.
    #[default]
    Iptables,
}

impl<'de> Deserialize<'de> for Backend {
    /// Accepts any text: what names no backend lets the plugin choose, as in the reference.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|_| Self::Iptables)
    }
}

/// Which containers may reach each other across, or on, the bridges that carry a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IngressPolicy {
    /// All.
    Open,
    /// Those on the same bridge.
    SameBridge,
    /// None.
    Isolated,
}

/// A configuration that is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// `ingressPolicy` is none of the three.
    #[error("unknown ingress policy: {policy:?}")]
    UnknownPolicy {
        /// The value as given.
        policy: String,
    },
    /// `iptablesAdminChainName` is no name for a chain.
    #[error("invalid iptablesAdminChainName {name:?}")]
    AdminChainName {
        /// The value as given.
        name: String,
    },
    /// `iptablesAdminChainName` is the name of something else.
    #[error("iptablesAdminChainName {name:?} is taken")]
    AdminChainTaken {
        /// The value as given.
        name: String,
    },
}

impl Failure for ConfigError {
    fn code(&self) -> Code {
        match self {
            Self::UnknownPolicy { .. } | Self::AdminChainName { .. } | Self::AdminChainTaken { .. } => {
                Code::InvalidConfig
            }
        }
    }

    fn details(&self) -> String {
        match self {
            Self::UnknownPolicy { .. } => "ingressPolicy must be open, same-bridge or isolated",
            Self::AdminChainName { .. } => {
                "an iptables chain has 1 to 28 characters, no blank or quote, and does not start with - or !"
            }
            Self::AdminChainTaken { .. } => {
                "it must not be a chain or verdict of iptables itself, nor a chain of this plugin"
            }
        }
        .to_owned()
    }
}

/// The keys as they are written.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Keys {
    backend: Backend,
    iptables_admin_chain_name: String,
    ingress_policy: String,
}

impl TryFrom<Keys> for Config {
    type Error = ConfigError;

    fn try_from(keys: Keys) -> Result<Self, ConfigError> {
        let Keys { backend, iptables_admin_chain_name, ingress_policy } = keys;
        Ok(Self {
            backend,
            admin_chain: admin_chain(iptables_admin_chain_name)?,
            policy: IngressPolicy::parse(ingress_policy)?,
        })
    }
}

fn admin_chain(name: String) -> Result<ChainName, ConfigError> {
    if name.is_empty() {
        return Ok(ChainName::fixed(ADMIN_CHAIN));
    }
    if TAKEN.contains(&name.as_str()) {
        return Err(ConfigError::AdminChainTaken { name });
    }
    ChainName::parse(&name).map_err(|_| ConfigError::AdminChainName { name })
}

impl IngressPolicy {
    /// The policy as it is written in configurations and comments.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::SameBridge => "same-bridge",
            Self::Isolated => "isolated",
        }
    }

    fn parse(policy: String) -> Result<Self, ConfigError> {
        match policy.as_str() {
            "" => Ok(Self::Open),
            text => [Self::Open, Self::SameBridge, Self::Isolated]
                .into_iter()
                .find(|policy| policy.as_str() == text)
                .ok_or(ConfigError::UnknownPolicy { policy }),
        }
    }
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
            backend: Backend::Iptables,
            admin_chain: ChainName::fixed("CNI-ADMIN"),
            policy: IngressPolicy::Open,
        };
        for text in [
            "{}",
            r#"{"backend":"","iptablesAdminChainName":"","ingressPolicy":""}"#,
            r#"{"backend":null,"iptablesAdminChainName":null,"ingressPolicy":null}"#,
            r#"{"backend":"iptables","ingressPolicy":"open"}"#,
            r#"{"backend":"anything","zone":"x"}"#,
        ] {
            assert_eq!(config(text), Ok(want.clone()), "{text}");
        }
    }

    #[test]
    fn every_key_is_read_in_any_case() {
        let nomad = config(r#"{"IPTablesAdminChainName":"NOMAD-ADMIN","INGRESSPOLICY":"isolated"}"#).expect("valid");
        assert_eq!((nomad.admin_chain.as_str(), nomad.policy), ("NOMAD-ADMIN", IngressPolicy::Isolated));
        let same = config(r#"{"ingressPolicy":"same-bridge"}"#).expect("valid");
        assert_eq!(same.policy, IngressPolicy::SameBridge);
    }

    #[test]
    fn an_unknown_policy_is_refused() {
        for policy in ["bogus", "Open", "isolated "] {
            let want = (7, format!("unknown ingress policy: {policy:?}"));
            assert_eq!(config(&format!(r#"{{"ingressPolicy":"{policy}"}}"#)), Err(want));
        }
    }

    #[test]
    fn an_admin_chain_must_be_a_chain_of_its_own() {
        for name in TAKEN {
            let want = (7, format!("iptablesAdminChainName {name:?} is taken"));
            assert_eq!(config(&format!(r#"{{"iptablesAdminChainName":"{name}"}}"#)), Err(want));
        }
        for name in ["A B", "-A", "!A", "CNI-ADMIN-OF-29-CHARACTERS-XX", "a'b"] {
            let want = (7, format!("invalid iptablesAdminChainName {name:?}"));
            assert_eq!(config(&format!(r#"{{"iptablesAdminChainName":"{name}"}}"#)), Err(want));
        }
    }
}
