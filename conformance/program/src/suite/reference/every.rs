//! What all plugins of the set have in common.

use cni_catalog::test_data;
use serde_json::{Value, json};

use crate::suite::case::{Needs, PluginSelection, Template, Topic};
use crate::suite::damage;
use crate::suite::host::PrivateHost;
use crate::suite::judge::{CaseVerdict, JudgeOutcome, require};
use cni_conformance::Verb;

pub const CASES: &[Template] = &[
    Template::new(Topic::Version, "all-versions", "VERSION lists 0.4.0, 1.0.0 and 1.1.0", all_versions)
        .set("the whole set")
        .needs(Needs::Nothing),
    Template::new(Topic::Version, "old-versions", "VERSION lists 0.3.1 as well", |host| lists(host, &["0.3.1"]))
        .set("the whole set")
        .needs(Needs::Nothing)
        .of(PluginSelection::AllBut(&["firewall"])),
    Template::new(Topic::Del, "silent", "DEL prints nothing when it succeeds", del_silent).set("the whole set"),
    Template::new(
        Topic::Add,
        "unknown-args",
        "ADD passes over CNI_ARGS that it does not know with IgnoreUnknown",
        |host| host.call(Verb::Add).args("IgnoreUnknown=true;FOO=BAR").run().must_print_object().map(drop),
    )
    .set("the whole set")
    .of(PluginSelection::AllBut(&["dummy", "vlan", "ipvlan", "dhcp", "vrf", "consul-cni"])),
    Template::new(Topic::Add, "effects", "ADD makes what the plugin's page says, and DEL removes it", effects)
        .set("the whole set")
        .of(PluginSelection::WithEffects),
];

fn effects(host: &PrivateHost) -> CaseVerdict {
    let result = host.add()?;
    let effects = &test_data(&host.subject.plugin).effects;
    for effect in effects {
        let shown = damage::run(host, effect.side, &effect.command);
        require(shown.contains(&effect.shows), format!("{:?} in {:?}", effect.shows, effect.command), shown)?;
    }
    host.del(&result)?;
    for effect in effects {
        let shown = damage::run(host, effect.side, &effect.command);
        require(!shown.contains(&effect.shows), format!("no {:?} in {:?}", effect.shows, effect.command), shown)?;
    }
    Ok(())
}

fn all_versions(host: &PrivateHost) -> CaseVerdict {
    lists(host, &["0.4.0", "1.0.0", "1.1.0"])
}

fn lists(host: &PrivateHost, versions: &[&str]) -> CaseVerdict {
    let outcome = host.call(Verb::Version).config(&json!({"cniVersion": "1.0.0"})).run();
    let answer = outcome.must_print_object()?;
    let listed = answer["supportedVersions"].as_array().cloned().unwrap_or_default();
    for version in versions {
        let found = listed.contains(&Value::from(*version));
        require(found, format!("{version} in `supportedVersions`"), Value::from(listed.clone()))?;
    }
    Ok(())
}

fn del_silent(host: &PrivateHost) -> CaseVerdict {
    let result = host.add()?;
    host.call_with(Verb::Del, &host.guest, &result, &json!({})).run().must_succeed_silently()
}
