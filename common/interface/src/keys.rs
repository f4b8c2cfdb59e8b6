//! Keys that several plugins have: `mtu`, `ipam`, `ipMasqBackend`, and the sources of a MAC address.
//!
//! Each plugin has them in its own `Keys`, and checks them when it makes its `Config`.

use cni_core::error::{Code, Failure};
use cni_core::mac::{Mac, MacError};
use cni_netfilter::Backend;
use serde::Deserialize;

/// A value of a key that several plugins have, which none can use.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// `mtu` is beyond what the kernel takes.
    #[error("invalid mtu {mtu} (must be at most 65535)")]
    Mtu {
        /// The value.
        mtu: i64,
    },
    /// A MAC address that cannot be parsed.
    #[error("failed to {making}: invalid {key}")]
    Mac {
        /// Its purpose, such as `make veth pair`.
        making: &'static str,
        /// Its source.
        key: &'static str,
        /// The error.
        #[source]
        source: MacError,
    },
    /// A MAC address that an Ethernet interface cannot have.
    #[error("failed to {making}: {key} {mac} is not a unicast address of 6 bytes")]
    MacNotUnicast {
        /// Its purpose, such as `make veth pair`.
        making: &'static str,
        /// Its source.
        key: &'static str,
        /// The address.
        mac: Mac,
    },
    /// A plugin that cannot do without addresses has no IPAM plugin.
    #[error("no plugin name provided: {plugin} requires ipam.type")]
    NoIpam {
        /// The plugin.
        plugin: &'static str,
    },
    /// `ipMasqBackend` names none.
    #[error("unknown ipmasq backend {backend:?} (must be iptables or nftables)")]
    MasqueradeBackend {
        /// The value.
        backend: String,
    },
}

impl Failure for KeyError {
    fn code(&self) -> Code {
        match self {
            Self::Mtu { .. }
            | Self::Mac { .. }
            | Self::MacNotUnicast { .. }
            | Self::NoIpam { .. }
            | Self::MasqueradeBackend { .. } => Code::InvalidConfig,
        }
    }

    /// A message of the reference that does not name the key.
    fn details(&self) -> String {
        match self {
            Self::MasqueradeBackend { .. } => "ipMasqBackend is \"iptables\" or \"nftables\"".to_owned(),
            Self::Mac { source, .. } => source.to_string(),
            Self::Mtu { .. } | Self::MacNotUnicast { .. } | Self::NoIpam { .. } => String::new(),
        }
    }
}

/// `ipam`; the plugin itself reads only its type.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct IpamKey {
    r#type: String,
}

impl IpamKey {
    /// The IPAM plugin; the empty text means none, as podman and nerdctl write it.
    pub fn plugin(self) -> Option<String> {
        Some(self.r#type).filter(|name| !name.is_empty())
    }

    /// The IPAM plugin, which a plugin cannot do without.
    pub fn required(self, plugin: &'static str) -> Result<String, KeyError> {
        self.plugin().ok_or(KeyError::NoIpam { plugin })
    }
}

/// An object with a MAC address: `runtimeConfig`, or `args.cni`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct MacKey {
    /// The address as text; empty if absent.
    pub mac: String,
}

/// `args`; only `cni` in it is read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ArgsKey {
    /// `args.cni`
    pub cni: MacKey,
}

/// The first given MAC address of `(key, text)` in the order of precedence; an empty text is ignored.
///
/// ```
/// use cni_interface::keys::first_mac;
///
/// let given = [("runtimeConfig.mac", ""), ("mac", "02-00-00-00-00-0A")].map(|(key, text)| (key, text.to_owned()));
/// let mac = first_mac("create macvlan", given)?.expect("one is given");
/// assert_eq!(mac.to_string(), "02:00:00:00:00:0a");
/// # Ok::<(), cni_interface::keys::KeyError>(())
/// ```
///
/// # Errors
/// [`KeyError::Mac`] and [`KeyError::MacNotUnicast`], which say that `making` failed.
pub fn first_mac<const N: usize>(
    making: &'static str,
    given: [(&'static str, String); N],
) -> Result<Option<Mac>, KeyError> {
    let Some((key, text)) = given.into_iter().find(|(_, text)| !text.is_empty()) else { return Ok(None) };
    let mac: Mac = text.parse().map_err(|source| KeyError::Mac { making, key, source })?;
    let unicast = matches!(mac.bytes(), [first, rest @ ..] if first & 1 == 0 && rest.len() == 5);
    let zero = mac.bytes().iter().all(|byte| *byte == 0);
    if unicast && !zero { Ok(Some(mac)) } else { Err(KeyError::MacNotUnicast { making, key, mac }) }
}

/// The MTU in bytes that `mtu` asks for; 0 and less mean the kernel's own.
pub fn mtu(mtu: i64) -> Result<Option<u32>, KeyError> {
    match u16::try_from(mtu.max(0)) {
        Ok(0) => Ok(None),
        Ok(mtu) => Ok(Some(mtu.into())),
        Err(_) => Err(KeyError::Mtu { mtu }),
    }
}

/// The back end that `ipMasqBackend` names; `None` without a value.
pub fn masquerade_backend(backend: Option<&str>) -> Result<Option<Backend>, KeyError> {
    match backend {
        None => Ok(None),
        Some("iptables") => Ok(Some(Backend::Iptables)),
        Some("nftables") => Ok(Some(Backend::Nftables)),
        Some(other) => Err(KeyError::MasqueradeBackend { backend: other.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mac(texts: [&str; 2]) -> Result<Option<String>, (u32, String)> {
        let [first, second] = texts.map(str::to_owned);
        let chosen = first_mac("create dummy", [("runtimeConfig.mac", first), ("mac", second)]);
        chosen.map(|mac| mac.map(|mac| mac.to_string())).map_err(|error| (error.code().number(), error.to_string()))
    }

    #[test]
    fn the_first_mac_that_is_given_counts_and_one_that_no_interface_can_have_is_named_with_its_key() {
        let [a, b] = ["02:00:00:00:00:0a", "02:00:00:00:00:0b"];
        assert_eq!(
            [mac([a, b]), mac(["", b]), mac(["", ""])],
            [Some(a), Some(b), None].map(|mac| Ok(mac.map(str::to_owned)))
        );
        for (texts, message) in [
            (["zz", ""], "failed to create dummy: invalid runtimeConfig.mac".to_owned()),
            (["", "00:00:00:00:00:00"], not_unicast("mac 00:00:00:00:00:00")),
            (["", "01:00:00:00:00:01"], not_unicast("mac 01:00:00:00:00:01")),
            (["", "02-00-00-00-00-00-00-01"], not_unicast("mac 02:00:00:00:00:00:00:01")),
        ] {
            assert_eq!(mac(texts), Err((7, message)));
        }
    }

    fn not_unicast(what: &str) -> String {
        format!("failed to create dummy: {what} is not a unicast address of 6 bytes")
    }

    #[test]
    fn an_mtu_is_at_most_what_the_kernel_takes() {
        for (reported, want) in [(i64::MIN, None), (-5, None), (0, None), (1, Some(1)), (65535, Some(65535))] {
            assert_eq!(mtu(reported).expect("valid"), want);
        }
        let error = mtu(65536).expect_err("too much");
        let message = "invalid mtu 65536 (must be at most 65535)";
        assert_eq!((error.code().number(), error.to_string()), (7, message.to_owned()));
    }
}
