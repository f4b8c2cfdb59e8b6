//! STATUS names what the kernel lacks.

use cni_conformance::{Attachment, ListHost, Verb};
use serde_json::json;

use super::setup::{PLUGIN, list};

#[test]
fn where_the_driver_is_missing_add_and_status_say_so() {
    let host = ListHost::new(list(&json!({})));
    let container = host.sandbox.container("id1");
    container.sh("ip link add eth0 type veth peer name far");
    let attachment = Attachment::new("id1", &container);
    let before = host.state_with(&[&container]);
    host.runtime().status().expect_success();
    cni_conformance::state::assert_same(&before, &host.state_with(&[&container]));
    // The program `mount` would make it.
    std::fs::create_dir_all("/run/mount").expect("a directory");
    let hide = ["unshare", "--mount", "sh", "-c", "mount -t tmpfs none /dev/net && exec \"$0\" \"$@\""];
    let previous = json!({"cniVersion": "1.1.0", "interfaces": [{"name": "eth0", "sandbox": container.path()}]});
    let before = host.state_with(&[&container]);
    let call = |verb| host.runtime().invocation(verb, PLUGIN, &attachment, Some(&previous)).launched_by(&hide).run();
    let error = call(Verb::Add).expect_error(2, "failed to create tap: no such file or directory");
    assert!(error.details.contains("/dev/net/tun does not exist"), "{}", error.details);
    call(Verb::Status).expect_error(50, "/dev/net/tun does not exist, load the module tun");
    host.is_as_before(&before, &[&container]);
}
