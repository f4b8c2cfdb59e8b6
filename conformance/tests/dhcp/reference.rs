//! The reference's plugins and daemon on the same network give the same answers. Ours also requests and returns name
//! resolution and the MTU.

use std::path::Path;
use std::process::Command;

use cni_conformance::{Attachment, reference};
use serde_json::{Value, json};

use crate::dhcp::setup::{Lan, Running, SOCKET, Server, list, until};

/// An answer without the address of the interface, which is random.
fn reported(attachment: &Attachment) -> Value {
    let mut result = attachment.result.clone().expect("a result");
    result["interfaces"][0].as_object_mut().expect("an interface").remove("mac");
    result
}

#[test]
fn both_answer_the_same_but_for_name_resolution() {
    let Some(reference) = reference::find("dhcp") else { return };
    let folder = reference.folder;
    for ipam in [json!({}), json!({"request": [{"option": "121"}], "priority": 0})] {
        let options = ["--dhcp-option=3,10.1.2.1", "--dhcp-option=15,example.org"];
        let routes = "--dhcp-option=121,10.9.0.0/16,10.1.2.9";
        let mut lan = Lan::new(Server::Dnsmasq(&[options[0], options[1], routes]), list(&ipam));
        let (container, attachment) = lan.add("c1");
        let mut ours = reported(&attachment);
        assert_eq!(ours["dns"], json!({"domain": "example.org"}));
        ours["dns"] = json!({});
        lan.del(&attachment);
        lan.daemon.end("TERM");
        lan.daemon = Running::start(Command::new(folder.join("dhcp")).arg("daemon"));
        until(|| Path::new(SOCKET).exists(), || "the reference's daemon".to_owned());
        let mut again = Attachment::new("c1", &container);
        let runtime = lan.runtime().binaries(&folder);
        runtime.add(&mut again).expect_success();
        let mut theirs = reported(&again);
        if theirs.get("dns").is_none() {
            theirs["dns"] = json!({});
        }
        assert_eq!(ours, theirs);
        runtime.del(&again).expect_success();
    }
}
