//! Many ports of one container on a host without tables (A1 of `reference/defects.md`).

use std::time::Duration;

use cni_conformance::cases::for_each;
use cni_conformance::{Sandbox, Standalone, Verb};
use serde_json::{Value, json};

/// No wait is longer than ten seconds; the rest is for the work on a busy machine.
const SOON: Duration = Duration::from_secs(20);

fn ports(count: u16) -> Value {
    let port = |port: u16| json!({"hostPort": 20_000 + port, "containerPort": port + 1, "protocol": "udp"});
    (0..count).map(port).collect()
}

/// The refusals of a batch of that many rules are more than the kernel keeps for a socket: for 61 seconds nothing
/// happened, and then ADD failed, every time.
#[test]
fn many_ports_come_at_once_where_there_are_no_tables() {
    for_each([78, 84, 120].map(|count| (count, count)), |count| {
        let sandbox = Sandbox::new();
        let keys = json!({"backend": "iptables", "runtimeConfig": {"portMappings": ports(count)}});
        let prev_result = json!({"cniVersion": "1.0.0", "ips": [{"address": "10.77.0.2/16"}]});
        let portmap = Standalone::new(&sandbox, "portmap", "c1", &prev_result, &keys);
        let added = portmap.call(Verb::Add).deadline(SOON).run();
        added.expect_success();
        portmap.check();
        portmap.call(Verb::Del).deadline(SOON).run().expect_success();
        assert!(!sandbox.sh("iptables -t nat -S").contains("c1"));
    });
}
