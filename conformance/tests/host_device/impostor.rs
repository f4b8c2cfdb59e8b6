//! DEL must not move an interface that root in the container has made into the host's bridge, and must move back the
//! interface of ADD.

use cni_conformance::cases::for_each;
use cni_conformance::{Chain, Container, ListHost, Network};
use serde_json::json;

use crate::host_device::setup::{MAC, by_name, has, host};

/// Makes a link in the container with every property of the interface that root there can choose: index, name, address and
/// alias.
fn put_in_its_place(container: &Container, index: u32, kind: &str) {
    container.sh(&format!("ip link add eth0 index {index} address {MAC} type {kind}"));
    container.sh("ip link set eth0 alias ens1 up");
}

fn index_of_interface(container: &Container) -> u32 {
    Network::observe(container).link("eth0").expect("eth0").index
}

fn says(chain: &Chain, words: &str) {
    chain.expect_success();
    let stderr = chain.step("host-device").stderr();
    assert!(stderr.contains(words), "must say {words:?}: {stderr:?}");
}

/// Otherwise the container would be connected to the bridge.
#[test]
fn a_veth_that_the_container_has_made_comes_back_down_and_in_no_bridge() {
    let host = host(by_name());
    let (container, attachment) = host.add("id1");
    let index = index_of_interface(&container);
    container.sh("ip link del eth0");
    put_in_its_place(&container, index, "veth peer name tail");
    container.sh("ip link set tail up");
    says(&host.runtime().del(&attachment), "ens1 is down and not in br9: nothing proves");
    host.del(&attachment);
    let network = Network::observe(host.sandbox.host());
    let link = network.link("ens1").expect("back");
    assert_eq!((link.up, link.controller.as_deref()), (false, None));
}

/// The host still has the other end, so the interface exists, and is found where the container has hidden it.
#[test]
fn a_veth_that_replaces_a_hidden_one_stays_in_the_container() {
    let host = host(by_name());
    let before = host.state();
    let (container, attachment) = host.add("id1");
    let (hidden, index) = (host.sandbox.container("hidden"), index_of_interface(&container));
    container.sh(&format!("ip link set eth0 netns {}", hidden.name()));
    put_in_its_place(&container, index, "veth peer name tail");
    let deleted = host.runtime().del(&attachment);
    says(&deleted, "eth0 stays in the container namespace: it is not ens1");
    says(&deleted, "the container has moved ens1 on: it is given back from ");
    assert!(has(&container, "eth0") && !has(&hidden, "eth0"));
    host.is_as_before(&before, &[]);
}

/// Root of the container has changed all that it can: nothing but the other end tells the interface from others.
#[test]
fn an_interface_that_the_container_has_moved_on_comes_back() {
    let deeds = [("as it was", "true"), ("changed", "ip link set eth0 alias x address 02:00:00:00:00:77 name y")];
    for_each(deeds, |deed| {
        let host = host(by_name());
        let (container, attachment) = host.add("id1");
        let hidden = host.sandbox.container("hidden");
        container.sh("ip link set eth0 netns hidden index 99");
        hidden.sh(deed);
        says(&host.runtime().del(&attachment), "the container has moved ens1 on: it is given back from ");
        let network = Network::observe(host.sandbox.host());
        let link = network.link("ens1").expect("back");
        assert_eq!((link.up, link.controller.is_some()), (true, true));
        host.del(&attachment);
    });
}

/// Another plugin may have given it to the container that has it now.
#[test]
fn an_interface_stays_where_it_is_once_the_namespace_of_its_container_has_ended() {
    let host = host(by_name());
    let (container, attachment) = host.add("id1");
    let hidden = host.sandbox.container("hidden");
    container.sh("ip link set eth0 netns hidden");
    host.sandbox.end(&container);
    let lost = "ens1 is not given back: it is neither in the container nor on the host";
    says(&host.runtime().del(&attachment), lost);
    host.del(&attachment);
    assert!(has(&hidden, "eth0"));
}

