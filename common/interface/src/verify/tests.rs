use super::*;

const NETNS: &str = "/run/netns/c";

fn name() -> IfName {
    IfName::parse("eth0").expect("name")
}

fn interface(name: &str, mac: &str, sandbox: &str) -> Interface {
    Interface { name: name.to_owned(), mac: mac.to_owned(), sandbox: sandbox.to_owned(), ..Interface::default() }
}

fn link(name: &str) -> Link {
    let mac = "02:00:00:00:00:0a".parse().ok();
    Link { name: name.to_owned(), kind: Some("dummy".to_owned()), mac, up: true, ..Link::default() }
}

fn reported(interfaces: Vec<Interface>) -> Result<String, String> {
    let result = CniResult { interfaces, ..CniResult::default() };
    interface_of_result(&result, &name(), NETNS).map(|reported| reported.mac.clone()).map_err(|error| error.to_string())
}

#[test]
fn the_last_interface_of_the_name_in_the_namespace_counts() {
    let twice = vec![interface("eth0", "a", NETNS), interface("eth0", "b", NETNS), interface("eth1", "c", NETNS)];
    assert_eq!(reported(twice), Ok("b".to_owned()));
    let elsewhere = "Sandbox in prevResult /run/netns/other doesn't match configured netns: /run/netns/c";
    assert_eq!(reported(vec![interface("eth0", "a", "/run/netns/other")]), Err(elsewhere.to_owned()));
    let nowhere = r#"prevResult has no interface eth0 in "/run/netns/c""#;
    assert_eq!(reported(vec![interface("eth0", "a", "")]), Err(nowhere.to_owned()));
}

#[test]
fn a_mac_is_compared_if_the_result_has_one_in_any_spelling() {
    let compare =
        |reported: &str| mac(&link("eth0"), &interface("eth0", reported, NETNS)).map_err(|error| error.to_string());
    for same in ["", "02:00:00:00:00:0A", "02-00-00-00-00-0A", "0200.0000.000a"] {
        assert_eq!(compare(same), Ok(()), "{same}");
    }
    let other = "Interface eth0 Mac 02:00:00:00:00:0b doesn't match container Mac: 02:00:00:00:00:0a";
    assert_eq!(compare("02:00:00:00:00:0b"), Err(other.to_owned()));
    assert_eq!(mac_of_result(&interface("eth0", "zz", NETNS)).expect_err("no MAC").code().number(), 7);
}
