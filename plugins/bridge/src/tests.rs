//! The whole life of a container's interface, on a machine in memory.

use super::*;
use cni_core::request::Command;
use cni_model::plan::Ns;
use cni_plugin::attachment_record::AttachmentRecord;
use cni_plugin::host::{Host as _, LinkQuery};
use cni_testkit::{Caller, FakeContainer, FakeHost, lifecycle};

/// What of the bridge's keys makes another plan.
const WAYS: [&str; 6] = [
    r#""isGateway":true,"ipMasq":true,"ipMasqBackend":"iptables""#,
    r#""isGateway":true,"ipMasq":true,"ipMasqBackend":"nftables","macspoofchk":true"#,
    r#""isDefaultGateway":true,"promiscMode":true,"mtu":1400"#,
    r#""isGateway":true,"vlan":5,"ipMasq":true"#,
    r#""vlanTrunk":[{"minID":20,"maxID":22}],"enabledad":true"#,
    r#""portIsolation":true"#,
];

fn netns(container: &str) -> String {
    format!("/run/netns/{container}")
}

fn caller(container: &str, keys: &str) -> Caller {
    let ipam = r#""ipam":{"type":"host-local"}"#;
    Caller::new(
        container,
        &format!(r#"{{"cniVersion":"1.1.0","name":"net1","type":"bridge","bridge":"br0",{ipam},{keys}}}"#),
    )
}

fn layer_two(container: &str) -> Caller {
    Caller::new(container, r#"{"cniVersion":"1.1.0","name":"net1","type":"bridge","bridge":"br0"}"#)
}

/// What the IPAM plugin gives the container of a number.
fn answer(number: u8) -> String {
    format!(
        r#"{{"cniVersion":"1.1.0","ips":[{{"address":"10.1.2.{number}/24"}},{{"address":"fd00::{number}/64"}}],
            "routes":[{{"dst":"0.0.0.0/0"}}]}}"#
    )
}

/// A machine with another container on the bridge, and one that is to come.
fn with_neighbour(neighbour: &Caller) -> FakeHost {
    let mut host = FakeHost::new().with_ipam(&answer(2));
    for container in ["neighbour", "ctr1"] {
        host.set_container(&netns(container), FakeContainer::Present(None));
    }
    neighbour.add(&Bridge, &mut host).expect("the neighbour is added");
    host.set_ipam(&answer(5));
    host
}

#[test]
fn del_removes_what_add_made() {
    for keys in WAYS {
        let mut host = with_neighbour(&caller("neighbour", keys));
        lifecycle::assert_del_removes_what_add_made(&Bridge, &mut host, &caller("ctr1", keys));
    }
    let mut host = with_neighbour(&layer_two("neighbour"));
    lifecycle::assert_del_removes_what_add_made(&Bridge, &mut host, &layer_two("ctr1"));
}

#[test]
fn an_ipam_plugin_that_fails_add_is_called_with_del() {
    for keys in WAYS {
        let machine = || with_neighbour(&caller("neighbour", keys));
        lifecycle::assert_failed_ipam_is_released(&Bridge, machine, &caller("ctr1", keys));
    }
}

