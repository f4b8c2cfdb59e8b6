//! ADDs that fail leave nothing behind.

use cni_conformance::cases::for_each;
use cni_conformance::uml::on_a_kernel_with;
use cni_conformance::{Attachment, Container, Feature, Invocation, Network, Runtime, Sandbox, Verb};
use serde_json::{Value, json};

use super::{calls, contents, has_eth0, leases, network, with_ipam, with_script};

const UNSUPPORTED: u64 = 2;
const ENVIRONMENT: u64 = 4;
const INVALID: u64 = 7;
const CONFLICT: u64 = 103;

/// Requires that an ADD fails so, and that the address is free again.
#[track_caller]
fn assert_refused(sandbox: &Sandbox, container: &Container, ifname: &str, list: Value, code: u64, text: &str) {
    let mut attachment = Attachment::new("c1", container).ifname(ifname);
    Runtime::new(sandbox, list).add(&mut attachment).expect_error("dummy", code, text);
    assert_eq!(leases(), [""; 0]);
}

#[test]
fn a_network_without_ipam_is_refused_before_anything_is_done() {
    for_each([json!(null), json!({}), json!({"type": ""})].map(|ipam| (ipam.to_string(), ipam)), |ipam| {
        let sandbox = Sandbox::new();
        let container = sandbox.container("c1");
        let text = "dummy interface requires an IPAM configuration";
        assert_refused(&sandbox, &container, "eth0", with_ipam(ipam), INVALID, text);
    });
}

#[test]
fn a_name_that_is_a_pattern_is_refused() {
    let sandbox = Sandbox::new();
    let container = sandbox.container("c1");
    let before = contents(&container);
    let text = r#"failed to create dummy: the kernel would replace the % in "d%d""#;
    assert_refused(&sandbox, &container, "d%d", network(), ENVIRONMENT, text);
    assert_eq!(contents(&container), before);
}

#[test]
fn a_name_that_an_interface_has_is_refused_and_the_interface_stays() {
    let sandbox = Sandbox::new();
    let container = sandbox.container("c1");
    container.sh("ip link add eth0 type veth peer name peer");
    container.sh("ip address add 10.1.1.1/24 dev eth0");
    let before = contents(&container);
    for (name, details) in [("eth0", "\"eth0\" of kind veth"), ("lo", "\"lo\" already")] {
        let mut attachment = Attachment::new("c1", &container).ifname(name);
        let chain = Runtime::new(&sandbox, network()).add(&mut attachment);
        let error = chain.expect_error("dummy", CONFLICT, "failed to create dummy: file exists");
        assert!(error.details.contains(details), "{error:?}");
    }
    assert_eq!(contents(&container), before);
    assert_eq!(leases(), [""; 0]);
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
        assert_refused(&sandbox, &container, "eth0", network(), UNSUPPORTED, text);
        assert!(!has_eth0(&container));
    }
}

// The reference keeps the link, or the lease, or both.
#[test]
fn an_unusable_answer_of_ipam_leaves_nothing() {
    on_a_kernel_with(Feature::DummyLinks, || {
        let ips = r#""ips":[{"address":"10.7.0.2/24"}]"#;
        let rows = [
            ("no address", "{}".to_owned(), "IPAM plugin returned missing IP config"),
            ("another family", format!(r#"{{{ips},"routes":[{{"dst":"::/0","gw":"10.7.0.1"}}]}}"#), "another family"),
            (
                "no way to the gateway",
                format!(r#"{{{ips},"routes":[{{"dst":"0.0.0.0/0","gw":"172.16.0.1"}}]}}"#),
                "route",
            ),
            (
                "one address twice",
                r#"{"ips":[{"address":"10.7.0.2/24"},{"address":"10.7.0.2/24"}]}"#.to_owned(),
                "address",
            ),
        ];
        for_each(rows.map(|(name, answer, text)| (name, (answer, text))), |(answer, text)| {
            let sandbox = Sandbox::new();
            let container = sandbox.container("c1");
            let before = contents(&container);
            let path = with_script(&format!("[ $CNI_COMMAND = DEL ] || echo '{answer}'"));
            let config = json!({"cniVersion": "1.0.0", "name": "n1", "type": "dummy", "ipam": {"type": "script"}});
            let add = Invocation::new(&sandbox, "dummy", Verb::Add).container_id("c1").netns(container.path());
            let error = add.path(&path).config(&config).run().error();
            assert!(error.msg.contains(text), "{error:?}");
            assert_eq!(calls(), ["ADD gone", "DEL gone"]);
            assert_eq!(contents(&container), before);
        });
    });
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
