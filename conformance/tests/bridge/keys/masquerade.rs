//! `ipMasq` with iptables, which `ipMasqBackend` also names.
//!
//! Goldens are the reference's, for network `net1` and container `id1`.

use cni_conformance::cases::for_each;
use cni_conformance::traffic::{Echo, Transport, ask};
use cni_conformance::{Attachment, Flavour, Outside, Runtime, Sandbox, State, reference};
use serde_json::{Value, json};

use crate::bridge::setup::{Port, V4, V6, ip, layer_two, network, with};

const V4_RULES: [&str; 4] = [
    "-N CNI-a19237f207ed3fa9670f34ba",
    r#"-A POSTROUTING -s 10.1.2.2/32 -m comment --comment "name: \"net1\" id: \"id1\"" -j CNI-a19237f207ed3fa9670f34ba"#,
    r#"-A CNI-a19237f207ed3fa9670f34ba -d 10.1.2.0/24 -m comment --comment "name: \"net1\" id: \"id1\"" -j ACCEPT"#,
    r#"-A CNI-a19237f207ed3fa9670f34ba ! -d 224.0.0.0/4 -m comment --comment "name: \"net1\" id: \"id1\"" -j MASQUERADE"#,
];

const V6_RULES: [&str; 4] = [
    "-N CNI-a19237f207ed3fa9670f34ba",
    r#"-A POSTROUTING -s fd00:1::2/128 -m comment --comment "name: \"net1\" id: \"id1\"" -j CNI-a19237f207ed3fa9670f34ba"#,
    r#"-A CNI-a19237f207ed3fa9670f34ba -d fd00:1::/64 -m comment --comment "name: \"net1\" id: \"id1\"" -j ACCEPT"#,
    r#"-A CNI-a19237f207ed3fa9670f34ba ! -d ff00::/8 -m comment --comment "name: \"net1\" id: \"id1\"" -j MASQUERADE"#,
];

/// Returns the rules of table nat, as a program prints them.
fn rules(state: &State, program: &str) -> Vec<String> {
    let section = state.section(&format!("{program} nat"));
    section.iter().filter(|line| !line.starts_with("-P ")).cloned().collect()
}

/// Returns those of both families.
pub fn all_rules(sandbox: &Sandbox) -> [Vec<String>; 2] {
    let state = State::of_host(sandbox);
    ["iptables", "ip6tables"].map(|program| rules(&state, program))
}

#[test]
fn ip_masq_makes_the_references_rules_for_the_families_in_use() {
    let none: &[&str] = &[];
    let v4: (&[&str], _, _) = (&[V4], &V4_RULES[..], none);
    let v6: (&[&str], _, _) = (&[V6], none, &V6_RULES[..]);
    let both: (&[&str], _, _) = (&[V4, V6], &V4_RULES[..], &V6_RULES[..]);
    for flavour in Flavour::ALL {
        for_each([("IPv4", v4), ("IPv6", v6), ("both", both)], |(subnets, in_v4, in_v6)| {
            let sandbox = Sandbox::with_flavour(flavour);
            let port = Port::new(&sandbox, "id1", network(subnets, json!({"ipMasq": true})));
            let result = port.add();
            assert_eq!(all_rules(&sandbox), [in_v4, in_v6]);
            port.check(&result);
            port.del();
            assert_eq!(all_rules(&sandbox), [none, none]);
        });
    }
}

#[test]
fn without_ip_masq_or_without_ipam_there_are_no_rules() {
    let off = network(&[V4, V6], json!({"ipMasq": false, "isGateway": true}));
    let no_ipam = layer_two(json!({"ipMasq": true, "isGateway": true}));
    for_each([("off", off), ("no ipam", no_ipam)], |config| {
        let sandbox = Sandbox::new();
        let port = Port::new(&sandbox, "id1", config);
        let result = port.add();
        assert_eq!(all_rules(&sandbox), [[""; 0], [""; 0]]);
        port.check(&result);
        port.del();
    });
}

