use super::*;
use cni_testkit::{FakeContainer, FakeHost};

use crate::fixtures::attachment;

const NETNS: &str = "/run/netns/c1";

fn host() -> FakeHost {
    let mut host = FakeHost::new().with_container(NETNS, FakeContainer::Present(None));
    host.enter(NETNS).expect("entered");
    host
}

#[test]
fn a_pair_is_made_with_an_alias_and_found_from_either_end() {
    let (mut host, at) = (host(), attachment("c1", "eth0"));
    let veth = NewVeth::choose(&at, None, &mut host).expect("chosen");
    let mut plan = Plan::default();
    veth.plan(&mut plan, &at, Some(1400));
    let name = &veth.host;
    let want = format!(
        "owned  container: link add eth0 type veth peer {name} on host mtu 1400
within host: link set {name} alias \"cni:net1:c1:eth0\"
within host: sysctl net/ipv6/conf/{name}/accept_ra=0
"
    );
    assert_eq!(plan.to_string(), want);
    plan.steps().iter().for_each(|(_, step)| drop(host.apply(step).expect("made")));
    let container = crate::verify::present(Ns::Container, &at.ifname, &mut host).expect("there");
    assert_eq!(container.mac, Some(veth.container_mac));
    let found = host_end(&container, &mut host).expect("asked").expect("there");
    assert_eq!((found.name.as_str(), found.alias.as_deref()), (name.as_str(), Some("cni:net1:c1:eth0")));
}

#[test]
fn a_link_without_a_peer_on_the_host_has_no_other_end() {
    let mut host = host();
    for peer in [None, Some(1), Some(99)] {
        let link = Link { index: 7, peer, ..Link::default() };
        assert_eq!(host_end(&link, &mut host).expect("asked"), None);
    }
}

#[test]
fn names_that_the_containers_end_cannot_have_are_refused() {
    let mut host = host();
    let refused = |ifname: &str, host: &mut FakeHost| {
        let error = NewVeth::choose(&attachment("c1", ifname), None, host).expect_err("refused");
        (error.code().number(), error.to_string())
    };
    let pattern = "failed to make veth pair: the kernel would replace the % in \"a%d\" with a number";
    assert_eq!(refused("a%d", &mut host), (4, pattern.to_owned()));
    let (code, text) = refused("lo", &mut host);
    assert_eq!(code, 103);
    assert!(
        text.starts_with("container veth name (\"lo\") peer provided (\"veth") && text.ends_with(") already exists")
    );
}

#[test]
fn a_mac_that_is_configured_is_the_containers() {
    let mac = Mac::local([7; 6]);
    let veth = NewVeth::choose(&attachment("c1", "eth0"), Some(&mac), &mut host()).expect("chosen");
    assert!(veth.container_mac == mac && veth.host_mac != mac);
}
