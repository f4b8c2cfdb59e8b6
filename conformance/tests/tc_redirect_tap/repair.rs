//! `cni-plugins repair` restores the redirects that somebody has removed. The real `cnitool` adds the container, so the cache is
//! the one that libcni writes.

use cni_conformance::cases::for_each;
use cni_conformance::state::assert_same;
use cni_conformance::{CniTool, Invocation, Outcome, Sandbox, State, Verb};
use serde_json::json;

use super::setup::{list, traffic_control};

fn repair(sandbox: &Sandbox, words: &[&str]) -> Outcome {
    let said = Invocation::new(sandbox, "cni-plugins", Verb::Add).arguments(&[&["repair"], words].concat()).run();
    said.expect_success();
    said
}

/// Where the discipline has stayed, it may be another's, and the filter gets the next rank.
fn without_rank(lines: &[String]) -> Vec<String> {
    lines.iter().map(|line| line.replace("pref 49151", "pref 49152")).collect()
}

#[test]
fn redirects_that_somebody_has_removed_come_back() {
    let cases = [
        ("the filters of the interface", "tc filter del dev eth0 ingress", "eth0"),
        ("the discipline of the interface", "tc qdisc del dev eth0 ingress", "eth0"),
        ("the discipline of the device", "tc qdisc del dev tap0 ingress", "tap0"),
    ];
    for_each(cases.map(|(label, line, from)| (label, (line, from))), |(line, from)| {
        let sandbox = Sandbox::new();
        let tool = CniTool::new(&sandbox, &list(&json!({})));
        let container = sandbox.container("id1");
        tool.add(&container).expect_success();
        let redirects = || ["tap0", "eth0"].map(|link| without_rank(&traffic_control(&container, link)));
        let state = || (State::capture(&sandbox, &[&*container]), redirects());
        let before = state();
        container.sh(line);
        assert!(!tool.check(&container).succeeded());

        let to = if from == "eth0" { "tap0" } else { "eth0" };
        let part = format!("tc-redirect-tap: tc filter dev {from} ingress redirect dev {to}");
        let dry = repair(&sandbox, &["--dry-run"]);
        assert!(dry.stdout().ends_with(&format!(" eth0: missing: {part}\n")), "{dry}");
        let done = repair(&sandbox, &[]);
        assert!(done.stdout().ends_with(&format!(" eth0: repaired: {part}\n")), "{done}");
        let after = state();
        assert_same(&before.0, &after.0);
        assert_eq!(before.1, after.1);
        tool.check(&container).expect_success();
        assert!(repair(&sandbox, &[]).stdout().ends_with(": nothing missing\n"));
        tool.del(&container).expect_success();
        assert_eq!(traffic_control(&container, "lo"), [""; 0]);
    });
}