/// Nothing tells it from interfaces that others have made.
#[test]
fn del_says_that_an_interface_is_lost() {
    let host = host(by_name());
    host.sandbox.sh("ip link del ens1");
    host.sandbox.sh("ip link add ens1 type ifb");
    let (container, attachment) = host.add("id1");
    let _hidden = host.sandbox.container("hidden");
    container.sh("ip link set eth0 netns hidden");
    says(&host.runtime().del(&attachment), "ens1 is not given back: it is neither in the container nor on the host");
}

#[test]
fn a_link_of_another_kind_stays_in_the_container() {
    for_each([("bridge", "bridge"), ("ifb", "ifb")], |kind| {
        let host = host(by_name());
        let (container, attachment) = host.add("id1");
        let index = index_of_interface(&container);
        container.sh("ip link del eth0");
        put_in_its_place(&container, index, kind);
        says(&host.runtime().del(&attachment), "eth0 stays in the container namespace: it is not ens1");
        assert!(has(&container, "eth0") && !has(host.sandbox.host(), "ens1"));
    });
}

/// Creates the interface again, as another kind of link.
const KINDS: [(&str, (&[&str], bool)); 3] = [
    ("macvlan", (&["ip link add wire type bridge", "ip link add ens1 link wire type macvlan"], true)),
    ("ifb", (&["ip link add ens1 type ifb"], true)),
    ("tap", (&["ip tuntap add ens1 mode tap"], false)),
];

/// A process of the container may have opened a tap device.
#[test]
fn an_interface_of_another_kind_comes_back_up_only_if_it_is_proven() {
    for_each(KINDS, |(made, proven)| {
        let host = host(by_name());
        host.sandbox.sh("ip link del ens1");
        made.iter().for_each(|line| drop(host.sandbox.sh(line)));
        host.sandbox.sh("ip link set ens1 master br9 up");
        let (_container, attachment) = host.add("id1");
        host.del(&attachment);
        let network = Network::observe(host.sandbox.host());
        let link = network.link("ens1").expect("back");
        assert_eq!((link.up, link.controller.is_some()), (proven, proven));
    });
}

/// Both ends of a pair are moved to containers. When the first is moved back, the other end is in another namespace than before.
#[test]
fn both_ends_of_a_pair_come_back() {
    let mut host = host(by_name());
    let (_near, first) = host.add("id1");
    host.list["plugins"][0]["device"] = json!("far");
    let (_distant, second) = host.add("id2");
    host.list["plugins"][0]["device"] = json!("ens1");
    host.runtime().del(&first).expect_success();
    host.list["plugins"][0]["device"] = json!("far");
    host.runtime().del(&second).expect_success();
    assert!(has(host.sandbox.host(), "ens1") && has(host.sandbox.host(), "far"));
}

/// The kernel says the same of all links on one link, such as its VLANs. The second ADD must leave the record of the first.
#[test]
fn two_interfaces_on_one_link_come_back_as_they_were() {
    let mut host = host(by_name());
    host.sandbox.sh("ip link del ens1");
    host.sandbox.sh("ip link add wire type bridge");
    let names = ["one", "other"];
    names.iter().for_each(|name| drop(host.sandbox.sh(&format!("ip link add {name} link wire type macvlan"))));
    names.iter().for_each(|name| drop(host.sandbox.sh(&format!("ip link set {name} alias {name}s up"))));
    let before = host.state();
    let named = |host: &mut ListHost, name: &str| host.list["plugins"][0]["device"] = json!(name);
    let lent = names.map(|name| {
        named(&mut host, name);
        host.add(&format!("id-{name}"))
    });
    for (name, (_, attachment)) in names.iter().zip(&lent) {
        named(&mut host, name);
        host.del(attachment);
    }
    host.is_as_before(&before, &[]);
}
