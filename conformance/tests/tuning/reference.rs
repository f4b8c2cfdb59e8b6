//! Our DEL restores what the reference has changed, and the reference's DEL what we have changed.

use std::io::{Write, stderr};
use std::path::PathBuf;

use cni_conformance::Verb::{Add, Check, Del};
use cni_conformance::binaries;
use serde_json::{Value, json};

use crate::tuning::setup::{BACKUP, Tuned, file};

/// The reference's plugins: those of `CNI_REFERENCE_DIR`, or Debian's.
fn reference() -> Option<PathBuf> {
    let folder = binaries::reference().unwrap_or_else(|| PathBuf::from("/usr/lib/cni"));
    let found = folder.join("tuning").is_file();
    if !found {
        let text = "NOT COMPARED: tuning: install Debian's containernetworking-plugins or set CNI_REFERENCE_DIR";
        writeln!(stderr(), "{text}").expect("write to stderr");
    }
    found.then_some(folder)
}

/// Keys that v1.1.1 has as well: the queue came later.
fn rows() -> [Value; 4] {
    [
        json!({"mac": "02:00:00:00:00:0a", "promisc": true, "mtu": 1400, "allmulti": true}),
        json!({"mtu": 1400}),
        json!({"allmulti": false, "mac": "02:00:00:00:00:0b"}),
        json!({"promisc": true, "dataDir": "/run/other"}),
    ]
}

fn place(keys: &Value) -> String {
    let folder = keys["dataDir"].as_str();
    folder.map_or_else(|| BACKUP.to_owned(), |folder| BACKUP.replace("/run/cni/tuning", folder))
}

#[test]
fn both_make_the_same_of_the_interface_and_write_the_same_file() {
    let Some(reference) = reference() else { return };
    for keys in rows() {
        let seen = [reference.clone(), binaries::under_test()].map(|folder| {
            let tuned = Tuned::new();
            let result = tuned.call(Add, &keys).binaries(&folder).run().result();
            let reported = result["interfaces"][1]["mac"].clone();
            (tuned.properties(), file(&place(&keys)), reported)
        });
        assert_eq!(seen[0], seen[1], "{keys}");
    }
}

#[test]
fn each_sets_back_what_the_other_has_changed() {
    let Some(reference) = reference() else { return };
    let ours = binaries::under_test();
    for keys in rows() {
        for (adds, deletes) in [(&ours, &reference), (&reference, &ours)] {
            let tuned = Tuned::new();
            let before = tuned.properties();
            tuned.call(Add, &keys).binaries(adds).run().expect_success();
            assert_ne!((tuned.properties(), file(&place(&keys))), (before.clone(), None));
            for checks in [&ours, &reference] {
                tuned.call(Check, &keys).binaries(checks).run().expect_success();
            }
            tuned.call(Del, &keys).binaries(deletes).run().expect_success();
            assert_eq!((tuned.properties(), file(&place(&keys))), (before, None), "{keys}");
        }
    }
}

/// Ours keeps what the reference's ADD has found, also where ours comes again in between.
#[test]
fn an_add_of_ours_over_one_of_the_reference_keeps_what_was_before() {
    let Some(reference) = reference() else { return };
    let tuned = Tuned::new();
    let before = tuned.properties();
    tuned.call(Add, &json!({"mtu": 1400})).binaries(&reference).run().expect_success();
    tuned.call(Add, &json!({"mtu": 1300, "txQLen": 5})).run().expect_success();
    assert_eq!(file(BACKUP), Some((0o600, "{\n \"mtu\": 1500,\n \"txQLen\": 1000\n}".to_owned())));
    tuned.call(Del, &json!({})).run().expect_success();
    assert_eq!(tuned.properties(), before);
}
