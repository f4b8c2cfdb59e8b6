//! bandwidth

use serde_json::{Value, json};

use crate::suite::case::{Template, Topic};
use crate::suite::host::PrivateHost;
use crate::suite::judge::{CaseVerdict, JudgeOutcome, require};
use cni_conformance::Verb;
use cni_conformance::keys::with;

const fn add(what: &'static str, says: &'static str, run: fn(&PrivateHost) -> CaseVerdict) -> Template {
    Template::new(Topic::Add, what, says, run).page(&["bandwidth"])
}

pub const CASES: &[Template] = &[
    add(
        "limit-ingress",
        "the host's end of the container's link lets packets through at the rate of ingress",
        |host| {
            host.add()?;
            host.host_shows(&format!("tc qdisc show dev {}", host.guest.host_end()), "tbf")?;
            host.host_shows(&format!("tc qdisc show dev {}", host.guest.host_end()), "rate 8Mbit")
        },
    ),
    add("limit-egress", "an ifb in the result limits what comes from the container", |host| {
        let result = host.add()?;
        let name = ifb(&result)?;
        host.host_shows(&format!("tc qdisc show dev {name}"), "tbf")
    }),
    add("limit-of-runtime", "the limits in runtimeConfig are taken where the configuration has none", |host| {
        let limits = json!({"ingressRate": 16_000_000, "ingressBurst": 160_000});
        let mut config = with(&host.config(), &json!({"runtimeConfig": {"bandwidth": limits}}));
        if let Some(keys) = config.as_object_mut() {
            keys.retain(|key, _| !key.starts_with("ingress") && !key.starts_with("egress"));
        }
        host.call(Verb::Add).config(&config).run().must_print_object()?;
        host.host_shows(&format!("tc qdisc show dev {}", host.guest.host_end()), "rate 16Mbit")
    }),
    add("limit-none", "without limits nothing is made", |host| {
        host.add_with(&json!({"ingressRate": 0, "ingressBurst": 0, "egressRate": 0, "egressBurst": 0}))?;
        host.host_lacks("tc qdisc show", "tbf")?;
        host.host_lacks("ip link show type ifb", "ifb")
    }),
    add("limit-without-burst", "a rate without a burst is refused", |host| {
        host.try_to_add_with(&json!({"ingressBurst": 0})).must_print_error().map(drop)
    }),
    Template::new(Topic::Del, "limit-gone", "DEL removes the ifb", |host| {
        let result = host.add()?;
        let name = ifb(&result)?;
        host.del(&result)?;
        host.host_lacks("ip link show", &name)
    })
    .page(&["bandwidth"]),
];

/// The interface that the plugin has added to the result.
fn ifb(result: &Value) -> Result<String, crate::suite::Mismatch> {
    let name = result["interfaces"][3]["name"].as_str().unwrap_or_default();
    require(!name.is_empty(), "a fourth interface in the result", result)?;
    Ok(name.to_owned())
}
