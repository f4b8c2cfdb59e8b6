//! ADDs that fail leave nothing behind.

use cni_conformance::cases::for_each;
use cni_conformance::{Attachment, ListHost, Runtime, Verb, stand_in};
use serde_json::json;

use crate::tap::setup::{addressed, list};

/// The reference uses an existing link of this name: it sets it up, and adds the addresses to it.
#[test]
fn a_taken_name_is_refused_and_its_link_is_unchanged() {
    for kind in ["type bridge", "type veth peer name far"] {
        let host = ListHost::new(addressed(&json!({})));
        let container = host.sandbox.container("id1");
        container.sh(&format!("ip link add eth0 {kind}"));
        let before = host.state_with(&[&container]);
        let chain = host.runtime().add(&mut Attachment::new("id1", &container));
        chain.expect_error("tap", 103, "failed to create tap: file exists");
        host.is_as_before(&before, &[&container]);
    }
}

#[test]
fn a_second_add_is_refused_and_the_first_stays() {
    let host = ListHost::new(addressed(&json!({})));
    let (container, attachment) = host.add("id1");
    let before = host.state_with(&[&container]);
    let chain = host.runtime().add(&mut Attachment::new("id1", &container));
    chain.expect_error("tap", 103, "failed to create tap: file exists");
    host.is_as_before(&before, &[&container]);
    host.check(&attachment);
}

/// The reference leaves the device.
#[test]
fn a_failure_after_the_device_is_created_leaves_nothing() {
    let mut full = addressed(&json!({}));
    full["plugins"][0]["ipam"]["ranges"] =
        json!([[{"subnet": "10.1.2.0/24", "rangeEnd": "10.1.2.1", "gateway": "10.1.2.1"}]]);
    let mut old = list(&json!({}));
    old["cniVersion"] = json!("0.2.0");
    let cases = [
        ("no address is free", (full, 102, "no IP addresses available")),
        ("no such IPAM plugin", (list(&json!({"ipam": {"type": "none"}})), 104, "failed to find plugin")),
        ("a version that needs an address", (old, 2, "cannot convert: no valid IP addresses")),
        ("a missing bridge", (list(&json!({"bridge": "nobr"})), 7, "failed to get bridge nobr: Link not found")),
        (
            "a link that is not a bridge",
            (list(&json!({"bridge": "lo"})), 7, "failed to set tap as a port of bridge lo: it is no bridge"),
        ),
        ("a small MTU", (list(&json!({"mtu": 67})), 7, "invalid mtu 67")),
        ("a large MTU", (list(&json!({"mtu": 65522})), 7, "invalid mtu 65522")),
        ("nobody", (list(&json!({"owner": 4_294_967_295_u32})), 7, "invalid owner 4294967295")),
    ];
    for_each(cases, |(list, code, says)| {
        let host = ListHost::new(list);
        let container = host.sandbox.container("id1");
        let before = host.state_with(&[&container]);
        let chain = host.runtime().add(&mut Attachment::new("id1", &container));
        chain.expect_error("tap", code, says);
        host.is_as_before(&before, &[&container]);
    });
}

#[test]
fn an_unusable_answer_of_ipam_leaves_nothing() {
    let cases = [
        ("no addresses", ("{}", 7, "IPAM plugin returned missing IP config")),
        ("null among them", (r#"{"cniVersion": "1.0.0", "ips": [null]}"#, 6, "fake returned an invalid result")),
        ("no JSON", ("garbage", 6, "failed to unmarshal raw result of fake")),
    ];
    for_each(cases, |(answer, _code, says)| {
        let host = ListHost::new(list(&json!({"ipam": {"type": "fake"}})));
        let folder = stand_in::install("fake", &format!("[ $CNI_COMMAND = DEL ] || echo '{answer}'\n"));
        let container = host.sandbox.container("id1");
        let before = host.state_with(&[&container]);
        let chain = Runtime::new(&host.sandbox, host.list.clone())
            .binaries(&folder)
            .add(&mut Attachment::new("id1", &container));
        let error = chain.step("tap").error();
        assert!(format!("{}: {}", error.msg, error.details).contains(says), "{chain}");
        host.is_as_before(&before, &[&container]);
    });
}

#[test]
fn where_the_driver_is_missing_add_and_status_say_so() {
    let host = ListHost::new(list(&json!({})));
    let container = host.sandbox.container("id1");
    let attachment = Attachment::new("id1", &container);
    host.runtime().status().expect_success();
    // Otherwise the program `mount` would create it, and the host's state would differ.
    std::fs::create_dir_all("/run/mount").expect("a directory");
    let hide = ["unshare", "--mount", "sh", "-c", "mount -t tmpfs none /dev/net && exec \"$0\" \"$@\""];
    let call = |verb| host.runtime().invocation(verb, "tap", &attachment, None).launched_by(&hide).run();
    let before = host.state_with(&[&container]);
    let error = call(Verb::Add).expect_error(2, "failed to create tap: no such file or directory");
    assert!(error.details.contains("load the module tun"), "{}", error.details);
    call(Verb::Status).expect_error(50, "/dev/net/tun does not exist, load the module tun");
    host.is_as_before(&before, &[&container]);
}