/// The reference records nothing, and leaves these rules itself when the configuration no longer asks for them.
#[test]
fn del_removes_what_the_reference_has_made_whatever_the_configuration_asks_for_by_then() {
    let Some(reference) = reference::find("the masquerade of the reference's container") else { return };
    for flavour in Flavour::ALL {
        let sandbox = Sandbox::with_flavour(flavour);
        let list = |is_asked_for: bool| {
            let bridge = network(&[V4, V6], json!({"ipMasq": is_asked_for, "isGateway": true}));
            json!({"cniVersion": "1.0.0", "name": "net1", "plugins": [bridge]})
        };
        let containers = ["id1", "id2"].map(|name| sandbox.container(name));
        let attachments = containers.each_ref().map(|container| {
            let mut attachment = Attachment::new(container.name(), container);
            let runtime = Runtime::new(&sandbox, list(true)).binaries(&reference.folder);
            runtime.add(&mut attachment).expect_success();
            attachment
        });
        let [first, second] = ["id1", "id2"].map(|name| format!("id: \\\"{name}\\\""));
        let with =
            |mark: &str| all_rules(&sandbox).map(|rules| rules.iter().filter(|rule| rule.contains(mark)).count());
        assert_eq!([with(&first), with(&second)], [[3, 3]; 2], "{:?}", all_rules(&sandbox));
        Runtime::new(&sandbox, list(false)).del(&attachments[0]).expect_success();
        assert_eq!([with(&first), with(&second)], [[0, 0], [3, 3]], "{:?}", all_rules(&sandbox));
    }
}

#[test]
fn ip_masq_backend_is_iptables_unless_said_otherwise() {
    let backends = [
        ("absent", json!({})),
        ("null", json!({"ipMasqBackend": null})),
        ("iptables", json!({"ipMasqBackend": "iptables"})),
    ];
    for_each(backends, |keys| {
        let sandbox = Sandbox::new();
        let port = Port::new(&sandbox, "id1", with(&network(&[V4], json!({"ipMasq": true})), &keys));
        let result = port.add();
        assert_eq!(all_rules(&sandbox)[0], V4_RULES);
        assert_eq!(State::of_host(&sandbox).section("nftables"), [""; 0]);
        port.check(&result);
        port.del();
    });
}

/// A route that is not the default one decides about masquerading as little as the default one.
#[test]
fn only_what_leaves_the_network_is_masqueraded() {
    let sandbox = Sandbox::new();
    let outside = sandbox.outside();
    outside.route_to(V4);
    outside.route_to(V6);
    let reached = |keys: Value| {
        let config = with(&network(&[V4, V6], json!({"isDefaultGateway": true})), &keys);
        let [port, neighbour] = ["id1", "id2"].map(|id| Port::new(&sandbox, id, config.clone()));
        port.add();
        neighbour.add();
        let own = port.inside().addresses_of("eth0");
        let sources = |container: &cni_conformance::Namespace, servers: [&str; 2]| {
            let _servers = Echo::everywhere(container, 80);
            servers.map(|server| {
                let seen = ask(&port.container, Transport::Tcp, (ip(server), 80).into());
                seen.unwrap_or_else(|error| panic!("ask {server}: {error}")).ip().to_string()
            })
        };
        let others = neighbour.inside().addresses_of("eth0");
        let others: Vec<&str> = others.iter().filter_map(|cidr| cidr.split('/').next()).collect();
        let seen_by_neighbour = sources(&neighbour.container, [others[0], others[1]]);
        let (v4, v6) = (Outside::V4.to_string(), Outside::V6.to_string());
        let seen_outside = sources(&outside, [&v4, &v6]);
        for port in [port, neighbour] {
            port.del();
            port.container.remove();
        }
        let own = [0, 1].map(|at: usize| own[at].split('/').next().expect("an address").to_owned());
        (own, seen_by_neighbour, seen_outside)
    };
    let (own, seen_by_neighbour, seen_outside) = reached(json!({"ipMasq": true}));
    assert_eq!(seen_by_neighbour, own);
    assert_eq!(seen_outside, [Outside::HOST_V4.to_string(), Outside::HOST_V6.to_string()]);
    let (own, seen_by_neighbour, seen_outside) = reached(json!({"ipMasq": false}));
    assert_eq!((&seen_by_neighbour, &seen_outside), (&own, &own));
}

#[test]
fn del_removes_the_rules_though_ip_masq_was_switched_off_meanwhile_only_with_the_old_configuration() {
    let sandbox = Sandbox::new();
    let mut port = Port::new(&sandbox, "id1", network(&[V4], json!({"ipMasq": true})));
    port.add();
    let old = port.config.clone();
    port.config["ipMasq"] = json!(false);
    port.del();
    port.config = old;
    port.del();
    assert_eq!(all_rules(&sandbox), [[""; 0], [""; 0]]);
}
