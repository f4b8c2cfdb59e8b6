//! The example of the plugin's page.

use cni_conformance::{Attachment, Runtime, Sandbox, page};

#[test]
fn the_example_of_the_page_does_what_it_says() {
    let list = page::example(include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../plugins/sbr/README.md")));
    let sandbox = Sandbox::new();
    let runtime = Runtime::new(&sandbox, list);
    let container = sandbox.container("c1");
    let mut attachment = Attachment::new("c1", &container);
    runtime.add(&mut attachment).expect_success();
    runtime.check(&attachment).expect_success();
    let table = container.sh("ip route show table 100");
    assert!(table.contains("default via 10.91.0.1") && table.contains("10.92.0.0/16 via 10.91.0.1"), "{table}");
    assert_eq!(container.sh("ip route show table main"), "");
    container.sh("ping -q -c 1 -W 2 -I 10.91.0.2 10.91.0.1");
    runtime.del(&attachment).expect_success();
    assert!(!container.sh("ip rule").contains("lookup 100"));
}
