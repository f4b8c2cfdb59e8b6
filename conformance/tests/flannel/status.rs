//! STATUS: the lease, and the delegate.

use serde_json::json;

use crate::flannel::setup::{LEASE, host, remove_lease, write_lease};

#[test]
fn a_host_without_a_lease_is_not_ready() {
    let mut host = host();
    host.runtime().status().expect_success();
    remove_lease();
    let text = "failed to load flannel 'subnet.env' file: open /run/flannel/subnet.env: no such file or directory. \
                Check the flannel pod log for this node.";
    let error = host.runtime().status().expect_error("flannel", 50, text);
    assert_eq!(error.details, "flanneld has not written the lease of this host yet");
    write_lease("FLANNEL_NETWORK=10.42.0.0/16\n");
    host.runtime().status().expect_error("flannel", 50, "is missing FLANNEL_SUBNET, FLANNEL_IPV6_SUBNET, FLANNEL_MTU");
    write_lease(LEASE);
    host.list["plugins"][0]["delegate"]["type"] = json!("no-such");
    host.runtime().status().expect_error("flannel", 104, "failed to find plugin \"no-such\"");
}
