//! Configurations of delegates, to the byte.

use super::*;
use crate::config::tests::request;

const LEASE: &str =
    "FLANNEL_NETWORK=10.42.0.0/16\nFLANNEL_SUBNET=10.42.1.1/24\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=true\n";
const DUAL: &str = "FLANNEL_NETWORK=10.42.0.0/16,10.43.0.0/16\nFLANNEL_SUBNET=10.42.1.1/24\n\
    FLANNEL_IPV6_NETWORK=fd00:42::/56\nFLANNEL_IPV6_SUBNET=fd00:42:0:1::1/64\nFLANNEL_MTU=1400\nFLANNEL_IPMASQ=false\n";

fn compose(keys: &str, lease: &str) -> Result<String, String> {
    let config = format!(r#"{{"name":"cbr0","type":"flannel"{keys}}}"#);
    let config = Config::load(&request(&config)).expect("a configuration");
    let lease = SubnetLease::parse("/l", lease).expect("a lease");
    DelegateConfig::new(&config, &lease).map(|composed| composed.text()).map_err(|error| error.to_string())
}

#[test]
fn the_list_of_k3s_becomes_what_the_reference_writes() {
    let keys = r#","cniVersion":"1.0.0","delegate":{"hairpinMode":true,"forceAddress":true,"isDefaultGateway":true}"#;
    assert_eq!(
        compose(keys, LEASE).expect("composed"),
        r#"{"cniVersion":"1.0.0","forceAddress":true,"hairpinMode":true,"ipMasq":false,"ipam":{"ranges":[[{"subnet":"10.42.1.0/24"}]],"routes":[{"dst":"10.42.0.0/16"}],"type":"host-local"},"isDefaultGateway":true,"isGateway":true,"mtu":1450,"name":"cbr0","type":"bridge"}"#
    );
}

#[test]
fn both_families_have_a_range_and_routes() {
    assert_eq!(
        compose("", DUAL).expect("composed"),
        r#"{"ipMasq":true,"ipam":{"ranges":[[{"subnet":"10.42.1.0/24"}],[{"subnet":"fd00:42:0:1::/64"}]],"routes":[{"dst":"10.42.0.0/16"},{"dst":"10.43.0.0/16"},{"dst":"fd00:42::/56"}],"type":"host-local"},"isGateway":true,"mtu":1400,"name":"cbr0","type":"bridge"}"#
    );
}

#[test]
fn what_the_delegate_says_stays_even_null() {
    let keys = r#","cniVersion":"0.3.1","delegate":{"type":"macvlan","mtu":9000,"ipMasq":null,"x":{"b":1.5,"a":"<"}}"#;
    assert_eq!(
        compose(keys, LEASE).expect("composed"),
        r#"{"cniVersion":"0.3.1","ipMasq":null,"ipam":{"ranges":[[{"subnet":"10.42.1.0/24"}]],"routes":[{"dst":"10.42.0.0/16"}],"type":"host-local"},"mtu":9000,"name":"cbr0","type":"macvlan","x":{"a":"\u003c","b":1.5}}"#
    );
}

#[test]
fn the_base_of_ipam_keeps_its_keys_and_its_routes_come_first() {
    let keys = r#","ipam":{"dataDir":"/d","subnet":"10.1.0.0/24","ranges":[1],"type":"other",
        "routes":[{"GW":"10.42.1.9","dst":"10.9.0.1/16","mtu":1400,"x":1,"table":0}]}"#;
    assert_eq!(
        compose(keys, LEASE).expect("composed"),
        r#"{"ipMasq":false,"ipam":{"dataDir":"/d","ranges":[[{"subnet":"10.42.1.0/24"}]],"routes":[{"dst":"10.9.0.1/16","gw":"10.42.1.9","mtu":1400,"table":0},{"dst":"10.42.0.0/16"}],"subnet":"10.1.0.0/24","type":"other"},"isGateway":true,"mtu":1450,"name":"cbr0","type":"bridge"}"#
    );
    let error = compose(r#","ipam":{"routes":[{"dst":"x"}]}"#, LEASE).expect_err("refused");
    assert!(
        error
            .starts_with("failed to assemble Delegate IPAM: failed to read IPAM routes: failed to parse ipam.routes: "),
        "{error}"
    );
    assert!(error.ends_with("invalid CIDR address: x"), "{error}");
}

#[test]
fn what_the_runtime_passes_replaces_what_the_delegate_says() {
    let keys = r#","delegate":{"runtimeConfig":{"mac":"x"}},"runtimeConfig":{"ips":["10.42.1.5/24"]},"capabilities":{"ips":true},"dns":{}"#;
    let composed = compose(keys, LEASE).expect("composed");
    assert!(composed.ends_with(r#","runtimeConfig":{"ips":["10.42.1.5/24"]},"type":"bridge"}"#), "{composed}");
    assert!(!composed.contains("capabilities") && !composed.contains("dns"), "{composed}");
}

#[test]
fn what_was_composed_is_read_back_and_a_torn_one_is_not() {
    let text = compose(r#","ipam":{"routes":[{"dst":"10.9.0.0/16","gw":"10.42.1.9"}]}"#, DUAL).expect("composed");
    let read = DelegateConfig::parse(&text).expect("read");
    assert_eq!((read.plugin.as_str(), read.network(), read.text()), ("bridge", "cbr0", text.clone()));
    assert_eq!(
        read.subnets().iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["10.42.1.0/24", "fd00:42:0:1::/64"]
    );
    for torn in [
        "",
        &text[..text.len() - 1],
        "[]",
        "null",
        r#"{"type":"bridge"}"#,
        r#"{"name":"n"}"#,
        r#"{"name":"n","type":""}"#,
    ] {
        assert_eq!(DelegateConfig::parse(torn), None, "{torn:?}");
    }
}
