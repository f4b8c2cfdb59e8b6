//! An ingress policy and its bridge: which containers may reach each other.

use cni_core::error::Error;
use cni_core::fail;
use cni_core::names::IfName;
use cni_core::result::{CniResult, Interface};

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
    /// If there is a policy and no usable bridge.
    pub fn choose(policy: IngressPolicy, prev_result: &CniResult) -> Result<Option<Self>, Error> {
        if policy == IngressPolicy::Open {
            return Ok(None);
        }
        let Some(Interface { name, .. }) = prev_result.interfaces.first() else {
            let text = format!("interface needs to be set for ingress policy {:?}", policy.as_str());
            return Err(fail!(InvalidConfig, "{text}, make sure to chain \"firewall\" plugin with \"bridge\""));
        };
        if name.is_empty() {
            return Err(fail!(InvalidConfig, "got empty bridge name"));
        }
        match IfName::parse(name) {
            Ok(bridge) => Ok(Some(Self { policy, bridge })),
            Err(error) => Err(fail!(InvalidConfig, "got invalid bridge name {name:?}", details: "{error}")),
        }
    }
}
