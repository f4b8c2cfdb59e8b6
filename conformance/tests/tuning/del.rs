//! DEL succeeds whatever was lost: the namespace, the interface, the result, the file, half of an ADD.

use std::fs;

use cni_conformance::Verb::{Add, Del};
use cni_conformance::cases::for_each;
use cni_conformance::state::{assert_same, diff};
use cni_conformance::{Loss, State, killed};
use serde_json::{Value, json};

use crate::tuning::setup::{BACKUP, Properties, Tuned, file};

fn everything() -> Value {
    json!({
        "mac": "02:00:00:00:00:0a", "promisc": true, "mtu": 1400, "allmulti": true, "txQLen": 500,
        "sysctl": {"net.core.somaxconn": "500", "net.ipv4.conf.IFNAME.rp_filter": "1"},
    })
}

/// After the first time the folder of the files is there.
fn with_folder() -> Tuned {
    let tuned = Tuned::new();
    fs::create_dir("/run/cni/tuning").expect("make the folder");
    tuned
}

#[test]
fn del_leaves_everything_as_it_was_and_comes_twice() {
    let tuned = with_folder();
    let (before, interface) = (tuned.state(), tuned.properties());
    let parameter = tuned.parameter("net/core/somaxconn");
    tuned.succeeds(&[Add], &everything());
    for keys in [everything(), everything(), json!({"prevResult": null})] {
        tuned.succeeds(&[Del], &keys);
        assert_same(&before, &tuned.state());
        assert_eq!((tuned.properties(), tuned.parameter("net/core/somaxconn")), (interface.clone(), parameter.clone()));
    }
}

/// The reference makes the name of its file of the ID, whatever its length.
#[test]
fn a_container_id_of_any_length_is_added_and_deleted() {
    for length in [250, 400, 246, 245] {
        let tuned = with_folder();
        let (before, interface) = (tuned.state(), tuned.properties());
        let call =
            |verb| tuned.call(verb, &json!({"mtu": 1400, "txQLen": 500})).container_id(&"c".repeat(length)).run();
        call(Add).expect_success();
        assert_eq!(tuned.properties().mtu, 1400);
        for _ in 0..2 {
            call(Del).expect_success();
            assert_same(&before, &tuned.state());
            assert_eq!(tuned.properties(), interface);
        }
    }
}

/// What was configured does not matter, since ADD has written down what it changed.
#[test]
fn del_needs_nothing_of_the_configuration_and_nothing_of_the_result() {
    for keys in [
        json!({"prevResult": null}),
        json!({"prevResult": {"cniVersion": "0.4.0"}}),
        json!({"prevResult": 7}),
        json!({"mtu": "x", "sysctl": 7, "mac": "zz", "args": 1}),
    ] {
        let tuned = with_folder();
        let (before, interface) = (tuned.state(), tuned.properties());
        tuned.succeeds(&[Add], &everything());
        tuned.succeeds(&[Del], &keys);
        assert_same(&before, &tuned.state());
        assert_eq!(tuned.properties(), interface, "{keys}");
    }
}

/// The reference reads the whole configuration, and fails.
#[test]
fn del_sets_the_interface_back_whatever_became_of_the_configuration() {
    let keys = json!({"mtu": 1400, "mac": "02:00:00:00:00:0a"});
    for (args, wrong) in
        [("", json!({"mtu": "x"})), ("", json!({"mac": 1})), ("FOO", json!({})), ("K8S_POD_NAME=x", json!({}))]
    {
        let tuned = with_folder();
        let (before, interface) = (tuned.state(), tuned.properties());
        tuned.succeeds(&[Add], &keys);
        tuned.call(Del, &wrong).args(args).run().expect_success();
        assert_eq!(tuned.properties(), interface);
        assert_same(&before, &tuned.state());
    }
}

/// nerdctl calls DEL without a namespace. The reference leaves the file then.
#[test]
fn whatever_was_lost_the_files_go_and_del_comes_twice() {
    for_each(Loss::ALL.map(|loss| (loss, loss)), |loss| {
        let tuned = with_folder();
        let before = State::of_host(&tuned.sandbox);
        tuned.succeeds(&[Add], &everything());
        let del = tuned.del_after(loss, &everything());
        for _ in 0..2 {
            del.run().expect_success();
            let mut left = diff(&before, &State::of_host(&tuned.sandbox));
            left.retain(|line| line.contains("files: "));
            assert!(left.is_empty(), "{left:?}");
        }
    });
}

#[test]
fn without_the_file_del_succeeds_and_parameters_are_restored() {
    for broken in [Some("{\n \"mtu\": 15"), Some(""), Some("[]"), Some("{\"mac\": \"zz\", \"mtu\": -1}"), None] {
        let tuned = with_folder();
        let parameter = tuned.parameter("net/core/somaxconn");
        tuned.succeeds(&[Add], &everything());
        match broken {
            None => fs::remove_file(BACKUP).expect("remove the file"),
            Some(text) => fs::write(BACKUP, text).expect("tear the file"),
        }
        tuned.succeeds(&[Del, Del], &everything());
        assert_eq!((tuned.properties().mtu, file(BACKUP)), (1400, None), "{broken:?}");
        assert_eq!(tuned.parameter("net/core/somaxconn"), parameter);
    }
}

/// A property that cannot be restored does not prevent the others; the file stays for the next DEL.
#[test]
fn every_property_that_can_be_restored_is_restored() {
    let tuned = with_folder();
    tuned.succeeds(&[Add], &everything());
    fs::write(BACKUP, "{\n \"mac\": \"01:00:5e:00:00:01\",\n \"mtu\": 1500,\n \"txQLen\": 1000\n}")
        .expect("change the file");
    let outcome = tuned.run(Del, &everything());
    outcome.expect_success();
    assert!(outcome.stderr().contains("could not be set back"), "{outcome}");
    let link = tuned.properties();
    assert_eq!((link.mtu, link.queue, link.mac.as_str()), (1500, 1000, "02:00:00:00:00:0a"));
    assert!(file(BACKUP).is_some());
}

/// A runtime has no result of an ADD that was killed. Whenever that was, DEL leaves what was before.
#[test]
fn del_takes_away_what_a_killed_add_made() {
    let state = |tuned: &Tuned| (tuned.state(), tuned.properties(), tuned.parameter("net/core/somaxconn"));
    let then = |tuned: &Tuned, before: &(State, Properties, String)| {
        tuned.succeeds(&[Del], &json!({"prevResult": null}));
        let after = state(tuned);
        assert_same(&before.0, &after.0);
        assert_eq!((&after.1, &after.2), (&before.1, &before.2));
    };
    killed::at_each_moment(24, with_folder, |tuned| tuned.call(Add, &everything()), state, then);
}

/// A container that comes again under its name has another interface, which the old file does not describe.
#[test]
fn what_a_lost_container_left_does_not_describe_the_next_one() {
    let tuned = with_folder();
    tuned.succeeds(&[Add], &everything());
    tuned.container.remove();
    let again = tuned.sandbox.container("c1");
    tuned.sandbox.sh("ip link add host9 type veth peer name eth0 netns c1");
    again.sh("ip link set eth0 mtu 9000");
    tuned.succeeds(&[Add], &json!({"mtu": 1400}));
    assert_eq!(file(BACKUP), Some((0o600, "{\n \"mtu\": 9000\n}".to_owned())));
    tuned.succeeds(&[Del], &json!({}));
    assert_eq!(tuned.properties().mtu, 9000);
}
