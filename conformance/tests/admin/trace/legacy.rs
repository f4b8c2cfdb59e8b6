//! iptables-legacy: no trace sees its rules, so `trace` shows those whose counters have moved.

use cni_conformance::{Flavour, Sandbox};

use super::{Extra, LOST, add, probe, serve};

#[test]
fn counters_of_iptables_legacy_stand_in_for_the_trace() {
    let sandbox = Sandbox::with_flavour(Flavour::Legacy);
    let web = add(&sandbox, "web", Extra::Nothing);
    let _server = serve(&web, "0.0.0.0:80");
    sandbox.sh("iptables -P FORWARD DROP");
    let says = "dropped in the hook forward by iptables-legacy, whose counter has moved: iptables-legacy -t filter -P FORWARD DROP: ";
    let done = probe(&sandbox, &["8080"], LOST, says);
    assert!(done.stdout().contains("note: iptables-legacy has rules, which no trace sees"), "{done}");
    assert!(done.stdout().contains("packets: iptables-legacy -t nat -A CNI-HOSTPORT-DNAT "), "{done}");
    assert!(done.stdout().contains("becomes 10.22.0.2:80"), "the translation is seen: {done}");
}
