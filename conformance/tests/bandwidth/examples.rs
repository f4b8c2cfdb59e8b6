//! The example of the plugin's page, and the list that k3s writes.

use cni_conformance::state::diff;
use cni_conformance::{Attachment, Runtime, Sandbox, State, page};
use serde_json::json;

fn tbf(sandbox: &Sandbox) -> usize {
    sandbox.sh("tc qdisc show").matches("qdisc tbf 1: ").count()
}

#[test]
fn the_example_of_the_page_does_what_it_says() {
    let list = page::example(include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../plugins/bandwidth/README.md")));
    let sandbox = Sandbox::new();
    let runtime = Runtime::new(&sandbox, list);
    let container = sandbox.container("c1");
    let mut attachment = Attachment::new("c1", &container);
    runtime.add(&mut attachment).expect_success();
    runtime.check(&attachment).expect_success();
    assert_eq!(tbf(&sandbox), 2);
    runtime.del(&attachment).expect_success();
    assert_eq!((tbf(&sandbox), sandbox.sh("ip link show type ifb").as_str()), (0, ""));
}

/// Most pods have no annotation, and the runtime brings nothing. Then the plugin only passes the result on.
#[test]
fn a_default_list_with_the_capability_limits_only_what_the_runtime_limits() {
    let list = json!({"cniVersion": "1.0.0", "name": "cbr0", "plugins": [
        {"type": "bridge", "ipam": {"type": "host-local", "subnet": "10.42.0.0/24"}},
        {"type": "portmap", "capabilities": {"portMappings": true}},
        {"type": "bandwidth", "capabilities": {"bandwidth": true}},
    ]});
    let sandbox = Sandbox::new();
    let runtime = Runtime::new(&sandbox, list);
    for (name, limits, buckets) in [
        ("plain", None, 0),
        ("zero", Some(json!({"IngressRate": 0, "IngressBurst": 0, "EgressRate": 0, "EgressBurst": 0})), 0),
        (
            "limited",
            Some(json!({
                "IngressRate": 1_000_000, "IngressBurst": 4_294_967_295_u64, "EgressRate": 1_000_000, "EgressBurst": 4_294_967_295_u64,
            })),
            2,
        ),
    ] {
        let container = sandbox.container(name);
        let before = State::of_host(&sandbox);
        let mut attachment = Attachment::new(name, &container);
        attachment.capabilities.extend(limits.map(|limits| ("bandwidth".to_owned(), limits)));
        runtime.add(&mut attachment).expect_success();
        runtime.check(&attachment).expect_success();
        assert_eq!(tbf(&sandbox), buckets, "{name}");
        container.remove();
        attachment.netns = String::new();
        runtime.del(&attachment).expect_success();
        let ifbs = diff(&before, &State::of_host(&sandbox)).into_iter().filter(|line| line.contains("bwp"));
        assert_eq!((tbf(&sandbox), ifbs.count()), (0, 0), "{name}");
    }
}
