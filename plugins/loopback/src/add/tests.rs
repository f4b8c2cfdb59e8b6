//! When `lo` is set up, and the result.

use super::*;

fn lo(up: bool) -> Link {
    Link { index: 1, name: "lo".to_owned(), mtu: 65536, up, ..Link::default() }
}

#[test]
fn a_lo_that_is_up_is_unchanged() {
    assert_eq!(plan(&lo(true)).to_string(), "");
    assert_eq!(plan(&lo(false)).to_string(), "owned  container: link set lo up\n");
}

#[test]
fn the_result_tells_one_address_of_each_family() {
    let addresses: Vec<Address> = ["127.0.0.1/8", "127.0.0.2/8", "::1/128"]
        .iter()
        .map(|text| Address { cidr: text.parse().expect("CIDR"), tentative: false, dad_failed: false })
        .collect();
    let result = result("/run/netns/c", &addresses);
    let ips: Vec<String> = result.ips.iter().map(|ip| ip.address.to_string()).collect();
    assert_eq!(ips, ["127.0.0.1/8", "::1/128"]);
    assert_eq!(result.interfaces[0].sandbox, "/run/netns/c");
}
