//! DEL whatever was lost, GC, and killed ADDs.

use std::time::Duration;

use cni_conformance::cases::for_each;
use cni_conformance::odd_names::{self, ODD_NAMES};
use cni_conformance::{Attachment, ListHost, Loss, Runtime, Verb, injection, keys, leases, stand_in};
use serde_json::json;

use crate::tap::setup::{addressed, has, list};

#[test]
fn del_removes_what_add_made_whatever_was_lost_and_comes_twice() {
    for_each(Loss::ALL.map(|loss| (loss, loss)), |loss| {
        let host = ListHost::new(addressed(&json!({})));
        let (_neighbour, kept) = host.add("neighbour");
        let before = host.state_with(&[]);
        let (container, attachment) = host.add("id1");
        let request = loss.strike(&container, attachment);
        for _ in 0..2 {
            host.del(&request);
            host.is_as_before(&before, &[]);
        }
        // Where the runtime has forgotten the path, the number of the namespace leads to the device.
        let is_there = host.sandbox.exec(&["ip", "-n", "id1", "link", "show", "eth0"]).code == Some(0);
        assert!(!is_there, "the device is removed");
        host.check(&kept);
    });
}

#[test]
fn del_needs_no_key_that_add_would_accept() {
    let mut host = ListHost::new(addressed(&json!({})));
    let before = host.state_with(&[]);
    let (container, attachment) = host.add("id1");
    keys::set(&mut host.list["plugins"][0], &json!({"mtu": -1, "mac": "zz", "bridge": "gone"}));
    host.del(&attachment);
    host.is_as_before(&before, &[]);
    assert!(!has(&container, "eth0"));
}

/// The reference removes any interface of the name.
#[test]
fn del_leaves_an_interface_that_is_another_ones() {
    let host = ListHost::new(list(&json!({})));
    let (container, attachment) = host.add("id1");
    container.sh("ip link del eth0");
    container.sh("ip link add eth0 type bridge");
    host.del(&attachment);
    assert!(has(&container, "eth0"));
}

/// tuning has set the MAC address back when the DEL of tap comes, and the result still tells tuning's.
#[test]
fn del_removes_a_device_whose_mac_address_has_changed() {
    let tuned = json!({"type": "tuning", "mac": "02:00:00:00:00:0a"});
    for_each([("by tuning", Some(tuned)), ("by the container", None)], |tuning| {
        for keys in [addressed(&json!({})), list(&json!({}))] {
            let mut host = ListHost::new(keys);
            host.list["plugins"].as_array_mut().expect("plugins").extend(tuning.clone());
            let (_neighbour, _) = host.add("neighbour");
            let before = host.state();
            let (container, attachment) = host.add("id1");
            if tuning.is_none() {
                container.sh("ip link set eth0 address 02:00:00:00:00:0b");
            }
            host.del(&attachment);
            assert!(!has(&container, "eth0"), "{}", host.list);
            host.is_as_before(&before, &[]);
        }
    });
}

#[test]
fn del_removes_a_device_under_any_name_that_the_kernel_allows() {
    for_each(ODD_NAMES, |name| {
        let host = ListHost::new(addressed(&json!({})));
        let before = host.state();
        let (container, attachment) = host.add("id1");
        odd_names::rename(&container, "eth0", name);
        host.del(&attachment);
        assert_eq!(container.sh("ip -o link show type tun"), "");
        host.is_as_before(&before, &[]);
    });
}

/// Otherwise another container would get the addresses of a device that still exists.
#[test]
fn the_addresses_stay_reserved_while_the_device_cannot_be_removed() {
    let host = ListHost::new(addressed(&json!({})));
    let (container, attachment) = host.add("id1");
    let call = host.runtime().invocation(Verb::Del, "tap", &attachment, attachment.result.as_ref());
    assert_eq!(injection::outside_namespaces(&call).run().error().code, 8);
    assert!(has(&container, "eth0"));
    assert_eq!(leases::of_network("/run/cni", "net1").len(), 2);
    host.del(&attachment);
    assert_eq!(leases::of_network("/run/cni", "net1"), [""; 0]);
}

/// The reference calls IPAM first, and stops if that fails, so device and address stay.
#[test]
fn the_device_is_gone_before_the_address_is_released_even_if_that_fails() {
    let answer = r#"{"cniVersion": "1.0.0", "ips": [{"address": "10.1.2.5/24", "gateway": "10.1.2.1"}]}"#;
    let host = ListHost::new(list(&json!({"ipam": {"type": "fake"}})));
    let folder = stand_in::install(
        "fake",
        &format!(
            "if [ $CNI_COMMAND = ADD ]; then echo '{answer}'; exit 0; fi\n\
         ip -n id1 -o link show type tun > /run/conformance/links\n\
         echo '{{\"code\": 114, \"msg\": \"no server\"}}'\nexit 1\n"
        ),
    );
    let runtime = Runtime::new(&host.sandbox, host.list.clone()).binaries(&folder);
    let container = host.sandbox.container("id1");
    let mut attachment = Attachment::new("id1", &container);
    runtime.add(&mut attachment).expect_success();
    runtime.del(&attachment).expect_error("tap", 114, "no server");
    assert_eq!(host.sandbox.sh("cat /run/conformance/links"), "", "no device while the address is released");
    assert!(!has(&container, "eth0"));
}

#[test]
fn del_takes_away_what_a_killed_add_has_left() {
    let host = ListHost::new(addressed(&json!({})));
    let container = host.sandbox.container("id1");
    let before = host.state_with(&[&container]);
    let attachment = Attachment::new("id1", &container);
    for time in [1, 2, 3, 5, 8, 20] {
        let call = host.runtime().invocation(Verb::Add, "tap", &attachment, None);
        call.killed_after(Duration::from_millis(time)).run();
        host.del(&attachment);
        host.is_as_before(&before, &[&container]);
    }
}

#[test]
fn gc_has_the_ipam_plugin_release_what_no_valid_attachment_has() {
    let host = ListHost::new(addressed(&json!({})));
    let (_kept, valid) = host.add("kept");
    let before = host.state_with(&[]);
    let (lost, _) = host.add("lost");
    lost.remove();
    host.runtime().gc(&[&valid]).expect_success();
    host.is_as_before(&before, &[]);
    host.check(&valid);
}
