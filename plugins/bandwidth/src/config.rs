//! The keys of the bandwidth plugin, checked before anything is done.

use std::fmt;

use cni_core::error::Error;
use cni_core::fail;
use cni_core::request::Request;
use serde::Deserialize;

use crate::limit::RateLimit;

/// Which packets of the container, as it sees them from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShapedDirection {
    /// Those that it receives.
    Ingress,
    /// Those that it sends.
    Egress,
}

impl fmt::Display for ShapedDirection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ingress => "ingress",
            Self::Egress => "egress",
        })
    }
}

/// The limits of a container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// The limit of what the container receives.
    pub ingress: Option<RateLimit>,
    /// The limit of what it sends.
    pub egress: Option<RateLimit>,
}

/// The keys in the element itself. Any of them, even with null, keeps the runtime's from being looked at.
const KEYS: [&str; 4] = ["ingressRate", "ingressBurst", "egressRate", "egressBurst"];

/// The keys, in bits; 0 means no limit.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Keys {
    ingress_rate: u64,
    ingress_burst: u64,
    egress_rate: u64,
    egress_burst: u64,
    runtime_config: RuntimeKeys,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RuntimeKeys {
    bandwidth: RuntimeLimits,
}

/// The keys that containerd, cri-o and multus send for the capability `bandwidth`.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RuntimeLimits {
    ingress_rate: u64,
    ingress_burst: u64,
    egress_rate: u64,
    egress_burst: u64,
}

impl Config {
    /// Reads and checks every key.
    pub fn load(request: &Request) -> Result<Self, Error> {
        let Keys { ingress_rate, ingress_burst, egress_rate, egress_burst, runtime_config } = request.decode()?;
        let own = RuntimeLimits { ingress_rate, ingress_burst, egress_rate, egress_burst };
        let has_own = KEYS.into_iter().any(|key| request.config().has_key(key));
        let limits = if has_own { own } else { runtime_config.bandwidth };
        Ok(Self {
            ingress: limit(ShapedDirection::Ingress, limits.ingress_rate, limits.ingress_burst)?,
            egress: limit(ShapedDirection::Egress, limits.egress_rate, limits.egress_burst)?,
        })
    }

    /// Whether there is no limit.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The limit of a rate and a burst in bits; what is less than a byte is dropped.
fn limit(direction: ShapedDirection, rate: u64, burst: u64) -> Result<Option<RateLimit>, Error> {
    match (rate, burst) {
        (0, 0) => Ok(None),
        (rate, 0) => Err(fail!(
            InvalidConfig,
            "if rate is set, burst must also be set",
            details: "{direction}Rate is {rate}, and there is no {direction}Burst"
        )),
        (0, burst) => Err(fail!(
            InvalidConfig,
            "if burst is set, rate must also be set",
            details: "{direction}Burst is {burst}, and there is no {direction}Rate"
        )),
        (rate @ ..8, _) => Err(fail!(
            InvalidConfig,
            "rate cannot be less than 8 bits per second",
            details: "{direction}Rate is {rate} bits per second; 0 is no limit"
        )),
        (rate, burst) => match u32::try_from(burst / 8) {
            Ok(bytes) if bytes < u32::MAX => Ok(Some(RateLimit { rate: rate / 8, burst: bytes })),
            Ok(_) | Err(_) => Err(fail!(
                InvalidConfig,
                "burst cannot be more than 4GB",
                details: "{direction}Burst is {burst} bits, where 34359738359 is the most"
            )),
        },
    }
}
