//! The dummy plugin: what no case can say: a kernel without such links, namespaces that cannot be entered, and standard output that is full.

use cni_conformance::uml::on_a_kernel_with;
use cni_conformance::{Attachment, Container, Feature, Network, Runtime, Sandbox, Verb, injection, leases};
use serde_json::{Value, json};

use crate::on_a_master::has_eth0;

/// A network of two families whose only plugin is dummy.
fn network() -> Value {
    with_ipam(json!({
        "type": "host-local", "ranges": [[{"subnet": "10.7.0.0/24"}], [{"subnet": "fd00:7::/64"}]],
        "routes": [{"dst": "10.99.0.0/16"}, {"dst": "::/0"}], "dataDir": LEASES,
    }))
}

const LEASES: &str = "/run/ipam";

fn with_ipam(ipam: Value) -> Value {
    json!({"cniVersion": "1.1.0", "name": "services", "plugins": [{"type": "dummy", "ipam": ipam}]})
}

/// Attaches a new container and returns it with what the runtime remembers.
#[track_caller]
fn attach(sandbox: &Sandbox, list: &Value, name: &str) -> (Container, Attachment) {
    let container = sandbox.container(name);
    let mut attachment = Attachment::new(name, &container);
    Runtime::new(sandbox, list.clone()).add(&mut attachment).expect_success();
    (container, attachment)
}

/// The addresses that host-local has given away, in order.
fn leases() -> Vec<String> {
    leases::of_network(LEASES, "services")
}

/// Otherwise another container would get the addresses of a link that still exists.
#[test]
fn the_addresses_stay_reserved_while_the_link_cannot_be_removed() {
    on_a_kernel_with(Feature::DummyLinks, || {
        let sandbox = Sandbox::new();
        let (container, attachment) = attach(&sandbox, &network(), "c1");
        let runtime = Runtime::new(&sandbox, network());
        let call = runtime.invocation(Verb::Del, "dummy", &attachment, attachment.result.as_ref());
        assert_eq!(injection::outside_namespaces(&call).run().error().code, 8);
        assert!(has_eth0(&container));
        assert_eq!(leases(), ["10.7.0.2", "fd00:7::2"]);
        runtime.del(&attachment).expect_success();
        assert_eq!(leases(), [""; 0]);
    });
}

// The reference succeeds, with a kernel that has no such links, and without IPAM with code 999.
#[test]
fn status_names_what_add_could_not_do_without() {
    let sandbox = Sandbox::new();
    let none = with_ipam(json!({}));
    Runtime::new(&sandbox, none).status().expect_error("dummy", 7, "dummy interface requires an IPAM configuration");
    let status = Runtime::new(&sandbox, network()).status();
    if Feature::DummyLinks.is_here() {
        status.expect_success();
    } else {
        status.expect_error("dummy", 50, "this kernel has no links of kind dummy");
    }
}

#[test]
fn a_kernel_makes_the_link_or_says_that_it_cannot() {
    let sandbox = Sandbox::new();
    let container = sandbox.container("c1");
    if Feature::DummyLinks.is_here() {
        Runtime::new(&sandbox, network()).add(&mut Attachment::new("c1", &container)).expect_success();
        assert!(has_eth0(&container));
    } else {
        let text = "this kernel has no links of kind dummy";
        Runtime::new(&sandbox, network()).add(&mut Attachment::new("c1", &container)).expect_error("dummy", 2, text);
        assert_eq!(leases(), [""; 0]);
        assert!(!has_eth0(&container));
    }
}

// The reference keeps both.
#[test]
fn a_result_that_cannot_be_written_leaves_nothing() {
    on_a_kernel_with(Feature::DummyLinks, || {
        let sandbox = Sandbox::new();
        let container = sandbox.container("c1");
        let attachment = Attachment::new("c1", &container);
        let add = Runtime::new(&sandbox, network()).invocation(Verb::Add, "dummy", &attachment, None);
        let outcome = add.launched_by(&["/bin/sh", "-c", "exec \"$0\" > /dev/full"]).run();
        assert_eq!(outcome.code(), Some(1), "{outcome}");
        assert!(Network::observe(&container).link("eth0").is_none());
        assert_eq!(leases(), [""; 0]);
    });
}
