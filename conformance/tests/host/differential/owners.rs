//! Two containers with one address, one after the other or at the same time in two networks, while the plugins are
//! exchanged: every order of their calls, each call by either side, with all back ends that both have.
//!
//! The rules for an address do not name the owner. Our plugins record it; the reference neither writes nor removes the
//! record, so the record is not believed after its owner has ended.

use cni_conformance::firewalld::FirewalldHost;
use cni_conformance::{Attachment, Flavour, Runtime, Sandbox, Verb, binaries, reference};
use serde_json::json;

const ADDRESS: &str = "10.88.0.5";

use Verb::{Add, Del};

/// In the last one the first container keeps running.
const ORDERS: [[(Verb, usize); 4]; 3] = [
    [(Add, 0), (Del, 0), (Add, 1), (Del, 1)],
    [(Add, 0), (Add, 1), (Del, 0), (Del, 1)],
    [(Add, 0), (Add, 1), (Del, 1), (Del, 0)],
];

/// Two containers, each in a network of its own; the flavour of iptables that keeps the rules, or none for firewalld.
fn every_order(flavour: Option<Flavour>) {
    let Some(reference) = reference::find("two containers with one address") else { return };
    let machine =
        flavour.map_or_else(FirewalldHost::with_firewalld, |flavour| FirewalldHost::on(Sandbox::with_flavour(flavour)));
    let (backend, all) = if flavour.is_some() { ("iptables", 2) } else { ("firewalld", 1) };
    let sandbox = machine.sandbox();
    let attachments = ["first", "second"].map(|name| Attachment::new(name, &sandbox.container(name)));
    let call = |(verb, at): (Verb, usize), by_reference: bool| {
        let attachment: &Attachment = &attachments[at];
        let inside =
            |word| drop(sandbox.sh(&format!("ip -n {} address {word} {ADDRESS}/32 dev lo", attachment.container_id)));
        let folder = if by_reference { reference.folder.clone() } else { binaries::under_test() };
        let firewall = json!({"type": "firewall", "backend": backend});
        let list = json!({"cniVersion": "1.0.0", "name": format!("net{at}"), "plugins": [firewall]});
        let (bus, address) = machine.bus_variable();
        let runtime = Runtime::new(sandbox, list).binaries(&folder).env(bus, address);
        let result = json!({
            "cniVersion": "1.0.0", "interfaces": [{"name": "lo", "sandbox": attachment.netns}],
            "ips": [{"interface": 0, "address": format!("{ADDRESS}/32")}],
        });
        let run = |verb| {
            runtime.invocation(verb, "firewall", attachment, Some(&result)).run().expect_success();
        };
        // The interface is there, as in a whole chain.
        if verb == Add {
            inside("add");
            run(Add);
            run(Verb::Check);
        } else {
            run(Del);
            inside("del");
        }
    };
    let rules = || match flavour {
        None => machine.sources("trusted").iter().filter(|source| source.starts_with(ADDRESS)).count(),
        Some(_) => {
            sandbox.sh("iptables -t filter -S CNI-FORWARD").lines().filter(|line| line.contains(ADDRESS)).count()
        }
    };
    for (order, sides) in ORDERS.into_iter().flat_map(|order| (0..16_usize).map(move |sides| (order, sides))) {
        for (number, step) in order.into_iter().enumerate() {
            let by_reference = sides >> number & 1 == 1;
            call(step, by_reference);
            let whole = format!("{order:?}, by the reference: {sides:04b} from the last to the first; after {step:?}");
            match (number, step.0) {
                (_, Add) => assert_eq!(rules(), all, "{whole}"),
                (3, _) => {
                    assert_eq!(rules(), 0, "{whole}");
                    assert!(by_reference || sandbox.sh("find /run -type f -path */address/*").is_empty(), "{whole}");
                }
                // Ours knows of the other one if it has made both; it is cut off otherwise, as always by the reference.
                _ if order[1].0 == Del => assert_eq!(rules(), 0, "{whole}"),
                _ if sides & 0b111 == 0 => assert_eq!(rules(), all, "{whole}"),
                _ => {}
            }
        }
    }
}

#[test]
fn one_address_has_its_rules_whichever_plugins_made_them_on_nft_iptables() {
    every_order(Some(Flavour::Nft));
}

#[test]
fn one_address_has_its_rules_whichever_plugins_made_them_on_legacy_iptables() {
    every_order(Some(Flavour::Legacy));
}

#[test]
fn one_address_is_a_source_of_firewalld_whichever_plugins_made_it() {
    every_order(None);
}
