//! The result of ADD, as libcni keeps it: what the tool has to know of it, whatever its version.

use std::net::IpAddr;

use cni_core::mac::Mac;
use serde_json::Value;

/// The result of ADD.
pub(super) struct CachedResult(pub(super) Value);

impl CachedResult {
    fn interfaces(&self) -> impl Iterator<Item = &Value> {
        self.0.get("interfaces").and_then(Value::as_array).into_iter().flatten()
    }

    /// The namespace of an interface.
    pub(super) fn sandbox_of(&self, ifname: &str) -> Option<&str> {
        let named = self.interfaces().filter(|one| text_of(one, "name") == ifname);
        named.map(|one| text_of(one, "sandbox")).find(|sandbox| !sandbox.is_empty())
    }

    /// The link-layer addresses of an interface in the container; an empty one where the result does not tell.
    pub(super) fn macs_of(&self, ifname: &str) -> Vec<String> {
        let own = self.interfaces().filter(|one| text_of(one, "name") == ifname);
        let of_container = own.filter(|one| !text_of(one, "sandbox").is_empty()).map(|one| text_of(one, "mac"));
        // tuning of the reference writes them as the configuration spells them.
        of_container.map(|mac| mac.parse().map_or_else(|_| mac.to_owned(), |mac: Mac| mac.to_string())).collect()
    }

    /// The interfaces that are in no sandbox.
    pub(super) fn host_interfaces(&self) -> Vec<String> {
        let outside = self.interfaces().filter(|one| text_of(one, "sandbox").is_empty());
        outside.map(|one| text_of(one, "name").to_owned()).filter(|name| !name.is_empty()).collect()
    }

    /// The addresses, whatever its version.
    pub(super) fn addresses(&self) -> Vec<IpAddr> {
        let listed = self.0.get("ips").and_then(Value::as_array).into_iter().flatten();
        let listed = listed.filter_map(|ip| ip.get("address"));
        let ancient = ["ip4", "ip6"].into_iter().filter_map(|family| self.0.get(family)?.get("ip"));
        let texts = listed.chain(ancient).filter_map(Value::as_str);
        texts.filter_map(|text| text.split('/').next()?.parse().ok()).collect()
    }

    pub(super) fn version(&self) -> Option<&str> {
        Some(text_of(&self.0, "cniVersion")).filter(|version| !version.is_empty())
    }
}

fn text_of<'a>(object: &'a Value, key: &str) -> &'a str {
    object.get(key).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn addresses_of_interfaces_are_spelled_as_those_of_the_kernel() {
        let one = |mac: &str| json!({"name": "eth0", "sandbox": "/run/netns/a", "mac": mac});
        let result = CachedResult(json!({"interfaces": [one("C2-11-22-33-44-5A"), one(""), one("0200.0000.0009")]}));
        assert_eq!(result.macs_of("eth0"), ["c2:11:22:33:44:5a", "", "02:00:00:00:00:09"]);
    }
}
