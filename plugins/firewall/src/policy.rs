//! An ingress policy and its bridge: which containers may reach each other.

use cni_core::error::{Code, Failure};
use cni_core::names::IfName;
use cni_core::result::CniResult;

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

impl IngressPolicy {
    /// The policy as it is written in configurations and comments.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::SameBridge => "same-bridge",
            Self::Isolated => "isolated",
        }
    }

    /// Reads the key `ingressPolicy`; an empty text is the default.
    pub fn parse(text: &str) -> Option<Self> {
        let all = [Self::Open, Self::SameBridge, Self::Isolated];
        if text.is_empty() { Some(Self::Open) } else { all.into_iter().find(|policy| policy.as_str() == text) }
    }
}

/// A `prevResult` without a bridge, which an ingress policy is about.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyBridgeError {
    /// It names no interface.
    #[error(
        "interface needs to be set for ingress policy {policy:?}, make sure to chain \"firewall\" plugin with \"bridge\""
    )]
    NoInterface { policy: &'static str },
    /// Its first interface has no name.
    #[error("got empty bridge name")]
    EmptyName,
    /// Its first interface has a name that no interface can have.
    #[error("got invalid bridge name {name:?}")]
    InvalidName {
        name: String,
        #[source]
        source: cni_core::names::NameError,
    },
    /// The name of the first interface is a pattern in iptables, which matches other interfaces too.
    #[error("bridge name {name:?} ends in +, which is a wildcard for iptables")]
    Pattern { name: String },
}

impl Failure for PolicyBridgeError {
    fn code(&self) -> Code {
        match self {
            Self::NoInterface { .. } | Self::EmptyName | Self::InvalidName { .. } | Self::Pattern { .. } => {
                Code::InvalidConfig
            }
        }
    }

    fn details(&self) -> String {
        match self {
            Self::NoInterface { .. } | Self::EmptyName => String::new(),
            Self::InvalidName { source, .. } => source.to_string(),
            Self::Pattern { .. } => "a + at the end of a name stands for any ending: use backend nftables".to_owned(),
        }
    }
}

/// An ingress policy and the bridge that it is about.
pub struct PolicyBridge {
    /// The policy, which is not to let everything pass.
    pub policy: IngressPolicy,
    pub bridge: IfName,
}

impl PolicyBridge {
    /// The bridge of a policy: the first interface of the result, as the bridge plugin lists it.
    ///
    /// # Errors
    /// [`PolicyBridgeError`] if there is a policy and no usable bridge.
    pub fn choose(policy: IngressPolicy, prev_result: &CniResult) -> Result<Option<Self>, PolicyBridgeError> {
        if policy == IngressPolicy::Open {
            return Ok(None);
        }
        let interface = prev_result.interfaces.first();
        let name = &interface.ok_or(PolicyBridgeError::NoInterface { policy: policy.as_str() })?.name;
        if name.is_empty() {
            return Err(PolicyBridgeError::EmptyName);
        }
        match IfName::parse(name) {
            Ok(bridge) => Ok(Some(Self { policy, bridge })),
            Err(source) => Err(PolicyBridgeError::InvalidName { name: name.clone(), source }),
        }
    }
}
