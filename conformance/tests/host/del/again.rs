//! ADD that comes again for the same container, at another address.

use cni_conformance::{Flavour, State, Verb};
use serde_json::{Value, json};

use crate::del::del_host::{DelHost, FIRST, asking_for};

const OTHER: [&str; 2] = ["172.26.64.9", "fd00:a110:c8::9"];

fn dnat_rules(state: &State) -> Vec<&String> {
    let sections = ["iptables nat", "ip6tables nat"].into_iter().flat_map(|section| state.section(section));
    sections.filter(|line| line.contains("-j DNAT")).collect()
}

/// Moves a result to the other addresses.
fn moved(result: &Value) -> Value {
    let mut result = result.clone();
    result["ips"][0]["address"] = json!(format!("{}/20", OTHER[0]));
    result["ips"][1]["address"] = json!(format!("{}/120", OTHER[1]));
    result
}

/// Go appends the new rules after the old ones, which catch all packets.
#[test]
fn portmap_replaces_the_ports_of_a_container_that_moved() {
    for flavour in Flavour::ALL {
        let machine = DelHost::dual_stack(flavour);
        let attached = machine.add("moves", 8080);
        let old = attached.attachment.result.as_ref().expect("the guest is attached");
        assert_eq!(dnat_rules(&machine.host()).len(), 4);
        let new = moved(old);
        machine.runtime().invocation(Verb::Add, "portmap", &attached.attachment, Some(&new)).run().expect_success();
        let after = machine.host();
        let rules = dnat_rules(&after);
        assert_eq!(rules.len(), 4, "{rules:#?}");
        let lead_to = |rule: &str| {
            OTHER.iter().any(|address| rule.contains(&format!("{address}:")) || rule.contains(&format!("[{address}]:")))
        };
        assert!(rules.iter().all(|rule| lead_to(rule)), "{rules:#?}");
    }
}

#[test]
fn portmap_replaces_ports_that_changed() {
    for flavour in Flavour::ALL {
        let machine = DelHost::dual_stack(flavour);
        let attached = machine.add("changes", 8080);
        let changed = machine.describe(&attached.container, 8181);
        let result = attached.attachment.result.as_ref();
        machine.runtime().invocation(Verb::Add, "portmap", &changed, result).run().expect_success();
        let nat = machine.host().section("iptables nat").join("\n");
        assert!(nat.contains("--dport 8181") && nat.contains("--dports 8181"), "{nat}");
        assert!(!nat.contains("8080"), "{nat}");
    }
}

/// Nomad makes a new namespace when CHECK failed, and adds the same allocation without a DEL.
#[test]
fn a_container_that_is_added_again_at_another_address_leaves_nothing_of_the_old_one() {
    for flavour in Flavour::ALL {
        let machine = DelHost::dual_stack(flavour);
        let before = machine.host();
        let mut attached = machine.add("again", 8080);
        attached.die();
        let again = machine.add_with("again", 8080, &asking_for(OTHER[0]));
        let state = machine.host();
        let stale: Vec<_> = dnat_rules(&state).into_iter().filter(|rule| rule.contains(FIRST[0])).collect();
        assert!(stale.is_empty(), "{stale:#?}");
        machine.serves(&again);
        machine.runtime().del(&again.attachment).expect_success();
        machine.skeleton().assert_nothing_else(&before, || machine.host());
    }
}
