//! DEL leaves nothing, whatever was lost; GC and STATUS call the IPAM plugin.

use cni_conformance::cases::for_each;
use cni_conformance::keys::with;
use cni_conformance::uml::on_a_kernel_with;
use cni_conformance::{Feature, Invocation, Loss, Network, Runtime, Sandbox, Verb, injection};
use serde_json::json;

use super::{attach, calls, has_eth0, leases, network, with_ipam, with_script};

// The reference fails for a plain file, and when the type of IPAM is lost it leaves the link.
#[test]
fn del_releases_the_addresses_whatever_was_lost() {
    on_a_kernel_with(Feature::DummyLinks, || {
        for_each(Loss::ALL.map(|loss| (loss, loss)), |loss| {
            let sandbox = Sandbox::new();
            let (container, attachment) = attach(&sandbox, &network(), "c1");
            assert_eq!(leases(), ["10.7.0.2", "fd00:7::2"]);
            let request = loss.strike(&container, attachment);
            let runtime = Runtime::new(&sandbox, network());
            for _ in ["once", "again"] {
                runtime.del(&request).expect_success();
                assert_eq!(leases(), [""; 0]);
            }
        });
    });
}

/// The network was renamed, or its ADD was refused.
#[test]
fn del_of_another_network_removes_the_link_unless_its_add_was_refused() {
    on_a_kernel_with(Feature::DummyLinks, || {
        let sandbox = Sandbox::new();
        let (container, attachment) = attach(&sandbox, &network(), "c1");
        let other = |name: &str| Runtime::new(&sandbox, with(&network(), &json!({"name": name})));
        assert!(!other("refused").add(&mut attachment.clone()).succeeded());
        other("refused").del(&attachment.clone().without_result()).expect_success();
        assert!(has_eth0(&container));
        other("renamed").del(&attachment).expect_success();
        assert!(!has_eth0(&container));
        assert_eq!(leases(), [""; 0]);
    });
}

#[test]
fn del_removes_the_link_whatever_became_of_the_configuration() {
    on_a_kernel_with(Feature::DummyLinks, || {
        for ipam in [json!(null), json!({}), json!({"type": ""})] {
            let sandbox = Sandbox::new();
            let (container, attachment) = attach(&sandbox, &network(), "c1");
            Runtime::new(&sandbox, with_ipam(ipam)).del(&attachment).expect_success();
            assert!(!has_eth0(&container));
        }
    });
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

// The reference releases the address first, and keeps the link when that fails.
#[test]
fn the_link_is_gone_before_its_address_is_released_even_if_that_fails() {
    on_a_kernel_with(Feature::DummyLinks, || {
        let sandbox = Sandbox::new();
        let container = sandbox.container("c1");
        let address = r#"{"cniVersion":"1.0.0","ips":[{"address":"10.7.0.2/24"}]}"#;
        let path = with_script(&format!("[ $CNI_COMMAND = ADD ] && echo '{address}' && exit 0\nexit 1"));
        let config = json!({"cniVersion": "1.0.0", "name": "n1", "type": "dummy", "ipam": {"type": "script"}});
        let call = |verb| {
            Invocation::new(&sandbox, "dummy", verb)
                .container_id("c1")
                .netns(container.path())
                .path(&path)
                .config(&config)
        };
        call(Verb::Add).run().result();
        assert!(has_eth0(&container));
        assert!(!call(Verb::Del).run().succeeded(), "the IPAM plugin's failure is not told");
        assert!(!has_eth0(&container));
        assert_eq!(calls(), ["ADD gone", "DEL gone"]);
    });
}

// The reference does nothing.
#[test]
fn gc_has_the_ipam_plugin_release_what_no_valid_attachment_has() {
    on_a_kernel_with(Feature::DummyLinks, || {
        let sandbox = Sandbox::new();
        let (lost, _) = attach(&sandbox, &network(), "lost");
        let (_, kept) = attach(&sandbox, &network(), "kept");
        lost.remove();
        let runtime = Runtime::new(&sandbox, network());
        runtime.gc(&[&kept]).expect_success();
        assert_eq!(leases(), ["10.7.0.3", "fd00:7::3"]);
        runtime.check(&kept).expect_success();
    });
}

#[test]
fn status_is_that_of_the_ipam_plugin() {
    on_a_kernel_with(Feature::DummyLinks, || {
        let sandbox = Sandbox::new();
        Runtime::new(&sandbox, network()).status().expect_success();
        assert!(Network::observe(sandbox.host()).links.iter().all(|link| link.name == "lo"), "a link was made");
        let path = with_script(r#"echo '{"cniVersion":"1.1.0","code":50,"msg":"the server is down"}'; exit 1"#);
        let config = json!({"cniVersion": "1.1.0", "name": "n1", "type": "dummy", "ipam": {"type": "script"}});
        let outcome = Invocation::new(&sandbox, "dummy", Verb::Status).path(&path).config(&config).run();
        outcome.expect_error(50, "the server is down");
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
