//! consul-cni

use serde_json::json;

use crate::suite::case::{Template, Topic};
use crate::suite::host::PrivateHost;
use crate::suite::judge::{CaseVerdict, JudgeOutcome, require};
use cni_conformance::Verb;

/// Shows all rules of table nat in the container.
const RULES: &str = "iptables --wait -t nat -S";

const fn add(what: &'static str, says: &'static str, run: fn(&PrivateHost) -> CaseVerdict) -> Template {
    Template::new(Topic::Add, what, says, run).page(&["consul-cni"])
}

pub const CASES: &[Template] = &[
    add("mesh-inbound", "connections that come in go to the proxy's port", |host| {
        host.add()?;
        host.container_shows(RULES, "-A CONSUL_PROXY_IN_REDIRECT -p tcp -j REDIRECT --to-ports 20000")
    }),
    add("mesh-outbound", "connections that go out go to the proxy", |host| {
        host.add()?;
        host.container_shows(RULES, "-A OUTPUT -p tcp -j CONSUL_PROXY_OUTPUT")?;
        host.container_shows(RULES, "-A CONSUL_PROXY_REDIRECT -p tcp -j REDIRECT --to-ports 15001")
    }),
    add("mesh-proxy-user", "connections of the proxy itself are left alone", |host| {
        host.add()?;
        host.container_shows(RULES, "-A CONSUL_PROXY_OUTPUT -m owner --uid-owner 101 -j RETURN")
    }),
    add("mesh-host", "the host's own rules stay as they are", |host| {
        host.add()?;
        host.host_lacks(RULES, "CONSUL_")
    }),
    add("mesh-unasked", "without its argument ADD fails, names it, and makes no rules", |host| {
        let outcome = host.call(Verb::Add).without_env("CNI_ARGS").run();
        let error = outcome.must_print_error()?;
        require(
            error.text.contains("CONSUL_IPTABLES_CONFIG"),
            "CONSUL_IPTABLES_CONFIG in the text",
            outcome.in_short(),
        )?;
        let shown = host.guest.container.sh(RULES);
        require(!shown.contains("CONSUL_"), "no chains of the mesh", shown)
    }),
    Template::new(Topic::Check, "mesh-flushed", "CHECK fails when the chains are gone", |host| {
        let result = host.add()?;
        host.call_with(Verb::Check, &host.guest, &result, &json!({})).run().must_succeed()?;
        host.guest.container.sh("iptables --wait -t nat -F CONSUL_PROXY_OUTPUT");
        host.check_must_fail(&result)
    })
    .page(&["consul-cni"]),
];
