//! Snapshots without parts that change by themselves, or that some plugin changes at every call.

use cni_conformance::state::State;

/// Where host-local continues to look for addresses, and the caches of plugins.
const CHANGING: [&str; 3] = ["last_reserved_ip.", ".cni-plugins-rs", "cache: "];

/// Returns the lines of a snapshot. A bridge has the hardware address of one of its ports, which is left out.
pub fn lines(state: &State) -> Vec<String> {
    let kept = state.lines().into_iter().filter(|line| !CHANGING.iter().any(|part| line.contains(part)));
    kept.map(|line| bridge_without_address(&line).unwrap_or(line)).collect()
}

fn bridge_without_address(line: &str) -> Option<String> {
    let (before, _) = line.split_once(" mac ")?;
    let mut words = line.strip_prefix("host links: ")?.split(' ');
    (words.nth(1)? == "bridge").then(|| before.to_owned())
}

#[cfg(test)]
mod tests {
    use super::bridge_without_address;

    #[test]
    fn only_bridges_of_the_host_lose_their_address() {
        let bridge = bridge_without_address("host links: br0 bridge up mtu 1500 mac aa:bb");
        assert_eq!(bridge.as_deref(), Some("host links: br0 bridge up mtu 1500"));
        assert_eq!(bridge_without_address("host links: veth0 veth up mtu 1500 mac aa:bb in br0"), None);
        assert_eq!(bridge_without_address("ctr1 links: br0 bridge up mtu 1500 mac aa:bb"), None);
    }
}
