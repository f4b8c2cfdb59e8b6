//! The file with the former properties of the interface: byte for byte the reference's, and readable only by root.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};

use cni_conformance::Verb::{Add, Check, Del};
use cni_conformance::state::assert_same;
use serde_json::json;

use crate::tuning::setup::{BACKUP, FIRST_MAC, Properties, Tuned, file};

#[test]
fn it_tells_what_was_changed_and_goes_with_del() {
    let tuned = Tuned::new();
    let all = json!({"mac": "02:00:00:00:00:0a", "promisc": true, "mtu": 1400, "allmulti": true, "txQLen": 500});
    let text = format!(
        "{{\n \"mac\": \"{FIRST_MAC}\",\n \"promisc\": false,\n \"mtu\": 1500,\n \"allmulti\": false,\n \"txQLen\": 1000\n}}"
    );
    for (keys, want) in [
        (all, text.as_str()),
        (json!({"mtu": 1400}), "{\n \"mtu\": 1500\n}"),
        (json!({"txQLen": 5, "allmulti": false}), "{\n \"allmulti\": false,\n \"txQLen\": 1000\n}"),
    ] {
        tuned.succeeds(&[Add], &keys);
        assert_eq!(file(BACKUP), Some((0o600, want.to_owned())));
        tuned.succeeds(&[Del], &keys);
        assert_eq!(file(BACKUP), None);
    }
    let mode = fs::metadata("/run/cni/tuning").expect("the folder").permissions().mode();
    assert_eq!(mode & 0o7777, 0o700);
}

#[test]
fn nothing_is_written_where_nothing_is_changed() {
    let tuned = Tuned::new();
    let before = tuned.state();
    for keys in [json!({}), json!({"mac": "", "mtu": 0, "promisc": false, "allmulti": null, "sysctl": {}})] {
        tuned.succeeds(&[Add, Check], &keys);
        assert_eq!(file(BACKUP), None);
        tuned.succeeds(&[Del], &keys);
        assert_same(&before, &tuned.state());
    }
}

#[test]
fn data_dir_says_where_it_is() {
    let tuned = Tuned::new();
    for folder in ["/run/a/b", "/run/cni/tuning/", "/run/a/../c"] {
        let keys = json!({"mtu": 1400, "dataDir": folder});
        tuned.succeeds(&[Add], &keys);
        assert_eq!(file(&format!("{folder}/c1_eth0.json")), Some((0o600, "{\n \"mtu\": 1500\n}".to_owned())));
        tuned.succeeds(&[Del], &keys);
        assert_eq!((tuned.properties().mtu, file(&format!("{folder}/c1_eth0.json"))), (1500, None));
    }
}

/// A folder that is there belongs to others too: neither its mode nor their files change.
#[test]
fn a_folder_that_is_there_stays_as_it_is() {
    let tuned = Tuned::new();
    fs::create_dir("/run/open").expect("make a folder");
    fs::set_permissions("/run/open", fs::Permissions::from_mode(0o1777)).expect("set its mode");
    fs::write("/run/open/draft-0123456789abcdef", "somebody's").expect("write a file");
    let before = tuned.state();
    let keys = json!({"mtu": 1400, "dataDir": "/run/open"});
    tuned.succeeds(&[Add, Del], &keys);
    assert_same(&before, &tuned.state());
}

/// The reference saves what is tuned already, so that DEL sets nothing back.
#[test]
fn a_second_add_keeps_what_was_before_the_first() {
    let tuned = Tuned::new();
    let before = tuned.properties();
    let first = json!({"mtu": 1400, "mac": "02:00:00:00:00:0a"});
    let second = json!({"mtu": 1300, "allmulti": true});
    tuned.succeeds(&[Add, Add], &first);
    tuned.succeeds(&[Add], &second);
    let mac = "02:00:00:00:00:0a".to_owned();
    let want = Properties { mac, mtu: 1300, all_multicast: true, ..before.clone() };
    assert_eq!(tuned.properties(), want);
    let text = format!("{{\n \"mac\": \"{FIRST_MAC}\",\n \"mtu\": 1500,\n \"allmulti\": false\n}}");
    assert_eq!(file(BACKUP), Some((0o600, text)));
    tuned.succeeds(&[Del], &second);
    assert_eq!(tuned.properties(), before);
}

#[test]
fn a_second_add_with_another_data_dir_moves_the_file() {
    let tuned = Tuned::new();
    let (first, second) = (json!({"mtu": 1400, "dataDir": "/run/a"}), json!({"mtu": 1300, "dataDir": "/run/b"}));
    tuned.succeeds(&[Add], &first);
    let before = tuned.state();
    let refused = json!({"mtu": 70_000, "dataDir": "/run/b"});
    tuned.run(Add, &refused).expect_error(101, "MTU");
    assert_same(&before, &tuned.state());
    tuned.succeeds(&[Add], &second);
    let text = "{\n \"mtu\": 1500\n}".to_owned();
    assert_eq!((file("/run/a/c1_eth0.json"), file("/run/b/c1_eth0.json")), (None, Some((0o600, text.clone()))));
    // The same directory by another name is no move.
    symlink("/run/b", "/run/c").expect("make a link");
    tuned.succeeds(&[Add], &json!({"mtu": 1300, "dataDir": "/run/c"}));
    assert_eq!(file("/run/b/c1_eth0.json"), Some((0o600, text)));
    tuned.succeeds(&[Del], &second);
    assert_eq!((tuned.properties().mtu, file("/run/b/c1_eth0.json")), (1500, None));
}

/// Otherwise a user who can write into the folder could redirect root's output by a link.
#[test]
fn a_link_in_its_place_is_not_followed() {
    let tuned = Tuned::new();
    fs::write("/run/victim", "{\n \"mtu\": 900\n}").expect("write a file");
    fs::create_dir("/run/cni/tuning").expect("make a folder");
    symlink("/run/victim", BACKUP).expect("make a link");
    let before = tuned.state();
    tuned.run(Add, &json!({"mtu": 1400})).expect_error(5, BACKUP);
    assert_same(&before, &tuned.state());
    tuned.succeeds(&[Del], &json!({}));
    assert_eq!((tuned.properties().mtu, fs::symlink_metadata(BACKUP).is_err()), (1500, true));
    assert!(file("/run/victim").is_some(), "the link went, and not what it leads to");
}

#[test]
fn another_users_file_is_not_believed() {
    let tuned = Tuned::new();
    fs::create_dir("/run/cni/tuning").expect("make a folder");
    fs::write(BACKUP, "{\n \"mtu\": 900\n}").expect("write a file");
    chown(BACKUP, Some(65534), None).expect("give it away");
    tuned.run(Add, &json!({"mtu": 1400})).expect_error(5, "it belongs to user 65534");
    tuned.succeeds(&[Del], &json!({}));
    assert_eq!((tuned.properties().mtu, file(BACKUP)), (1500, None));
}

#[test]
fn a_folder_that_cannot_be_made_is_named_and_nothing_is_changed() {
    let tuned = Tuned::new();
    fs::write("/run/plain", "").expect("write a file");
    let before = tuned.state();
    let keys = json!({"mtu": 1400, "sysctl": {"net.core.somaxconn": "500"}, "dataDir": "/run/plain/x"});
    tuned.run(Add, &keys).expect_error(5, "/run/plain");
    assert_same(&before, &tuned.state());
    assert_eq!(tuned.properties().mtu, 1500);
}
