//! ADDs that fail leave nothing behind.

use cni_conformance::{Attachment, ListHost, Verb};
use serde_json::{Value, json};

use super::setup::{PLUGIN, list, traffic_control};

struct Prepared {
    host: ListHost,
    container: cni_conformance::Container,
    previous: Value,
}

impl Prepared {
    /// A container with an interface that an earlier plugin has made.
    fn new() -> Self {
        let host = ListHost::new(list(&json!({})));
        let container = host.sandbox.container("id1");
        container.sh("ip link add eth0 type veth peer name far");
        let previous = json!({"cniVersion": "1.1.0", "interfaces": [{"name": "eth0", "sandbox": container.path()}]});
        Self { host, container, previous }
    }

    /// Runs an ADD that must fail, and leave nothing.
    #[track_caller]
    fn fails(&self, change: &dyn Fn(Attachment) -> Attachment, code: u64, says: &str) {
        let state = || {
            let control = ["eth0", "far"].map(|link| traffic_control(&self.container, link));
            (self.host.state_with(&[&self.container]), control)
        };
        let before = state();
        let attachment = change(Attachment::new("id1", &self.container));
        let call = self.host.runtime().invocation(Verb::Add, PLUGIN, &attachment, Some(&self.previous));
        call.run().expect_error(code, says);
        let after = state();
        cni_conformance::state::assert_same(&before.0, &after.0);
        assert_eq!(after.1, before.1);
    }
}

/// The original takes over whatever tap device has the name, and cuts a name that is too long.
#[test]
fn a_name_that_cannot_be_had_is_refused() {
    let named = |name: &str| {
        let args = format!("TC_REDIRECT_TAP_NAME={name}");
        move |attachment: Attachment| attachment.args(&args)
    };
    for kind in
        ["ip tuntap add dev vm0 mode tap", "ip tuntap add dev vm0 mode tap multi_queue", "ip link add vm0 type bridge"]
    {
        let prepared = Prepared::new();
        prepared.container.sh(kind);
        prepared.fails(&named("vm0"), 103, "the container has an interface \"vm0\" already");
    }
    let prepared = Prepared::new();
    prepared.fails(&named("sixteen-letters-"), 4, "invalid name \"sixteen-letters-\" of the tap device");
    prepared.fails(&named("a/b"), 4, "invalid name \"a/b\" of the tap device");
    prepared.fails(&named("vm%s"), 4, "a % must be the only one, and be followed by d");
}

#[test]
fn arguments_that_cannot_be_read_are_refused() {
    let prepared = Prepared::new();
    for (args, says) in [
        ("FOO", "Invalid cni arguments format, \"FOO\""),
        ("TC_REDIRECT_TAP_NAME=vm0;", "Invalid cni arguments format, \"\""),
        ("TC_REDIRECT_TAP_UID=root", "tapUID should be numeric convertible, got \"root\""),
        ("TC_REDIRECT_TAP_GID=-1", "tapGID should be numeric convertible, got \"-1\""),
    ] {
        prepared.fails(&|attachment| attachment.args(args), 4, says);
    }
}

#[test]
fn an_interface_is_needed_and_is_redirected_once() {
    let prepared = Prepared::new();
    let says = "failed to find redirect interface \"eth9\": did not find expected network device with name \"eth9\"";
    prepared.fails(&|attachment| attachment.ifname("eth9"), 7, says);
    let attachment = Attachment::new("id1", &prepared.container);
    let call = prepared.host.runtime().invocation(Verb::Add, PLUGIN, &attachment, Some(&prepared.previous));
    call.run().expect_success();
    prepared.fails(
        &|attachment| attachment,
        103,
        "failed to redirect interface \"eth0\": its frames go to \"tap0\" already",
    );
}

/// The original ends with a stack trace.
#[test]
fn an_address_of_an_interface_that_the_result_does_not_have_is_refused() {
    let mut prepared = Prepared::new();
    prepared.previous["ips"] = json!([{"interface": 9, "address": "10.1.2.9/24"}]);
    prepared.fails(&|attachment| attachment, 7, "prevResult has no interface 9 of address 10.1.2.9/24");
}
