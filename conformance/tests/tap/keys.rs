//! The properties of the device: who may open it, in which mode, and the bridge whose port it is.

use cni_conformance::cases::for_each;
use cni_conformance::{Attachment, ListHost};
use serde_json::json;

use crate::tap::setup::{details, list};

/// The reference has two ways of making it. The one for an owner and a group drops the MTU, and gives each frame a header
/// of its own; the other needs the program `ip`.
#[test]
fn every_key_has_its_effect_whichever_others_there_are() {
    let cases = [
        ("none", (json!({}), vec!["pi off vnet_hdr off"], vec!["user", "group", "multi_queue"])),
        ("owner", (json!({"owner": 54321, "mtu": 1400}), vec!["user 54321", "mtu 1400"], vec!["group"])),
        ("root", (json!({"owner": 0}), vec!["user root"], vec!["group"])),
        ("group", (json!({"group": 5, "mtu": 1400}), vec!["group tty", "mtu 1400"], vec!["user"])),
        (
            "both",
            (
                json!({"owner": 54321, "group": 54322, "mtu": 1400}),
                vec!["user 54321", "group 54322", "mtu 1400", "pi off vnet_hdr off"],
                vec!["multi_queue"],
            ),
        ),
        ("queues", (json!({"multiQueue": true, "owner": 0, "group": 0}), vec!["multi_queue"], vec![])),
    ];
    for_each(cases, |(keys, wanted, unwanted)| {
        let host = ListHost::new(list(&keys));
        let (container, attachment) = host.add("id1");
        let reported = details(&container);
        let kind = reported.lines().find(|line| line.contains("tun type tap")).expect("a tap device");
        assert!(kind.contains("persist on"), "{reported}");
        wanted.iter().for_each(|words| assert!(reported.contains(words), "{words}: {reported}"));
        unwanted.iter().for_each(|word| assert!(!kind.contains(word), "{word}: {kind}"));
        host.check(&attachment);
    });
}

#[test]
fn it_is_a_port_of_a_bridge_in_the_container() {
    let host = ListHost::new(list(&json!({"bridge": "br1"})));
    let container = host.sandbox.container("id1");
    container.sh("ip link add br1 type bridge");
    let mut attachment = Attachment::new("id1", &container);
    host.runtime().add(&mut attachment).expect_success();
    assert!(details(&container).contains("master br1"));
    host.check(&attachment);
    container.sh("ip link set eth0 nomaster");
    host.runtime().check(&attachment).expect_error("tap", 100, "tap eth0 is not a port of bridge br1");
}

/// It needs nothing of the host but the file of the driver.
#[test]
fn no_program_is_needed() {
    let host = ListHost::new(list(&json!({"mtu": 1400})));
    let container = host.sandbox.container("id1");
    let attachment = Attachment::new("id1", &container);
    let call = host.runtime().invocation(cni_conformance::Verb::Add, "tap", &attachment, None);
    let outcome = call.path("/nonexistent").traced(true).run();
    outcome.expect_success();
    assert_eq!(outcome.children(), [], "{outcome}");
}

/// The label is that of the process that makes the device; there is no such thing without SELinux.
#[test]
fn a_label_is_refused_where_there_is_no_selinux() {
    let host = ListHost::new(list(&json!({"selinuxcontext": "system_u:system_r:container_t:s0"})));
    let before = host.state_with(&[]);
    let says = r#"failed to create tap under SELinux label "system_u:system_r:container_t:s0": invalid argument"#;
    let error = host.try_to_add("id1").expect_error("tap", 101, says);
    assert!(error.details.contains("selinuxContext needs a host with SELinux"), "{}", error.details);
    host.is_as_before(&before, &[]);
}
