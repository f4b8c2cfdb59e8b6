//! A route of the host to an address that is given again. The reference keeps the old one, so that the new container is
//! cut off and its packets go to the old.

use std::process::Command;
use std::time::Duration;

use cni_conformance::traffic::ping;
use cni_conformance::{Attachment, ListHost, Network};
use serde_json::json;

use crate::ptp::setup::{fixed, host_end, ip, left_nothing_since, state};

fn host() -> ListHost {
    ListHost::new(fixed(&json!([{"address": "10.1.2.5/24", "gateway": "10.1.2.1"}]), &json!([])))
}

/// What is left of the reference's ADD that failed after its routes were made: no lease, and no alias.
#[test]
fn the_route_that_a_failed_add_of_the_reference_left_gives_way() {
    let host = host();
    let (_old, failed) = host.add("old");
    host.sandbox.host().must(&["ip", "link", "set", host_end(&failed), "alias", ""]);
    let (container, attachment) = host.add("new");
    container.sh("ip link set eth0 address 02:00:00:00:00:0a");
    assert!(ping(host.sandbox.host(), "10.1.2.5".parse().expect("an address"), Duration::from_secs(20)));
    let neighbours = host.sandbox.sh("ip neighbour");
    assert!(neighbours.contains("02:00:00:00:00:0a"), "the new container has answered: {neighbours}");
    host.del(&attachment);
    assert_eq!(Network::observe(&container).link("eth0"), None);
}

/// What the reference has made looks the same if its ADD has not failed, but then a process is there.
#[test]
fn the_route_of_a_container_of_the_reference_stays() {
    let host = host();
    let (old, used) = host.add("old");
    let end = host_end(&used);
    host.sandbox.host().must(&["ip", "link", "set", end, "alias", ""]);
    let mut process = old.run(|| Command::new("sleep").arg("1000").spawn().expect("start sleep"));
    let routes = ip(host.sandbox.host(), "route");
    let said = format!("address 10.1.2.5 is in use: the host has a route to it by \"{end}\"");
    let chain = host.try_to_add("new");
    let details = &chain.expect_error("ptp", 103, &said).details;
    assert!(details.starts_with("a process uses that link: /proc/"), "{details}");
    assert_eq!(ip(host.sandbox.host(), "route"), routes);
    process.kill().expect("kill sleep");
    process.wait().expect("wait for sleep");
    host.add("newer");
}

#[test]
fn an_address_that_another_container_uses_is_refused() {
    let host = host();
    let (_old, used) = host.add("old");
    let routes = ip(host.sandbox.host(), "route");
    let chain = host.try_to_add("new");
    let error = chain.expect_error("ptp", 103, "address 10.1.2.5 is in use");
    assert!(error.details.contains("cni:net1:old:eth0"), "{}", error.details);
    assert_eq!(ip(host.sandbox.host(), "route"), routes);
    host.check(&used);
}

/// The veth stays for a moment after its namespace has gone.
#[test]
fn the_address_of_a_container_that_is_gone_is_given_again() {
    let host = host();
    let (old, _) = host.add("old");
    old.remove();
    let (_container, attachment) = host.add("new");
    host.check(&attachment);
}

#[test]
fn an_address_that_an_administrator_routes_elsewhere_is_refused() {
    let host = host();
    host.sandbox.sh("ip link add up0 type bridge");
    host.sandbox.sh("ip link set up0 up");
    host.sandbox.sh("ip route add 10.1.2.5 dev up0");
    let before = state(&host);
    host.try_to_add("new").expect_error(
        "ptp",
        103,
        "address 10.1.2.5 is in use: the host has a route to it by \"up0\"",
    );
    left_nothing_since(&before, &host);
}

/// Nomad drops the name of a namespace whose task goes on, and comes with another one.
#[test]
fn the_containers_own_address_in_a_namespace_that_lives_is_not_given_to_another_namespace() {
    let host = host();
    let (old, attachment) = host.add("id1");
    let mut task = old.run(|| Command::new("sleep").arg("1000").spawn().expect("start sleep"));
    let container = host.sandbox.container("again");
    let mut again = Attachment::new("id1", &container);
    host.runtime().add(&mut again).expect_error("ptp", 105, "static has given 10.1.2.5, which id1 already has");
    host.check(&attachment);
    task.kill().expect("kill sleep");
    task.wait().expect("wait for sleep");
}
