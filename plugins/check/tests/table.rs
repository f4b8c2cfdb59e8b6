//! Lists as runtimes write them have no finding; each broken list has its own.

#![expect(clippy::disallowed_methods, reason = "the lists are files")]

mod broken;

use std::fs;
use std::path::Path;

use broken::Broken;
use cni_check::{Finding, judge, schema};

#[test]
fn lists_of_runtimes_and_of_the_reference_have_no_finding() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lists");
    let mut judged = 0;
    for entry in fs::read_dir(folder).expect("list the lists") {
        let path = entry.expect("an entry").path();
        let text = fs::read_to_string(&path).expect("read a list");
        assert_eq!(judge(&text).findings, [], "{}", path.display());
        judged += 1;
    }
    assert!(judged >= 30, "{judged} lists");
}

#[test]
fn each_broken_list_has_its_finding() {
    let in_schema = broken::all().filter(|broken| broken.in_schema).count();
    assert!(in_schema >= 40, "{in_schema} lists");
    let mut different = Vec::new();
    for Broken { list, finding, .. } in broken::all() {
        let found: Vec<String> = judge(&broken::whole(list)).findings.iter().map(ToString::to_string).collect();
        if found != [finding] {
            different.push(format!("{list}\n  wanted {finding}\n  found  {}", found.join("\n         ")));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}

/// The findings in the second of two lists of one host.
fn compared(lists: [&str; 2]) -> Vec<String> {
    let [earlier, own] = lists.map(|list| judge(list).network);
    own.conflicts(&earlier).iter().map(Finding::to_string).collect()
}

#[test]
fn networks_that_share_addresses_are_named() {
    let of = |name: &str, subnet: &str| {
        format!(
            r#"{{"name":"{name}","type":"ptp","ipam":{{"type":"host-local","ranges":[[{{"subnet":"{subnet}"}}]]}}}}"#
        )
    };
    let with_first = |other: &str| compared([&of("a", "10.88.0.0/16"), other]);
    let finding = "network \"b\", ipam.ranges[0][0]: 10.88.7.0/24 and 10.88.0.0/16 of network \"a\" have addresses in common; give \
                   each network its own subnet";
    assert_eq!(with_first(&of("b", "10.88.7.0/24")), [finding]);
    assert!(with_first(&of("a", "10.88.7.0/24")).is_empty() && with_first(&of("c", "fd00::/64")).is_empty());
}

#[test]
fn one_bridge_with_two_gateways_is_named() {
    let of = |name: &str, keys: &str, range: &str| {
        format!(r#"{{"name":"{name}","type":"bridge",{keys},"ipam":{{"type":"host-local","ranges":[[{{{range}}}]]}}}}"#)
    };
    let ours = of("a", r#""isGateway":true"#, r#""subnet":"10.1.0.0/24""#);
    let says = |gateway: &str| {
        format!(
            "network \"b\", bridge: cni0 gets the gateway {gateway} here and 10.1.0.1/24 in network \"a\", and ADD \
             refuses the second; name another bridge, or give both networks the same gateway"
        )
    };
    let found = |keys: &str, range: &str| compared([&ours, &of("b", keys, range)]);
    let (gateway, other) = (r#""isGateway":true"#, r#""subnet":"10.2.0.0/24""#);
    for keys in [gateway, r#""bridge":"cni0","isDefaultGateway":true"#, r#""isGateway":true,"forceAddress":true"#] {
        assert_eq!(found(keys, other), [says("10.2.0.1/24")], "{keys}");
    }
    assert_eq!(found(gateway, r#""subnet":"10.2.0.0/24","gateway":"10.2.0.254""#), [says("10.2.0.254/24")]);
    for (gateway, want) in [("", "10.2.0.1/24"), (r#","gateway":"10.2.0.9""#, "10.2.0.9/24")] {
        let ipam = format!(r#"{{"type":"static","addresses":[{{"address":"10.2.0.5/24"{gateway}}}]}}"#);
        let fixed = format!(r#"{{"name":"b","type":"bridge","isGateway":true,"ipam":{ipam}}}"#);
        assert_eq!(compared([&ours, &fixed]), [says(want)]);
    }
    for keys in [r#""bridge":"br1","isGateway":true"#, r#""ipMasq":true"#, r#""isGateway":true,"vlan":5"#] {
        assert!(found(keys, other).is_empty(), "{keys}");
    }
    assert!(found(gateway, r#""subnet":"fd00::/64""#).is_empty(), "the other family");
    let upper = r#""subnet":"10.1.0.0/24","rangeStart":"10.1.0.128""#;
    let lower = of("a", gateway, r#""subnet":"10.1.0.0/24","rangeEnd":"10.1.0.127""#);
    assert!(compared([&lower, &of("b", gateway, upper)]).is_empty(), "the same gateway");
    let forced =
        ["a", "b"].map(|name| of(name, r#""isGateway":true,"forceAddress":true"#, r#""subnet":"10.1.0.0/24""#));
    assert_eq!(compared([&forced[0], &forced[1].replace("10.1.", "10.2.")]), [""; 0], "both replace it");
}

#[test]
fn the_example_of_the_readme_serves_every_runtime() {
    let readme = include_str!("../../../README.md");
    let (_, example) = readme.split_once("```json\n").expect("an example");
    let judgement = judge(example.split("```").next().expect("its end"));
    assert_eq!((judgement.findings, judgement.network.loopback_down()), (vec![], None));
    assert_eq!(judgement.network.name, "bridge-net");
}

#[test]
fn a_list_that_leaves_lo_to_the_runtime_is_known() {
    let is_down = |list: &str| judge(&broken::whole(list)).network.loopback_down().is_some();
    assert!(is_down(r#"[{"type": "bridge"}, {"type": "portmap"}]"#) && is_down(r#"[{"type": "flannel"}]"#));
    for list in [r#"[{"type": "bridge"}, {"type": "loopback"}]"#, r#"[{"type": "cilium-cni"}, {"type": "portmap"}]"#] {
        assert!(!is_down(list), "{list}");
    }
}

/// `conformance/tests/admin/check.rs` shows that a validator of another project agrees with it.
#[test]
fn the_schema_is_an_object_with_a_definition_for_each_plugin() {
    let schema = schema::schema();
    for name in cni_catalog::NAMES {
        assert!(schema["$defs"][name].is_object(), "{name}");
    }
}
