//! CHECK: what the delegate made is there, and the lease still has the addresses.

use std::fs;

use cni_conformance::cases::for_each;
use serde_json::json;

use crate::flannel::setup::{DUAL, LEASE, file, foreign, given, host, host_with, remove_lease, write_lease};

#[test]
fn what_the_delegate_misses_fails_check() {
    for_each(
        [
            ("the default route", "ip route del default"),
            ("the address", "ip address flush dev eth0"),
            ("the interface", "ip link del eth0"),
        ]
        .map(|case| (case.0, case.1)),
        |line| {
            let host = host();
            let (container, attachment) = host.add("c1");
            host.check(&attachment);
            container.sh(line);
            let chain = host.runtime().check(&attachment);
            assert!(!chain.succeeded(), "CHECK must fail");
            assert!([100, 101].contains(&chain.step("flannel").error().code), "{chain}");
        },
    );
}

#[test]
fn a_lease_that_has_changed_fails_check() {
    for (lease, changed, address) in [
        (LEASE, LEASE.replace("10.42.1.1", "10.42.7.1"), "10.42.1.2"),
        (DUAL, DUAL.replace("fd00:42:0:1::1", "fd00:42:0:7::1"), "fd00:42:0:1::2"),
    ] {
        let host = host_with(lease, &json!({}));
        let (_container, attachment) = host.add("c1");
        host.check(&attachment);
        write_lease(&changed);
        let text = format!("{address} is not in the lease of this host any more");
        host.runtime().check(&attachment).expect_error("flannel", 100, &text);
        write_lease(lease);
        host.check(&attachment);
    }
}

#[test]
fn a_lease_or_a_state_file_that_is_missing_does_not() {
    let host = host();
    let (_container, attachment) = host.add("c1");
    remove_lease();
    host.check(&attachment);
    write_lease(LEASE);
    fs::remove_file(file("c1")).expect("the state file");
    host.check(&attachment);
    remove_lease();
    host.runtime().check(&attachment).expect_error("flannel", 100, "no state of the container");
}

#[test]
fn the_delegate_gets_what_add_gave_it_and_the_result() {
    let mut host = host();
    host.list["plugins"][0]["delegate"] = json!({"type": "foreign"});
    let folder = foreign("[ $CNI_COMMAND = ADD ] && echo '{\"cniVersion\": \"1.1.0\", \"dns\": {}}'; exit 0\n");
    let runtime = host.runtime().binaries(&folder);
    let container = host.sandbox.container("c1");
    let mut attachment = cni_conformance::Attachment::new("c1", &container);
    runtime.add(&mut attachment).expect_success();
    write_lease(&LEASE.replace("1450", "1300"));
    runtime.check(&attachment).expect_success();
    let mut checked = given("CHECK");
    let result = checked.as_object_mut().expect("an object").remove("prevResult");
    assert_eq!((checked, result), (given("ADD"), attachment.result));
}
