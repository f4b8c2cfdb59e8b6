//! Leases of a few seconds: renewed, lost, and continued after a restart of the daemon.

use cni_conformance::{Container, Network};
use serde_json::json;

use crate::dhcp::setup::{FIRST, Lan, Server, end, list, until};

const SHORT: u32 = 6;

/// The reference asks everybody, and by no address.
#[test]
fn a_lease_is_prolonged_by_its_server() {
    let lan = Lan::new(Server::Isc(SHORT), list(&json!({})));
    let (container, attachment) = lan.add("c1");
    lan.await_log("DHCPACK", 3);
    assert_eq!(lan.log().matches("DHCPDISCOVER").count(), 1);
    assert!(lan.log().contains(&format!("DHCPREQUEST for {FIRST} from")), "{}", lan.log());
    assert!(Network::observe(&container).link("eth0").expect("eth0").up);
    lan.check(&attachment);
    lan.del(&attachment);
    lan.await_log("DHCPRELEASE", 1);
}

/// The reference forgets all leases, and has new ones given by the next CHECK.
#[test]
fn a_daemon_that_is_started_again_goes_on_with_its_leases() {
    for signal in ["TERM", "KILL"] {
        let mut lan = Lan::new(Server::Isc(SHORT), list(&json!({})));
        let (_container, attachment) = lan.add("c1");
        end(&mut lan.daemon, signal);
        lan.start_again();
        // Before any CHECK, which would ask for the address of a lease that is forgotten.
        lan.await_log("DHCPACK", 3);
        lan.check(&attachment);
        assert_eq!(lan.log().matches("DHCPDISCOVER").count(), 1, "{}", lan.log());
        assert!(!lan.log().contains("DHCPRELEASE"));
        lan.del(&attachment);
        lan.await_log("DHCPRELEASE", 1);
    }
}

/// Another host may have the address from then on. The reference hangs on the next CHECK.
#[test]
fn a_lease_that_no_server_prolongs_takes_the_interface_down_and_fails_check() {
    let lan = Lan::with_flags(Server::Isc(SHORT), list(&json!({})), &["-timeout", "1s", "-resendtimeout=2s"]);
    let (container, attachment) = lan.add("c1");
    lan.server.sh("ip link set srv0 down");
    until(|| !Network::observe(&container).link("eth0").expect("eth0").up, || "the end of the lease".to_owned());
    let says = format!("the lease of {FIRST} has ended, and no DHCP server has prolonged it");
    lan.runtime().check(&attachment).expect_error("macvlan", 100, &says);
    assert!(lan.records().is_empty());
    lan.server.sh("ip link set srv0 up");
    lan.del(&attachment);
    let (_, attachment) = lan.add("c2");
    lan.del(&attachment);
}

#[test]
fn a_lease_of_a_namespace_that_has_ended_is_dropped_and_keeps_none_alive() {
    let lan = Lan::new(Server::Isc(SHORT), list(&json!({})));
    let (container, attachment) = lan.add("c1");
    remove_and_wait(&lan, &container);
    until(|| lan.records().is_empty(), || "the end of the lease".to_owned());
    lan.del(&attachment);
}

/// Removes a container, and waits until the kernel has ended its namespace: one that lives would keep its end of a pair alive, and so the
/// other end.
fn remove_and_wait(lan: &Lan, container: &Container) {
    lan.sandbox.sh(&format!("ip link add proof type veth peer name inside netns {}", container.name()));
    container.remove();
    until(|| !lan.sandbox.sh("ip -o link").contains("proof"), || "the end of the namespace".to_owned());
}

/// A daemon that was away while the namespace ended. No renewal, which would find that out too, is due for minutes.
#[test]
fn what_ended_while_the_daemon_was_away_is_forgotten() {
    let mut lan = Lan::new(Server::Isc(600), list(&json!({})));
    let (container, attachment) = lan.add("c1");
    end(&mut lan.daemon, "TERM");
    remove_and_wait(&lan, &container);
    assert_eq!(lan.records().len(), 1);
    lan.start_again();
    until(|| lan.records().is_empty(), || "the daemon to forget the lease".to_owned());
    lan.del(&attachment);
}
