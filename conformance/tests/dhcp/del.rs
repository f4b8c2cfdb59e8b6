//! DEL whatever was lost, GC, STATUS, and killed ADDs.

use std::time::Duration;

use cni_conformance::cases::for_each;
use cni_conformance::{Attachment, Loss, Network, Verb};
use serde_json::json;

use crate::dhcp::setup::{Lan, Server, end, list, newest, until};

/// It needs no key that ADD would accept. Where the network was renamed, it comes late under the former name too.
#[test]
fn del_forgets_the_lease_whatever_was_lost_and_comes_twice() {
    for_each(Loss::ALL.iter().chain(&Loss::OF_LISTS).map(|loss| (loss, *loss)), |loss| {
        let mut lan = Lan::new(Server::Dnsmasq(&[]), list(&json!({})));
        let (container, attachment) = lan.add("c1");
        let request = loss.strike(&container, attachment);
        if loss == Loss::NameAndNetns {
            lan.sandbox.end(&container);
        }
        lan.list["plugins"][0]["ipam"]["provide"] = json!([{"option": "zz"}]);
        for name in [if Loss::OF_LISTS.contains(&loss) { "renamed" } else { "lan" }, "lan"] {
            lan.list["name"] = json!(name);
            lan.del(&request);
            assert!(lan.records().is_empty());
        }
    });
}

/// The reference fails, and the interface stays.
#[test]
fn del_succeeds_without_the_daemon_and_the_lease_does_not_come_back() {
    let mut lan = Lan::new(Server::Dnsmasq(&[]), list(&json!({})));
    let (container, attachment) = lan.add("c1");
    end(&mut lan.daemon, "KILL");
    lan.del(&attachment);
    assert!(Network::observe(&container).link("eth0").is_none());
    assert!(lan.records().is_empty());
    lan.start_again();
    let (_, next) = lan.add("c2");
    assert_eq!(next.result.expect("a result")["ips"][0]["address"], "10.1.2.51/24", "the server keeps the lease");
    assert!(!lan.log().contains("DHCPRELEASE"), "{}", lan.log());
    assert_eq!(lan.records().len(), 1);
}

#[test]
fn without_the_daemon_add_check_and_status_say_so() {
    let mut lan = Lan::new(Server::Dnsmasq(&[]), newest(list(&json!({}))));
    lan.runtime().status().expect_success();
    let (_container, attachment) = lan.add("c1");
    end(&mut lan.daemon, "KILL");
    let says = "error dialing DHCP daemon: no daemon answers at /run/cni/dhcp.sock";
    let error = lan.runtime().status().expect_error("macvlan", 50, says);
    assert!(error.details.contains("start it by \"dhcp daemon\""), "{}", error.details);
    lan.runtime().check(&attachment).expect_error("macvlan", 104, says);
    lan.runtime().gc(&[]).expect_success();
    assert_eq!(lan.records().len(), 1);
    let (container, _, chain) = lan.try_to_add("c2");
    chain.expect_error("macvlan", 104, says);
    assert!(Network::observe(&container).link("eth0").is_none());
}

#[test]
fn an_add_that_is_killed_or_fails_leaves_no_lease() {
    let lan = Lan::new(Server::Dnsmasq(&[]), list(&json!({})));
    let container = lan.sandbox.container("c1");
    let attachment = Attachment::new("c1", &container);
    for time in [2, 5, 10, 20, 40, 80] {
        let call = lan.runtime().invocation(Verb::Add, "macvlan", &attachment, None);
        call.killed_after(Duration::from_millis(time)).run();
        lan.del(&attachment);
        assert!(lan.records().is_empty(), "{time}");
        assert!(Network::observe(&container).link("eth0").is_none(), "{time}");
    }
    let call = lan.runtime().invocation(Verb::Add, "macvlan", &attachment, None);
    let outcome = call.launched_by(&["/bin/sh", "-c", "exec \"$0\" > /dev/full"]).run();
    assert_eq!(outcome.code(), Some(1), "{outcome}");
    until(|| lan.records().is_empty(), || "the lease to go".to_owned());
    lan.await_log("DHCPRELEASE", 1);
}

#[test]
fn gc_releases_what_no_valid_attachment_has() {
    let lan = Lan::new(Server::Dnsmasq(&[]), newest(list(&json!({}))));
    let (_kept, valid) = lan.add("kept");
    let (_lost, _) = lan.add("lost");
    lan.runtime().gc(&[&valid]).expect_success();
    lan.await_log("DHCPRELEASE", 1);
    assert_eq!(lan.records().len(), 1);
    lan.check(&valid);
}
