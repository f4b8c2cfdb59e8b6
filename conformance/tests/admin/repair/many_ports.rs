//! Many ports of one container on a host that has lost its tables (A1 of `reference/defects.md`).

use std::time::Duration;

use cni_conformance::{CniTool, Invocation, Nomad, Sandbox, Verb};
use serde_json::{Value, json};

/// No wait is longer than ten seconds; the rest is for the work on a busy machine.
const SOON: Duration = Duration::from_secs(20);

#[test]
fn repair_puts_many_ports_back_where_there_are_no_tables() {
    let sandbox = Sandbox::new();
    let port = |port: u16| json!({"hostPort": 20_000 + port, "containerPort": port + 1, "protocol": "udp"});
    let ports: Value = (0..100).map(port).collect();
    let list = Nomad::version("1.0.0").conflist();
    Nomad::default().ensure_forwarding_rules(&sandbox);
    let tool = CniTool::new(&sandbox, &list).capabilities(json!({"portMappings": ports}));
    let container = sandbox.container("c1");
    tool.add(&container).expect_success();
    sandbox.sh("nft flush ruleset");
    Nomad::default().ensure_forwarding_rules(&sandbox);
    Invocation::new(&sandbox, "cni-plugins", Verb::Add).arguments(&["repair"]).deadline(SOON).run().expect_success();
    tool.check(&container).expect_success();
}
