//! Killed plugins, and repeated calls.

use std::time::Duration;

use serde_json::json;

use crate::suite::case::{PluginSelection, Template, Topic};
use crate::suite::host::PrivateHost;
use crate::suite::judge::{CaseVerdict, JudgeOutcome};
use crate::suite::subject::PluginKind;
use cni_conformance::Verb;

const fn case(topic: Topic, what: &'static str, says: &'static str, run: fn(&PrivateHost) -> CaseVerdict) -> Template {
    Template::new(topic, what, says, run)
}

pub const CASES: &[Template] = &[
    case(Topic::Add, "killed", "DEL cleans up after an ADD that was killed at any moment", killed),
    case(Topic::Del, "killed", "DEL cleans up after a DEL that was killed at any moment", killed_del),
    case(Topic::Add, "twice", "a second ADD of the same container leaves the first as it is", twice)
        .of(PluginSelection::Kinds(&[PluginKind::Interface])),
    case(Topic::Add, "after-del", "ADD works again after DEL, five times in a row", |host| {
        for _ in 0..5 {
            let result = host.add()?;
            host.check(&result)?;
            host.del(&result)?;
        }
        Ok(())
    }),
    case(
        Topic::Del,
        "changed-configuration",
        "DEL succeeds with a configuration that has lost the plugin's keys",
        |host| {
            let result = host.add()?;
            let config = json!({
                "cniVersion": host.version.as_str(), "name": "n1", "type": host.subject.plugin, "prevResult": result,
            });
            host.call(Verb::Del).config(&config).run().must_succeed().map(drop)
        },
    )
    // The others cannot tell what was theirs without these keys.
    .of(PluginSelection::Only(&[
        "loopback",
        "bridge",
        "ptp",
        "macvlan",
        "tap",
        "tc-redirect-tap",
        "firewall",
        "portmap",
        "bandwidth",
        "sbr",
        "consul-cni",
    ])),
];

/// After how many microseconds a plugin is killed.
const MOMENTS: [u64; 5] = [500, 1500, 3000, 6000, 12_000];

fn killed(host: &PrivateHost) -> CaseVerdict {
    let result = host.add()?;
    host.del(&result)?;
    let before = host.state();
    for moment in MOMENTS {
        host.call(Verb::Add).killed_after(Duration::from_micros(moment)).run();
        host.call(Verb::Del).run().must_succeed()?;
        host.is_as_before(&before, || host.state())?;
    }
    Ok(())
}

fn killed_del(host: &PrivateHost) -> CaseVerdict {
    let result = host.add()?;
    host.del(&result)?;
    let before = host.state();
    for moment in MOMENTS {
        let result = host.add()?;
        let del = host.call_with(Verb::Del, &host.guest, &result, &json!({}));
        del.clone().killed_after(Duration::from_micros(moment)).run();
        del.run().must_succeed()?;
        host.is_as_before(&before, || host.state())?;
    }
    Ok(())
}

fn twice(host: &PrivateHost) -> CaseVerdict {
    let result = host.add()?;
    host.call(Verb::Add).run().must_print_error()?;
    host.check(&result)
}
