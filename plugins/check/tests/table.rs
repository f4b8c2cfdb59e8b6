//! Lists as runtimes write them have no finding; each broken list has its own.

#![expect(clippy::disallowed_methods, reason = "the lists are files")]

mod broken;

use std::fs;
use std::path::Path;

use broken::{BROKEN, Broken};
use cni_check::{judge, overlaps, schema};

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
    assert!(judged >= 12, "{judged} lists");
}

#[test]
fn each_broken_list_has_its_finding() {
    let in_schema = BROKEN.iter().filter(|broken| broken.in_schema).count();
    assert!(in_schema >= 40, "{in_schema} lists");
    let mut different = Vec::new();
    for Broken { list, finding, .. } in BROKEN {
        let found: Vec<String> = judge(&broken::whole(list)).findings.iter().map(ToString::to_string).collect();
        if found != [*finding] {
            different.push(format!("{list}\n  wanted {finding}\n  found  {}", found.join("\n         ")));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}

#[test]
fn networks_that_share_addresses_are_named() {
    let of = |name: &str, subnet: &str| {
        let text = format!(
            r#"{{"name":"{name}","type":"ptp","ipam":{{"type":"host-local","ranges":[[{{"subnet":"{subnet}"}}]]}}}}"#
        );
        judge(&text).ranges.expect("ranges")
    };
    let (one, other) = (of("a", "10.88.0.0/16"), of("b", "10.88.7.0/24"));
    let finding = overlaps(&one, &other).expect("a finding").to_string();
    assert_eq!(
        finding,
        "network \"b\", ipam.ranges[0][0]: 10.88.7.0/24 and 10.88.0.0/16 of network \"a\" have addresses in common; give each \
         network its own subnet"
    );
    assert_eq!(overlaps(&one, &of("a", "10.88.7.0/24")), None);
    assert_eq!(overlaps(&one, &of("c", "fd00::/64")), None);
}

/// `conformance/tests/admin/check.rs` shows that a validator of another project agrees with it.
#[test]
fn the_schema_is_an_object_with_a_definition_for_each_plugin() {
    let schema = schema::schema();
    for name in cni_catalog::NAMES {
        assert!(schema["$defs"][name].is_object(), "{name}");
    }
}
