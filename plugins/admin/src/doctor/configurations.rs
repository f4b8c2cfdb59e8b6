//! The network configurations on disk: whether they can be read, whether their plugins are there, and what those say of them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::finding::Finding;
use super::runtimes::Runtime;
use super::status;

const TOPIC: &str = "configurations";

/// Where most runtimes, and Nomad, look for them.
const FOLDERS: [&str; 2] = ["/etc/cni/net.d", "/opt/cni/config"];

/// Looks at the configurations of one folder, or of the usual ones.
pub fn look(folder: Option<&Path>, runtimes: &[Runtime]) -> Vec<Finding> {
    let plugins: Vec<&Path> = runtimes.iter().flat_map(|runtime| &runtime.folders).map(PathBuf::as_path).collect();
    let has = |kind: &str| plugins.iter().any(|folder| folder.join(kind).is_file());
    all_files(folder).iter().flat_map(|file| judge(file, read(file), &has)).collect()
}

/// The configurations of one plugin of this binary, each with the name of its network. A file that cannot be read is
/// [`look`]'s to report.
pub fn of_plugin(kind: &str, folder: Option<&Path>) -> Vec<Value> {
    let lists = all_files(folder).into_iter().filter_map(|file| serde_json::from_str(&read(&file).ok()?).ok());
    let is_meant = |plugin: &Value| {
        plugin["type"].as_str().and_then(cni_builtin::plugin).is_some_and(|plugin| plugin.kind() == kind)
    };
    let of_list = |list: Value| plugins(&list).into_iter().filter(is_meant).map(|one| named(&list, &one)).collect();
    lists.flat_map(|list: Value| -> Vec<Value> { of_list(list) }).collect()
}

fn all_files(folder: Option<&Path>) -> Vec<PathBuf> {
    let folders = folder.map_or_else(|| FOLDERS.map(Path::new).to_vec(), |folder| vec![folder]);
    folders.into_iter().flat_map(files).collect()
}

/// The plugins of a list, or the single one.
pub fn plugins(list: &Value) -> Vec<Value> {
    list.get("plugins").and_then(Value::as_array).cloned().unwrap_or_else(|| vec![list.clone()])
}

/// A plugin's configuration with the name of its network.
pub fn named(list: &Value, plugin: &Value) -> Value {
    let mut config = plugin.clone();
    if let (Some(keys), Some(name)) = (config.as_object_mut(), list.get("name")) {
        keys.insert("name".to_owned(), name.clone());
    }
    config
}

/// The files that libcni reads.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| is_list(path)).collect();
    files.sort();
    files
}

/// Whether libcni reads a file of this name.
pub fn is_list(file: &Path) -> bool {
    file.extension().is_some_and(|end| ["conf", "conflist", "json"].iter().any(|one| end == *one))
}

/// Reads a file. A pipe would be waited for, and a device may never end.
pub fn read(file: &Path) -> io::Result<String> {
    if fs::metadata(file)?.is_file() { fs::read_to_string(file) } else { Err(io::Error::other("not a regular file")) }
}

fn judge(file: &Path, text: io::Result<String>, has: &dyn Fn(&str) -> bool) -> Vec<Finding> {
    let shown = file.display();
    let unreadable = |why: String| {
        vec![Finding::problem(
            TOPIC,
            format!("{shown} cannot be read: {why}"),
            "mend it: no runtime can use it as it is",
        )]
    };
    let list: Value = match text
        .map_err(|error| error.to_string())
        .and_then(|text| serde_json::from_str(&text).map_err(|error| error.to_string()))
    {
        Ok(list) => list,
        Err(why) => return unreadable(why),
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
    if let Some(Err(why)) = status::of(&named(list, plugin)) {
        let says = format!("{shown}: the plugin {kind} is not ready: {why}");
        findings.push(Finding::problem(TOPIC, says, "what it says must be mended before containers come"));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::finding::Severity;
    use super::*;

    fn judged(text: &str) -> Vec<(Severity, String)> {
        let findings = judge(Path::new("/n.conflist"), Ok(text.to_owned()), &|kind| kind != "absent");
        findings.into_iter().map(|one| (one.severity, one.says)).collect()
    }

    #[test]
    fn what_is_no_file_is_not_read() {
        let said = |path: &str| read(Path::new(path)).expect_err("refused").to_string();
        assert_eq!(["/dev/zero", "/"].map(said), ["not a regular file"; 2]);
    }

    #[test]
    fn what_no_runtime_could_use_is_named() {
        let [(Severity::Problem, says)] = &judged("{")[..] else { panic!("{:?}", judged("{")) };
        assert!(says.starts_with("/n.conflist cannot be read: EOF"), "{says}");
        let list = r#"{"name": "n", "plugins": [{"type": "foreign", "ipam": {"type": "absent"}}, {}]}"#;
        assert_eq!(
            judged(list),
            [
                (
                    Severity::Problem,
                    "/n.conflist needs the plugin absent, which is in no folder of a runtime".to_owned()
                ),
                (Severity::Problem, "/n.conflist has a plugin without a type".to_owned()),
            ]
        );
        assert_eq!(judged(r#"{"name": "n", "type": "foreign"}"#)[0].0, Severity::Fine);
    }
}
