//! What the original makes is ours to check and to remove, and the other way round. Its commands are run by hand: it has no
//! releases.

use cni_conformance::{Attachment, ListHost, Verb};
use serde_json::json;

use super::setup::{PLUGIN, add_as_the_original, del_as_the_original, details, has, list, traffic_control};

/// What `ip` shows of the device, without what no plugin chooses and without our label.
fn shown(container: &cni_conformance::Container) -> Vec<String> {
    let text = details(container, "tap0").replace(" addrgenmode none ", " addrgenmode eui64 ");
    let unlike =
        |line: &&str| !line.contains("link/ether") && !line.trim().starts_with("alias") && !line.contains("tap0:");
    text.lines().filter(unlike).map(|line| line.trim().to_owned()).collect()
}

#[test]
fn both_make_the_same_of_the_kernel() {
    let ours = ListHost::new(list(&json!({})));
    let (container, _) = ours.add("id1");
    let made = ["tap0", "eth0"].map(|link| traffic_control(&container, link));
    let device = shown(&container);
    drop((container, ours));

    let mut originals = list(&json!({}));
    originals["plugins"].as_array_mut().expect("plugins").pop();
    let host = ListHost::new(originals);
    let (container, attachment) = host.add("id1");
    add_as_the_original(&container, &attachment, attachment.result.as_ref().expect("a result"));
    assert_eq!(["tap0", "eth0"].map(|link| traffic_control(&container, link)), made);
    assert_eq!(shown(&container), device);
}

#[test]
fn ours_checks_and_removes_what_the_original_made_with_and_without_its_result() {
    for has_result in [true, false] {
        let host = ListHost::new(list(&json!({})));
        let container = host.sandbox.container("id1");
        container.sh("ip link add eth0 address 02:00:00:00:00:09 type veth peer name far address 02:00:00:00:00:0a");
        let before = (host.state_with(&[&container]), traffic_control(&container, "eth0"));
        let attachment = Attachment::new("id1", &container);
        let previous = json!({
            "cniVersion": "1.1.0", "interfaces": [{"name": "eth0", "sandbox": container.path()}],
            "ips": [{"interface": 0, "address": "10.1.2.9/24"}],
        });
        let result = add_as_the_original(&container, &attachment, &previous);
        host.runtime().invocation(Verb::Check, PLUGIN, &attachment, Some(&result)).run().expect_success();
        let result = has_result.then_some(&result);
        host.runtime().invocation(Verb::Del, PLUGIN, &attachment, result).run().expect_success();
        host.is_as_before(&before.0, &[&container]);
        assert_eq!(traffic_control(&container, "eth0"), before.1);
    }
}

#[test]
fn the_original_removes_what_ours_made() {
    let host = ListHost::new(list(&json!({})));
    let (_neighbour, _) = host.add("neighbour");
    let before = host.state_with(&[]);
    let (container, attachment) = host.add("id1");
    del_as_the_original(&container, "eth0", "tap0");
    assert!(!has(&container, "tap0"));
    assert_eq!(traffic_control(&container, "eth0"), [""; 0]);
    host.runtime().invocation(Verb::Del, "ptp", &attachment, attachment.result.as_ref()).run().expect_success();
    host.is_as_before(&before, &[]);
    host.del(&attachment);
}

/// The original, without its result, leaves the device.
#[test]
fn ours_ends_what_the_original_left_without_its_device() {
    let host = ListHost::new(list(&json!({})));
    let container = host.sandbox.container("id1");
    container.sh("ip link add eth0 type veth peer name far");
    let attachment = Attachment::new("id1", &container);
    let previous = json!({"interfaces": [{"name": "eth0", "sandbox": container.path()}], "ips": []});
    add_as_the_original(&container, &attachment, &previous);
    container.sh("ip link del tap0");
    host.runtime().invocation(Verb::Del, PLUGIN, &attachment, None).run().expect_success();
    assert_eq!(traffic_control(&container, "eth0"), [""; 0]);
}
