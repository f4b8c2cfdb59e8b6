//! The names under which the binary is the plugin.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use cni_conformance::{Attachment, Invocation, ListHost, PortMapping, Sandbox, Spelling, Verb, binaries, script};
use serde_json::json;

use crate::flannel::setup::{LEASE, flannel, list, write_lease};

/// A folder below the harness's own that is there for one test.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new("/run/conformance").join(name);
    fs::create_dir_all(&folder).expect("a folder for plugins");
    folder
}

/// k3s ships one file, called `cni`, and these links to it.
#[test]
fn the_layout_of_k3s_works() {
    let list = json!({"cniVersion": "1.0.0", "name": "cbr0", "plugins": [
        flannel(),
        {"type": "portmap", "capabilities": {"portMappings": true}},
        {"type": "bandwidth", "capabilities": {"bandwidth": true}},
    ]});
    let host = ListHost::new(list);
    write_lease(LEASE);
    let folder = folder("k3s");
    script::copy_program(binaries::under_test().join("cni-plugins"), folder.join("cni"));
    for name in ["bandwidth", "bridge", "firewall", "flannel", "host-local", "loopback", "portmap"] {
        symlink("cni", folder.join(name)).expect("a link");
    }
    let runtime = host.runtime().binaries(&folder).traced();
    let container = host.sandbox.container("c1");
    let mut attachment = Attachment::new("c1", &container).ports(&PortMapping::twins(8080, 80), Spelling::Go);
    let limit = json!({"IngressRate": 8_000_000, "IngressBurst": 160_000, "EgressRate": 0, "EgressBurst": 0});
    attachment.capabilities.insert("bandwidth".to_owned(), limit);
    let before = host.state_with(&[]);
    let add = runtime.add(&mut attachment);
    add.expect_success();
    assert!(!add.children().iter().any(|child| child.starts_with("flannel ")), "delegates run inside the process");
    assert!(host.sandbox.sh("tc qdisc show").contains("qdisc tbf 1: "), "the limit is there");
    runtime.check(&attachment).expect_success();
    runtime.del(&attachment).expect_success();
    let after = host.state_with(&[]);
    let left: Vec<String> = cni_conformance::state::diff(&before, &after)
        .into_iter()
        .filter(|line| line.contains("c1") || line.contains("veth") || line.contains("/10.42.1.2"))
        .collect();
    assert_eq!(left, [""; 0]);
}

/// Two networks of flannel on one host, as Nomad's users have them: a link with another name, its own lease and folder.
#[test]
fn a_name_with_a_hyphen_is_the_plugin_before_it() {
    let host = ListHost::new(list(&json!({
        "type": "flannel-wg", "subnetFile": "/run/flannel/wg.env", "dataDir": "/run/flannel/wg",
        "delegate": {"type": "bridge-wg", "bridge": "cni1"},
    })));
    write_lease(LEASE);
    fs::rename("/run/flannel/subnet.env", "/run/flannel/wg.env").expect("a lease of its own");
    let folder = folder("wg");
    for name in ["flannel-wg", "bridge-wg", "host-local"] {
        symlink(binaries::under_test().join("cni-plugins"), folder.join(name)).expect("a link");
    }
    let runtime = host.runtime().binaries(&folder).traced();
    let container = host.sandbox.container("c1");
    let mut attachment = Attachment::new("c1", &container);
    let add = runtime.add(&mut attachment);
    assert_eq!(add.result()["ips"][0]["address"], "10.42.1.2/24");
    assert_eq!(add.children(), [""; 0]);
    assert!(Path::new("/run/flannel/wg/c1").exists());
    runtime.check(&attachment).expect_success();
    runtime.del(&attachment).expect_success();
    assert!(!Path::new("/run/flannel/wg/c1").exists());
}

#[test]
fn the_plugin_under_another_name_says_what_it_is() {
    let sandbox = Sandbox::new();
    let folder = folder("named");
    symlink(binaries::under_test().join("cni-plugins"), folder.join("flannel-wg")).expect("a link");
    let about =
        Invocation::new(&sandbox, "flannel-wg", Verb::Version).binaries(&folder).without_env("CNI_COMMAND").run();
    assert!(about.stderr().starts_with("CNI flannel plugin v1.9.1+rs."), "{about}");
}
