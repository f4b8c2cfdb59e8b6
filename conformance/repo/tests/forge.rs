//! Files that other programs read, and that no test runs: manifests for clusters, workflows and issue templates of the forge.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use cni_conformance::child::{Limit, run};
use cni_repo::top;
use serde_json::{Value, json};

const LIMIT: Limit = Limit::Fail(Duration::from_secs(60));

/// A file as JSON, by Debian's Python and its reader of the format.
fn read(reader: &str, file: &Path) -> Value {
    let mut command = Command::new("/usr/bin/python3");
    command.arg("-c").arg(
        format!("import sys, json, {reader}; json.dump({reader}.READ(open(sys.argv[1])), sys.stdout)")
            .replace("READ", if reader == "yaml" { "safe_load" } else { "load" }),
    );
    command.arg(file);
    let read = run(command, b"", LIMIT).expect_success().stdout;
    serde_json::from_str(&read).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

fn files(folder: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(top().join(folder)).unwrap_or_else(|error| panic!("list {folder}: {error}"));
    entries.map(|entry| entry.expect("an entry").path()).collect()
}

/// What the image is called in manifests.
fn image() -> String {
    format!("registry.example/cni-plugins-rs:{}", env!("CARGO_PKG_VERSION"))
}

#[test]
fn the_daemonset_installs_the_plugins_on_every_node() {
    let set = read("yaml", &top().join("packaging/daemonset.yaml"));
    assert_eq!((&set["apiVersion"], &set["kind"]), (&json!("apps/v1"), &json!("DaemonSet")));
    assert_eq!(set["spec"]["selector"]["matchLabels"], set["spec"]["template"]["metadata"]["labels"]);
    let pod = &set["spec"]["template"]["spec"];
    assert_eq!(pod["tolerations"], json!([{"operator": "Exists"}]));
    let install = &pod["initContainers"][0];
    assert_eq!(install["image"], image());
    assert_eq!(install["args"], json!(["install", "/host/opt/cni/bin"]));
    assert_eq!(install["volumeMounts"][0]["name"], pod["volumes"][0]["name"]);
    assert_eq!(install["volumeMounts"][0]["mountPath"], install["args"][1]);
    assert_eq!(pod["volumes"][0]["hostPath"]["path"], "/opt/cni/bin");
    assert_eq!(pod["containers"].as_array().map(Vec::len), Some(1), "a pod needs a container that stays");
}

#[test]
fn the_nomad_job_installs_the_plugins_on_every_client() {
    let jobs = read("hcl", &top().join("packaging/cni-plugins.nomad.hcl"));
    let job = &jobs["job"]["cni-plugins-rs"];
    assert_eq!((&job["type"], &job["datacenters"]), (&json!("sysbatch"), &json!(["*"])));
    let task = &job["group"]["install"]["task"]["install"];
    assert_eq!((&task["driver"], &task["config"]["image"]), (&json!("docker"), &json!(image())));
    assert_eq!(task["config"]["args"], json!(["install", "/host/opt/cni/bin"]));
    assert_eq!(task["config"]["volumes"], json!(["/opt/cni/bin:/host/opt/cni/bin"]));
    assert_eq!(task["config"]["network_mode"], "none", "a network of Nomad's would need the plugins");
}

#[test]
fn workflows_run_scripts_of_the_repository_and_nothing_else() {
    let workflows = files(".github/workflows");
    assert_eq!(workflows.len(), 2);
    for file in workflows {
        let workflow = read("yaml", &file);
        for (name, job) in workflow["jobs"].as_object().expect("jobs") {
            for step in job["steps"].as_array().unwrap_or_else(|| panic!("{name} has no steps")) {
                let Some(line) = step["run"].as_str() else {
                    assert_eq!(step["uses"], "actions/checkout@v4", "{name}");
                    continue;
                };
                let script =
                    line.strip_prefix("sudo -E ").unwrap_or(line).split_whitespace().next().unwrap_or_default();
                assert!(script.starts_with("scripts/") && top().join(script).exists(), "{name}: {line}");
                assert!(!line.contains([';', '|', '&', '\n']), "{name}: {line}");
            }
        }
    }
}

#[test]
fn who_reports_a_defect_is_asked_for_what_doctor_says() {
    for file in files(".github/ISSUE_TEMPLATE").iter().filter(|file| !file.ends_with("config.yml")) {
        let form = read("yaml", file);
        let fields = form["body"].as_array().expect("fields");
        let doctor =
            fields.iter().find(|field| field["id"] == "doctor").unwrap_or_else(|| panic!("{}", file.display()));
        assert_eq!(doctor["attributes"]["label"], "cni-plugins doctor --json");
        if file.ends_with("defect.yml") {
            assert_eq!(doctor["validations"]["required"], true);
        }
    }
}
