//! An ADD that fails leaves nothing, whatever has failed.

use std::fs;

use cni_conformance::{Attachment, Network};
use serde_json::json;

use crate::flannel::setup::{files, foreign, given, host, remove_lease};

#[test]
fn a_bridge_that_cannot_make_the_interface_leaves_nothing() {
    let mut host = host();
    host.add("neighbour");
    host.list["plugins"][0]["ipam"]["type"] = json!("no-such");
    let container = host.sandbox.container("c1");
    let before = host.state_with(&[&container]);
    let chain = host.runtime().add(&mut Attachment::new("c1", &container));
    chain.expect_error("flannel", 104, "failed to find plugin \"no-such\"");
    host.is_as_before(&before, &[&container]);
}

/// Bridge of v1.9.1 leaves veth and address when it fails late. The error is the delegate's.
#[test]
fn a_delegate_that_does_not_undo_its_work_is_called_with_del() {
    let mut host = host();
    host.list["plugins"][0]["delegate"] = json!({"type": "foreign"});
    let folder = foreign(
        "if [ $CNI_COMMAND = ADD ]; then ip -n $CNI_CONTAINERID link add eth0 type bridge\n\
         echo '{\"code\": 117, \"msg\": \"half done\", \"details\": \"by the test\"}'; exit 1; fi\n\
         ip -n $CNI_CONTAINERID link del eth0\n",
    );
    let container = host.sandbox.container("c1");
    let runtime = host.runtime().binaries(&folder);
    let error = runtime.add(&mut Attachment::new("c1", &container)).expect_error("flannel", 117, "half done");
    assert_eq!((error.details.as_str(), files()), ("by the test", Vec::new()));
    assert!(Network::observe(&container).link("eth0").is_none());
    assert_eq!(given("DEL"), given("ADD"));
}

/// flanneld may have ended by the time of the DEL. A second DEL has nothing to call with, and makes nothing up.
#[test]
fn what_a_delegate_was_called_with_is_kept_until_a_del_succeeds() {
    let mut host = host();
    host.list["plugins"][0]["delegate"] = json!({"type": "foreign"});
    let folder =
        foreign("[ -e /run/conformance/mended ] || { echo '{\"code\": 117, \"msg\": \"broken\"}'; exit 1; }\n");
    let (container, runtime) = (host.sandbox.container("c1"), host.runtime().binaries(&folder));
    runtime.add(&mut Attachment::new("c1", &container)).expect_error("flannel", 117, "broken");
    assert_eq!(files(), ["c1"]);
    remove_lease();
    fs::write("/run/conformance/mended", "").expect("mend the delegate");
    for _ in 0..2 {
        runtime.del(&Attachment::new("c1", &container)).expect_success();
        assert_eq!((given("DEL"), files()), (given("ADD"), Vec::new()));
    }
}

#[test]
fn an_answer_that_is_no_result_is_rolled_back() {
    let mut host = host();
    host.list["plugins"][0]["delegate"] = json!({"type": "foreign"});
    let folder = foreign("exit 0\n");
    let container = host.sandbox.container("c1");
    let runtime = host.runtime().binaries(&folder);
    let chain = runtime.add(&mut Attachment::new("c1", &container));
    chain.expect_error("flannel", 6, "failed to unmarshal raw result of foreign");
    assert_eq!((given("DEL"), files()), (given("ADD"), Vec::new()));
}

/// A second ADD of a container that runs fails, and must not take its interface away.
#[test]
fn a_repeated_add_leaves_the_container_as_it_is() {
    let host = host();
    let (_container, attachment) = host.add("c1");
    let before = fs::read(crate::flannel::setup::file("c1")).expect("a state file");
    let chain = host.runtime().add(&mut attachment.clone());
    assert!(!chain.succeeded(), "eth0 is there: {chain}");
    assert_eq!(fs::read(crate::flannel::setup::file("c1")).expect("a state file"), before);
    host.check(&attachment);
}
