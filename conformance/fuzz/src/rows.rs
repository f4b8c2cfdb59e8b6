//! Seeds of the target `config` from the rows of the plugins: each plugin's small and rich configuration.

use cni_catalog::{Entry, PluginKind, TestData};
use serde_json::{Value, json};

/// The seeds, with their names.
pub fn seeds() -> Vec<(String, String)> {
    // host-local keeps its files on the real disk, so it has a target of its own.
    let entries = cni_catalog::entries().iter().filter(|entry| entry.name != "host-local");
    entries
        .flat_map(|entry| {
            let TestData { small, rich, args, .. } = cni_catalog::test_data(&entry.name);
            [("small", small), ("rich", rich)].map(|(name, keys)| {
                let args = args.as_deref().unwrap_or_default();
                (format!("{}-{name}", entry.name), format!("{}\n%%\n{args}", configuration(entry, keys)))
            })
        })
        .collect()
}

fn configuration(entry: &Entry, keys: &Value) -> Value {
    let mut config = json!({"cniVersion": "1.0.0", "name": "n1", "type": entry.name});
    for (key, value) in keys.as_object().into_iter().flatten() {
        config[key] = value.clone();
    }
    if entry.kind == PluginKind::Chained {
        config["prevResult"] = json!({
            "cniVersion": "1.0.0",
            "interfaces": [{"name": "br9"}, {"name": "veth0"}, {"name": "eth0", "sandbox": "/run/netns/c1"}],
            "ips": [{"address": "10.1.2.5/24", "gateway": "10.1.2.1", "interface": 2}, {"address": "fd00::5/64", "interface": 2}],
            "routes": [{"dst": "0.0.0.0/0"}],
        });
    }
    config
}
