//! DEL whatever was lost, and GC.

use std::time::Duration;

use cni_conformance::cases::for_each;
use cni_conformance::{Attachment, Container, ListHost, Loss, Network, Runtime, Verb, injection, leases, stand_in};
use serde_json::json;

use crate::ptp::setup::{V4, V6, host_end, left_nothing_since, network, state, with_ipam};

/// What else goes away.
#[derive(Clone, Copy)]
enum Missing {
    OneOfAll(Loss),
    HostEnd,
    /// The key, and the namespace.
    Masquerade,
}

impl Missing {
    fn strike(self, host: &mut ListHost, container: &Container, request: Attachment) -> Attachment {
        match self {
            Self::OneOfAll(loss) => return loss.strike(container, request),
            Self::HostEnd => drop(host.sandbox.sh(&format!("ip link del {}", host_end(&request)))),
            Self::Masquerade => {
                host.list["plugins"][0]["ipMasq"] = json!(false);
                container.remove();
            }
        }
        request
    }
}

#[test]
fn del_removes_what_add_made_whatever_was_lost_and_comes_twice() {
    let all = Loss::ALL.into_iter().map(|loss| (loss.to_string(), Missing::OneOfAll(loss)));
    let own = [("the host's end", Missing::HostEnd), ("the key of the masquerade", Missing::Masquerade)];
    let cases: Vec<(String, Missing)> = all.chain(own.map(|(name, gone)| (name.to_owned(), gone))).collect();
    for backend in ["iptables", "nftables"] {
        for_each(cases.iter().map(|(name, gone)| (format!("{backend}, {name}"), *gone)), |gone| {
            let mut host = ListHost::new(network(&[V4, V6], &json!({"ipMasq": true, "ipMasqBackend": backend})));
            let (_neighbour, kept) = host.add("neighbour");
            let before = state(&host);
            let (container, attachment) = host.add("id1");
            let request = gone.strike(&mut host, &container, attachment);
            for _ in 0..2 {
                host.del(&request);
                left_nothing_since(&before, &host);
            }
            host.list["plugins"][0]["ipMasq"] = json!(true);
            host.check(&kept);
        });
    }
}

/// Otherwise another container would get the addresses of an interface that may still exist.
#[test]
fn the_addresses_stay_reserved_while_the_namespace_cannot_be_searched() {
    let host = ListHost::new(network(&[V4, V6], &json!({})));
    let (_container, attachment) = host.add("id1");
    let call = host.runtime().invocation(Verb::Del, "ptp", &attachment, attachment.result.as_ref());
    assert_eq!(injection::outside_namespaces(&call).run().error().code, 8);
    assert_eq!(leases::of_network("/run/cni", "net1").len(), 2);
    host.del(&attachment);
    assert_eq!(leases::of_network("/run/cni", "net1"), [""; 0]);
}

/// The reference calls IPAM first, and stops if that fails, so link and address stay.
#[test]
fn the_pair_is_gone_before_the_address_is_released_even_if_that_fails() {
    let answer = r#"{"cniVersion": "1.0.0", "ips": [{"address": "10.1.2.5/24", "gateway": "10.1.2.1"}]}"#;
    let host = ListHost::new(with_ipam(&json!({"type": "fake"}), &json!({"ipMasq": true})));
    let before = state(&host);
    let folder = stand_in::install(
        "fake",
        &format!(
            "if [ $CNI_COMMAND = ADD ]; then echo '{answer}'; exit 0; fi\n\
         ip -o link show type veth > /run/conformance/links\n\
         echo '{{\"code\": 114, \"msg\": \"no server\"}}'\nexit 1\n"
        ),
    );
    let runtime = Runtime::new(&host.sandbox, host.list.clone()).binaries(&folder);
    let container = host.sandbox.container("id1");
    let mut attachment = Attachment::new("id1", &container);
    runtime.add(&mut attachment).expect_success();
    runtime.del(&attachment).expect_error("ptp", 114, "no server");
    assert_eq!(host.sandbox.sh("cat /run/conformance/links"), "", "no veth while the address is released");
    // The record of the attachment stays for the next DEL.
    let list = with_ipam(&json!({"type": "static"}), &json!({"ipMasq": true}));
    Runtime::new(&host.sandbox, list).del(&attachment).expect_success();
    left_nothing_since(&before, &host);
}

#[test]
fn del_takes_away_what_a_killed_add_has_left() {
    let host = ListHost::new(network(&[V4, V6], &json!({"ipMasq": true})));
    let before = state(&host);
    let container = host.sandbox.container("id1");
    let attachment = Attachment::new("id1", &container);
    for time in [2, 5, 8, 12, 20] {
        let call = host.runtime().invocation(Verb::Add, "ptp", &attachment, None);
        call.killed_after(Duration::from_millis(time)).run();
        host.del(&attachment);
        left_nothing_since(&before, &host);
        assert_eq!(Network::observe(&container).link("eth0"), None);
    }
}

#[test]
fn gc_removes_what_belongs_to_no_valid_attachment() {
    for backend in ["iptables", "nftables"] {
        let mut list = network(&[V4, V6], &json!({"ipMasq": true, "ipMasqBackend": backend}));
        list["cniVersion"] = json!("1.1.0");
        let host = ListHost::new(list);
        let (_kept, valid) = host.add("kept");
        let before = state(&host);
        let (container, _) = host.add("lost");
        host.runtime().gc(&[&valid]).expect_success();
        left_nothing_since(&before, &host);
        assert_eq!(Network::observe(&container).link("eth0"), None);
        host.check(&valid);
    }
}

/// A pair of the reference, which sets no alias.
#[test]
fn a_pair_without_an_alias_is_removed_by_its_name() {
    let host = ListHost::new(network(&[V4], &json!({"ipMasq": true})));
    let before = state(&host);
    let (_container, attachment) = host.add("id1");
    host.sandbox.host().must(&["ip", "link", "set", host_end(&attachment), "alias", ""]);
    host.del(&attachment);
    left_nothing_since(&before, &host);
}