/// The IPAM plugin is asked when the interface is there, which is no sign of an earlier ADD.
#[test]
fn an_ipam_plugin_that_speaks_by_the_link_is_called_with_del_as_well() {
    let caller = |container: &str| {
        let keys = r#""type":"bridge","bridge":"br0","ipam":{"type":"dhcp"}"#;
        Caller::new(container, &format!(r#"{{"cniVersion":"1.1.0","name":"net1",{keys}}}"#))
    };
    lifecycle::assert_failed_ipam_is_released(&Bridge, || with_neighbour(&caller("neighbour")), &caller("ctr1"));
}

#[test]
fn an_ipam_plugin_that_fails_a_second_add_is_not_called_with_del() {
    let mut host = with_neighbour(&caller("neighbour", WAYS[0]));
    lifecycle::assert_second_add_keeps_addresses(&Bridge, &mut host, &caller("ctr1", WAYS[0]));
}

#[test]
fn an_add_that_fails_at_any_step_leaves_nothing() {
    for keys in WAYS {
        let machine = || with_neighbour(&caller("neighbour", keys));
        let steps = lifecycle::assert_add_is_all_or_nothing(&Bridge, machine, &caller("ctr1", keys));
        assert!(steps > 12, "{keys}: {steps} steps");
    }
    let machine = || with_neighbour(&layer_two("neighbour"));
    assert_eq!(lifecycle::assert_add_is_all_or_nothing(&Bridge, machine, &layer_two("ctr1")), 9);
}

/// The runtime has lost the first namespace, or the second network gives the interface the same name.
#[test]
fn a_second_add_that_is_rolled_back_leaves_the_rules_of_the_first_one() {
    for keys in [WAYS[0], WAYS[1]] {
        let first = caller("ctr1", keys);
        let elsewhere = Caller { netns: netns("elsewhere"), ..first.clone() };
        let network = elsewhere.with_config(&first.config.replace("net1", "net2"));
        for second in [elsewhere, network] {
            let host = &mut with_neighbour(&caller("neighbour", keys));
            host.set_container(&netns("elsewhere"), FakeContainer::Present(None));
            lifecycle::assert_a_repeated_add_is_rolled_back(&Bridge, host, &first, &second);
        }
    }
}

#[test]
fn del_removes_what_add_made_whatever_the_configuration_asks_for_by_then() {
    for keys in WAYS {
        for later in ["\"mtu\":0", WAYS[0], WAYS[1], WAYS[2]] {
            let mut host = with_neighbour(&caller("neighbour", keys));
            let before = host.state();
            caller("ctr1", keys).add(&Bridge, &mut host).expect("ADD");
            caller("ctr1", later).del(&Bridge, &mut host).expect("DEL");
            assert_eq!(host.state(), before, "{keys} and then {later}");
        }
    }
}

#[test]
fn gc_removes_rules_and_records_whatever_the_configuration_asks_for_by_then() {
    for keys in [WAYS[0], WAYS[1]] {
        let mut host = with_neighbour(&caller("neighbour", keys));
        let before = host.state();
        caller("ctr1", keys).add(&Bridge, &mut host).expect("ADD");
        host.fail_delegate(Some(Command::Gc));
        let valid = r#""cni.dev/valid-attachments":[{"containerID":"neighbour","ifname":"eth0"}]"#;
        caller("ctr1", valid).gc(&Bridge, &mut host).expect_err("IPAM fails");
        let left: Vec<String> = host.state().into_iter().filter(|line| !before.contains(line)).collect();
        assert_eq!(left, [format!("lease {}", answer(5))], "{keys}");
    }
}

/// As after an ADD of the reference, which records nothing and sets no alias. Only firewall is ours, and records the
/// attachment.
fn forget_who_made_it(host: &mut FakeHost) {
    let records = AttachmentRecord::all(&mut host.records).expect("records");
    host.records.clear();
    for record in records {
        host.apply(&AttachmentRecord { maker: "firewall".to_owned(), ..record }.write()).expect("a record");
    }
    let links = host.links(Ns::Host, LinkQuery::Kind("veth")).expect("links");
    for link in links.iter().filter(|link| link.alias.as_deref().is_some_and(|alias| alias.contains(":ctr1:"))) {
        host.change_link(Ns::Host, &link.name, |link| link.alias = None);
    }
}

const MASQUERADES: [&str; 2] = [WAYS[0], r#""isGateway":true,"ipMasq":true,"ipMasqBackend":"nftables""#];

#[test]
fn del_removes_the_masquerade_of_the_reference_that_is_no_longer_asked_for() {
    for keys in MASQUERADES {
        for is_gone in [false, true] {
            let mut host = with_neighbour(&caller("neighbour", keys));
            let before = host.netfilter.dump();
            let added = caller("ctr1", keys).after_add(&Bridge, &mut host);
            forget_who_made_it(&mut host);
            if is_gone {
                host.set_container(&netns("ctr1"), FakeContainer::Gone);
            }
            let later = added.with_config(&added.config.replace(r#""ipMasq":true"#, r#""ipMasq":false"#));
            later.del(&Bridge, &mut host).expect("DEL");
            assert_eq!(host.netfilter.dump(), before, "{keys}, gone: {is_gone}");
        }
    }
}

/// A machine on which a container has an interface, and is about to get a second one.
fn with_first_interface(keys: &str) -> (FakeHost, Caller) {
    let mut host = with_neighbour(&caller("neighbour", keys));
    caller("ctr1", keys).add(&Bridge, &mut host).expect("the first ADD");
    host.set_ipam(&answer(6));
    (host, Caller { ifname: "eth1".to_owned(), ..caller("ctr1", keys) })
}

#[test]
fn del_leaves_the_masquerade_of_another_interface_that_the_reference_has_made() {
    for keys in MASQUERADES {
        for number in 0..16 {
            let [is_own, is_asked_for, has_result, is_lost] = [1, 2, 4, 8].map(|bit| number & bit != 0);
            if is_lost && !is_own && !has_result {
                continue; // Nothing tells the two interfaces apart.
            }
            let (mut host, second) = with_first_interface(keys);
            let before = host.netfilter.dump();
            if is_own {
                forget_who_made_it(&mut host);
            }
            let added = second.after_add(&Bridge, &mut host);
            if !is_own {
                forget_who_made_it(&mut host);
            }
            let later = if has_result { added } else { second };
            let key = format!(r#""ipMasq":{is_asked_for}"#);
            let later = later.with_config(&later.config.replace(r#""ipMasq":true"#, &key));
            let later = if is_lost { Caller { netns: String::new(), ..later } } else { later };
            later.del(&Bridge, &mut host).expect("DEL");
            let case = format!(
                "{keys}, by this plugin: {is_own}, asked for: {is_asked_for}, with a result: {has_result}, \
                 without a namespace: {is_lost}"
            );
            assert_eq!(host.netfilter.dump(), before, "{case}");
        }
    }
}

/// Without the namespace, the host's ends of the veths say which addresses another interface of the container has.
#[test]
fn del_without_a_namespace_leaves_the_masquerade_of_the_containers_other_interface() {
    for keys in MASQUERADES {
        let (mut host, second) = with_first_interface(keys);
        let before = host.netfilter.dump();
        second.add(&Bridge, &mut host).expect("the second ADD");
        Caller { netns: String::new(), ..second }.del(&Bridge, &mut host).expect("DEL");
        let after = host.netfilter.dump();
        let missing: Vec<&str> = before.lines().filter(|line| !after.contains(line)).collect();
        assert_eq!(missing, [""; 0], "{keys}");
        assert!(!after.contains("10.1.2.6"), "{after}");
    }
}

/// The reference's names of the check do not contain the network.
#[test]
fn each_network_has_a_check_of_its_own_for_the_same_name() {
    let first = caller("ctr1", WAYS[1]);
    let second = Caller { netns: netns("elsewhere"), ..first.with_config(&first.config.replace("net1", "net2")) };
    for [one, other] in [[&first, &second], [&second, &first]] {
        let mut host = with_neighbour(&caller("neighbour", WAYS[1]));
        host.set_container(&netns("elsewhere"), FakeContainer::Present(None));
        one.add(&Bridge, &mut host).expect("ADD in one network");
        let with_one = host.netfilter.dump();
        other.add(&Bridge, &mut host).expect("ADD in the other");
        other.del(&Bridge, &mut host).expect("DEL in the other");
        assert_eq!(host.netfilter.dump(), with_one);
        other.add(&Bridge, &mut host).expect("ADD in the other");
        one.del(&Bridge, &mut host).expect("DEL in one network");
        assert_eq!(host.netfilter.nftables.dump().matches("\tdrop comment \"macspoofchk-").count(), 2);
        other.del(&Bridge, &mut host).expect("DEL in the other");
        assert_eq!(host.netfilter.nftables.dump().matches("macspoofchk-").count(), 4, "the neighbour's");
    }
}

/// Whatever the runtime has forgotten or lost.
#[test]
fn del_finds_the_rest_when_the_namespace_is_gone_or_closed() {
    for gone in [FakeContainer::Gone, FakeContainer::Closed] {
        for keys in WAYS {
            let mut host = with_neighbour(&caller("neighbour", keys));
            let closed = gone == FakeContainer::Closed;
            let before: Vec<String> = host.state().into_iter().filter(|line| !line.contains("ctr1")).collect();
            caller("ctr1", keys).add(&Bridge, &mut host).expect("ADD");
            host.set_container(&netns("ctr1"), gone.clone());
            let deleted = caller("ctr1", keys).del(&Bridge, &mut host);
            assert_eq!(deleted.is_err(), closed, "a namespace that cannot be entered is reported");
            if closed {
                assert!(
                    host.delegated().last().is_some_and(|call| call.ends_with("ADD")),
                    "the addresses stay reserved"
                );
                host.set_container(&netns("ctr1"), FakeContainer::Present(None));
                caller("ctr1", keys).del(&Bridge, &mut host).expect("DEL");
            }
            let left: Vec<String> = host.state().into_iter().filter(|line| !line.contains("ctr1 ")).collect();
            assert_eq!(left, before, "{keys}");
        }
    }
}

/// One part that fails does not keep the others.
#[test]
fn del_goes_on_behind_whatever_fails() {
    let keys = WAYS[1];
    let mut host = with_neighbour(&caller("neighbour", keys));
    let before = host.state();
    caller("ctr1", keys).add(&Bridge, &mut host).expect("ADD");
    host.fail_delegate(Some(Command::Del));
    let error = caller("ctr1", keys).del(&Bridge, &mut host).expect_err("IPAM fails");
    assert_eq!(error.to_string(), "host-local has failed");
    let left: Vec<String> = host.state().into_iter().filter(|line| !before.contains(line)).collect();
    assert_eq!(left, [format!("lease {}", answer(5))]);
    host.fail_delegate(None);
    caller("ctr1", keys).del(&Bridge, &mut host).expect("the second DEL");
    assert_eq!(host.state(), before);
}
