//! The lease file as it may be written, and as it must not be.

use cni_conformance::Attachment;
use cni_conformance::cases::for_each;

use crate::flannel::setup::{LEASE, files, host, remove_lease, write_lease};

#[test]
fn a_lease_that_people_have_edited_is_read() {
    let quoted = LEASE.replace("=", "=\"").replace('\n', "\"\n");
    let windows = LEASE.replace('\n', "\r\n");
    let blanks = LEASE.replace('\n', " \t\n");
    let comments = format!("# by hand\n\n{LEASE}OTHER=1\n");
    for_each([("quotes", quoted), ("CRLF", windows), ("blanks", blanks), ("comments", comments)], |lease| {
        let host = host();
        write_lease(&lease);
        let (_container, attachment) = host.add("c1");
        assert_eq!(attachment.result.expect("a result")["ips"][0]["address"], "10.42.1.2/24");
    });
}

/// The reference ends with a stack trace at the first of these.
#[test]
fn a_line_that_cannot_be_used_is_named_and_nothing_is_done() {
    let broken = |from: &str, to: &str| LEASE.replace(from, to);
    for_each(
        [
            (broken("MTU=1450", "MTU"), 7, "subnet.env, line 3: FLANNEL_MTU has no value"),
            (broken("1450", "many"), 7, "subnet.env, line 3: invalid MTU \"many\""),
            (broken("10.42.0.0/16", "10.42.0.0/16,"), 7, "subnet.env, line 1: invalid CIDR address: "),
            (broken("FLANNEL_SUBNET", "SUBNET"), 11, "subnet.env is missing FLANNEL_SUBNET, FLANNEL_IPV6_SUBNET"),
        ]
        .map(|case| (case.2, case)),
        |(lease, code, text)| {
            let host = host();
            write_lease(&lease);
            let container = host.sandbox.container("c1");
            let before = host.state_with(&[&container]);
            host.runtime().add(&mut Attachment::new("c1", &container)).expect_error("flannel", code, text);
            host.is_as_before(&before, &[&container]);
            assert_eq!(files(), [""; 0]);
        },
    );
}

/// A pod may be started before flanneld has written its lease: the kubelet tries again.
#[test]
fn add_before_the_first_lease_may_be_repeated() {
    let host = host();
    remove_lease();
    let container = host.sandbox.container("c1");
    let mut attachment = Attachment::new("c1", &container);
    host.runtime().add(&mut attachment).expect_error("flannel", 11, "open /run/flannel/subnet.env: no such file");
    write_lease(LEASE);
    host.runtime().add(&mut attachment).expect_success();
}
