//! The network configurations on disk: whether they can be read, whether their plugins are there, and what those say of them.

use std::io;
use std::path::{Path, PathBuf};

use cni_host_local::{HostLocal, full_sets};
use cni_plugin::run::Plugin as _;
use serde_json::Value;

use super::finding::Finding;
use super::folders::Runtime;
use crate::calls::{status, status_request};
use crate::network_lists::{all_files, lists, named, plugins, read};

const TOPIC: &str = "configurations";

/// Looks at the configurations of one folder, or of the usual ones.
pub fn look(folder: Option<&Path>, runtimes: &[Runtime]) -> Vec<Finding> {
    let plugins: Vec<&Path> = runtimes.iter().flat_map(|runtime| &runtime.folders).map(PathBuf::as_path).collect();
    let has = |kind: &str| plugins.iter().any(|folder| folder.join(kind).is_file());
    all_files(folder).iter().flat_map(|file| judge(file, read(file), &has)).collect()
}

/// The configurations of one plugin of this binary, each with the name of its network. A file that cannot be read is
/// [`look`]'s to report.
pub fn of_plugin(kind: &str, folder: Option<&Path>) -> Vec<Value> {
    let is_meant = |plugin: &Value| {
        plugin["type"].as_str().and_then(cni_builtin::plugin).is_some_and(|plugin| plugin.kind() == kind)
    };
    let of_list = |list: Value| plugins(&list).into_iter().filter(is_meant).map(|one| named(&list, &one)).collect();
    lists(folder).flat_map(|list: Value| -> Vec<Value> { of_list(list) }).collect()
}

fn judge(file: &Path, text: io::Result<String>, has: &dyn Fn(&str) -> bool) -> Vec<Finding> {
    let shown = file.display();
    let read = text.map_err(|error| error.to_string());
    let list: Value = match read.and_then(|text| serde_json::from_str(&text).map_err(|error| error.to_string())) {
        Ok(list) => list,
        Err(why) => {
            let says = format!("{shown} cannot be read: {why}");
            return vec![Finding::problem(TOPIC, says, "mend it: no runtime can use it as it is")];
        }
    };
    let findings: Vec<Finding> =
        plugins(&list).iter().flat_map(|plugin| judge_plugin(file, &list, plugin, has)).collect();
    if findings.is_empty() {
        vec![Finding::fine(TOPIC, format!("{shown}: every plugin is there and ready"))]
    } else {
        findings
    }
}

fn judge_plugin(file: &Path, list: &Value, plugin: &Value, has: &dyn Fn(&str) -> bool) -> Vec<Finding> {
    let shown = file.display();
    let Some(kind) = plugin.get("type").and_then(Value::as_str) else {
        return vec![Finding::problem(
            TOPIC,
            format!("{shown} has a plugin without a type"),
            "name it by the key \"type\"",
        )];
    };
    let ipam = plugin.pointer("/ipam/type").and_then(Value::as_str).filter(|ipam| !ipam.is_empty());
    let absent = [Some(kind), ipam].into_iter().flatten().filter(|kind| !has(kind)).map(|kind| {
        let says = format!("{shown} needs the plugin {kind}, which is in no folder of a runtime");
        Finding::problem(TOPIC, says, "put it into the folder of plugins, or take it out of the configuration")
    });
    let mut findings: Vec<Finding> = absent.collect();
    if let Some(Err(why)) = status(&named(list, plugin)) {
        let says = format!("{shown}: the plugin {kind} is not ready: {why}");
        findings.push(Finding::problem(TOPIC, says, "what it says must be mended before containers come"));
    }
    findings.extend(full_ranges(&named(list, plugin)).into_iter().map(|set| {
        let says = format!("{shown}: no address of {set} is free: ADD fails");
        Finding::problem(TOPIC, says, "configure larger ranges; cni-plugins gc shows addresses that no container uses")
    }));
    findings
}

/// The range sets of host-local that have no free address. What is wrong with a configuration, the plugin itself reports.
fn full_ranges(config: &Value) -> Vec<String> {
    if config.pointer("/ipam/type").is_none_or(|ipam| ipam != HostLocal.kind()) {
        return Vec::new();
    }
    status_request(config.clone(), &HostLocal).and_then(|request| full_sets(&request)).unwrap_or_default()
}
