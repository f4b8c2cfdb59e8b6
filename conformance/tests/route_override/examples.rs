//! The example of the plugin's page.

use cni_conformance::{Attachment, Runtime, Sandbox, page};

#[test]
fn the_example_of_the_page_does_what_it_says() {
    let list = page::example(include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../plugins/route-override/README.md")));
    let sandbox = Sandbox::new();
    sandbox.sh("ip link add eth1 type bridge");
    sandbox.sh("ip link set eth1 up");
    let runtime = Runtime::new(&sandbox, list);
    let container = sandbox.container("c1");
    let mut attachment = Attachment::new("c1", &container);
    runtime.add(&mut attachment).expect_success();
    runtime.check(&attachment).expect_success();
    let routes = container.sh("ip route show");
    assert!(routes.contains("192.168.0.0/16 via 10.91.0.254") && !routes.contains("default"), "{routes}");
    runtime.del(&attachment).expect_success();
    assert!(!container.sh("ip link").contains("eth0"));
}
