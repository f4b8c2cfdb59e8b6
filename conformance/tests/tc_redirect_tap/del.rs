//! DEL whatever was lost, and killed ADDs.

use std::time::Duration;

use cni_conformance::cases::for_each;
use cni_conformance::odd_names::{self, ODD_NAMES};
use cni_conformance::{Attachment, ListHost, Loss, Verb};
use serde_json::json;

use super::setup::{PLUGIN, has, list, traffic_control};

#[test]
fn del_removes_what_add_made_whatever_was_lost_and_comes_twice() {
    for_each(Loss::ALL.map(|loss| (loss, loss)), |loss| {
        let host = ListHost::new(list(&json!({})));
        let (_neighbour, kept) = host.add("neighbour");
        let before = host.state_with(&[]);
        let (container, attachment) = host.add("id1");
        let request = loss.strike(&container, attachment);
        for _ in 0..2 {
            host.del(&request);
            host.is_as_before(&before, &[]);
        }
        // Without the path, the device ends with its namespace.
        if !loss.ends_the_namespace() && loss != Loss::NetnsPath {
            assert!(!has(&container, "tap0"));
        }
        host.check(&kept);
    });
}

/// The monitor's library calls DEL before ADD, and gives up if it fails.
#[test]
fn del_before_the_first_add_changes_nothing() {
    let host = ListHost::new(list(&json!({})));
    let container = host.sandbox.container("id1");
    container.sh("ip link add eth0 type veth peer name far");
    container.sh("tc qdisc add dev eth0 ingress");
    let before = (host.state_with(&[&container]), traffic_control(&container, "eth0"));
    for path in [container.path(), "/run/netns/not-there", ""] {
        let attachment = Attachment::new("id1", &container).netns(path);
        host.runtime().invocation(Verb::Del, PLUGIN, &attachment, None).run().expect_success();
    }
    cni_conformance::state::assert_same(&before.0, &host.state_with(&[&container]));
    assert_eq!(traffic_control(&container, "eth0"), before.1);
}

#[test]
fn del_removes_a_device_under_any_name_that_the_kernel_allows() {
    for_each(ODD_NAMES, |name| {
        let host = ListHost::new(list(&json!({})));
        let (container, attachment) = host.add("id1");
        odd_names::rename(&container, "tap0", name);
        let call = host.runtime().invocation(Verb::Del, PLUGIN, &attachment, attachment.result.as_ref());
        call.run().expect_success();
        assert_eq!(container.sh("ip -o link show type tun"), "");
        assert!(!traffic_control(&container, "eth0").join("\n").contains("mirred"), "no redirect to it is left");
    });
}

/// The device is labelled before it is persistent, so DEL finds it without a result.
#[test]
fn del_removes_what_a_killed_add_has_left() {
    let host = ListHost::new(list(&json!({})));
    let container = host.sandbox.container("id1");
    container.sh("ip link add eth0 address 02:00:00:00:00:09 type veth peer name far address 02:00:00:00:00:0a");
    let before = (host.state_with(&[&container]), traffic_control(&container, "eth0"));
    let attachment = Attachment::new("id1", &container);
    let previous = json!({"cniVersion": "1.1.0", "interfaces": [{"name": "eth0", "sandbox": container.path()}]});
    for microseconds in [300, 600, 1000, 1500, 2000, 3000, 5000, 20_000] {
        let call = host.runtime().invocation(Verb::Add, PLUGIN, &attachment, Some(&previous));
        call.killed_after(Duration::from_micros(microseconds)).run();
        host.runtime().invocation(Verb::Del, PLUGIN, &attachment, None).run().expect_success();
        host.is_as_before(&before.0, &[&container]);
        assert_eq!(traffic_control(&container, "eth0"), before.1, "after {microseconds} microseconds");
    }
}

/// The original removes any link that the result names, and any ingress discipline.
#[test]
fn del_leaves_what_belongs_to_others() {
    let host = ListHost::new(list(&json!({})));
    let container = host.sandbox.container("id1");
    container.sh("ip link add eth0 type veth peer name far");
    container.sh("ip link add tap0 type bridge");
    container.sh("tc qdisc add dev eth0 clsact");
    container.sh("ip tuntap add dev tap9 mode tap");
    container.sh("ip link set tap9 alias cni:net1:id2:eth0");
    let before = (host.state_with(&[&container]), traffic_control(&container, "eth0"));
    let attachment = Attachment::new("id1", &container);
    for tap in ["tap0", "far", "tap9"] {
        let result = json!({"cniVersion": "1.1.0", "interfaces": [
            {"name": "eth0", "sandbox": container.path()}, {"name": tap, "sandbox": container.path()}, {"name": tap, "sandbox": "id1"},
        ]});
        host.runtime().invocation(Verb::Del, PLUGIN, &attachment, Some(&result)).run().expect_success();
        cni_conformance::state::assert_same(&before.0, &host.state_with(&[&container]));
        assert_eq!(traffic_control(&container, "eth0"), before.1);
    }
}

#[test]
fn del_never_fails_on_arguments_and_results_that_cannot_be_read() {
    let host = ListHost::new(list(&json!({})));
    let container = host.sandbox.container("id1");
    container.sh("ip link add eth0 type veth peer name far");
    let attachment = Attachment::new("id1", &container);
    let previous = json!({"cniVersion": "1.1.0", "interfaces": [{"name": "eth0", "sandbox": container.path()}]});
    let torn = [json!({"cniVersion": "9.9.9"}), json!({"ips": 7}), json!({"interfaces": [{"name": 7}]})];
    for (args, result) in [("garbage", &torn[0]), ("A=b;", &torn[1]), ("TC_REDIRECT_TAP_UID=x", &torn[2])] {
        host.runtime().invocation(Verb::Add, PLUGIN, &attachment, Some(&previous)).run().expect_success();
        let call = host.runtime().invocation(Verb::Del, PLUGIN, &attachment.clone().args(args), Some(result));
        call.run().expect_success();
        assert!(!has(&container, "tap0"), "{args}");
        assert_eq!(traffic_control(&container, "eth0"), [""; 0], "{args}");
    }
}

/// GC has nothing to do outside the namespaces of containers.
#[test]
fn gc_changes_nothing() {
    let host = ListHost::new(list(&json!({})));
    let (container, valid) = host.add("kept");
    let before = host.state_with(&[&container]);
    host.runtime().gc(&[&valid]).expect_success();
    host.is_as_before(&before, &[&container]);
    host.check(&valid);
}
