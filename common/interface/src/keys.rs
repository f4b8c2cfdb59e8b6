//! Keys that several plugins have: `mtu`, `ipam`, `ipMasqBackend`, and the sources of a MAC address.
//!
//! Each plugin has them in its own `Keys`, and checks them when it makes its `Config`.

use cni_core::error::Error;
use cni_core::fail;
use cni_core::mac::Mac;
use cni_netfilter::Backend;
use serde::Deserialize;

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
    pub fn required(self, plugin: &str) -> Result<String, Error> {
        let none = || fail!(InvalidConfig, "no plugin name provided: {plugin} requires ipam.type");
        self.plugin().ok_or_else(none)
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
/// # Ok::<(), cni_core::error::Error>(())
/// ```
///
/// # Errors
/// For a text that is no unicast address; the error says that `making` failed.
pub fn first_mac<const N: usize>(making: &str, given: [(&str, String); N]) -> Result<Option<Mac>, Error> {
    let Some((key, text)) = given.into_iter().find(|(_, text)| !text.is_empty()) else { return Ok(None) };
    let unread = |error| fail!(InvalidConfig, "failed to {making}: invalid {key}", details: "{error}");
    let mac: Mac = text.parse().map_err(unread)?;
    let unicast = matches!(mac.bytes(), [first, rest @ ..] if first & 1 == 0 && rest.len() == 5);
    let zero = mac.bytes().iter().all(|byte| *byte == 0);
    if unicast && !zero {
        return Ok(Some(mac));
    }
    Err(fail!(InvalidConfig, "failed to {making}: {key} {mac} is not a unicast address of 6 bytes"))
}

/// The MTU in bytes that `mtu` asks for; 0 and less mean the kernel's own.
pub fn mtu(mtu: i64) -> Result<Option<u32>, Error> {
    match u16::try_from(mtu.max(0)) {
        Ok(0) => Ok(None),
        Ok(mtu) => Ok(Some(mtu.into())),
        Err(_) => Err(fail!(InvalidConfig, "invalid mtu {mtu} (must be at most 65535)")),
    }
}

/// The back end that `ipMasqBackend` names; `None` without a value.
pub fn masquerade_backend(backend: Option<&str>) -> Result<Option<Backend>, Error> {
    match backend {
        None => Ok(None),
        Some("iptables") => Ok(Some(Backend::Iptables)),
        Some("nftables") => Ok(Some(Backend::Nftables)),
        Some(other) => Err(fail!(
            InvalidConfig,
            "unknown ipmasq backend {other:?} (must be iptables or nftables)",
            details: "ipMasqBackend is \"iptables\" or \"nftables\""
        )),
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
        let not_unicast = |what| format!("failed to create dummy: {what} is not a unicast address of 6 bytes");
        let [a, b] = ["02:00:00:00:00:0a", "02:00:00:00:00:0b"];
        let want = [Some(a), Some(b), None].map(|mac| Ok(mac.map(str::to_owned)));
        assert_eq!([mac([a, b]), mac(["", b]), mac(["", ""])], want);
        for (texts, message) in [
            (["zz", ""], "failed to create dummy: invalid runtimeConfig.mac".to_owned()),
            (["", "00:00:00:00:00:00"], not_unicast("mac 00:00:00:00:00:00")),
            (["", "01:00:00:00:00:01"], not_unicast("mac 01:00:00:00:00:01")),
            (["", "02-00-00-00-00-00-00-01"], not_unicast("mac 02:00:00:00:00:00:00:01")),
        ] {
            assert_eq!(mac(texts), Err((7, message)));
        }
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
