//! No case passes with every plugin: each fails with plugins that always succeed and do nothing, or with plugins that
//! always fail.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use cni_conformance::{plugins, script};
use serde_json::Value;

use crate::run::{cases, document, finished, text, word};

/// What all stand-ins answer to VERSION, so that their cases run.
const VERSION: &str = r#"
if [ "$CNI_COMMAND" = VERSION ]; then
    echo '{"cniVersion": "1.1.0", "supportedVersions": ["0.3.1", "0.4.0", "1.0.0", "1.1.0"]}'
    exit 0
fi
"#;

/// A folder of one script under the name of every plugin, which is there until the end of the test.
pub struct StandIns(PathBuf);

impl StandIns {
    pub fn new(name: &str, lines: &str) -> Self {
        Self::below(Path::new(env!("CARGO_TARGET_TMPDIR")), name, lines)
    }

    pub fn below(parent: &Path, name: &str, lines: &str) -> Self {
        let folder = parent.join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder for stand-ins");
        for plugin in plugins::ALL {
            script::install(&folder.join(plugin), lines);
        }
        Self(folder)
    }

    pub fn folder(&self) -> &Path {
        &self.0
    }
}

impl Drop for StandIns {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).expect("remove the stand-ins");
    }
}

/// Group, topic and what: a case's name without plugin and version.
fn template(name: &str) -> String {
    name.split('/').take(3).collect::<Vec<_>>().join("/")
}

/// One case of every template.
fn one_of_each() -> Vec<String> {
    let mut list = Command::new(env!("CARGO_BIN_EXE_cni-conformance"));
    list.args(["run", "--list"]);
    let mut chosen = BTreeMap::new();
    for line in text(&finished(list).stdout).lines() {
        let name = line.split_whitespace().next().expect("a line begins with a name");
        // This machine's kernel may lack the links of the others.
        if plugins::that_can_add().iter().any(|plugin| name.contains(&format!("/{plugin}/"))) {
            chosen.entry(template(name)).or_insert_with(|| name.to_owned());
        }
    }
    assert!(chosen.len() > 150, "{} templates", chosen.len());
    chosen.into_values().collect()
}

fn passed(document: &Value) -> BTreeSet<String> {
    let passed = cases(document).iter().filter(|case| case["outcome"] == "passed");
    passed.map(|case| word(case, "name").to_owned()).collect()
}

#[test]
fn no_case_passes_with_plugins_that_say_yes_and_with_plugins_that_say_no() {
    let names = one_of_each();
    let mut arguments = vec!["--filter"];
    arguments.extend(names.iter().map(String::as_str));
    let yes = StandIns::new("yes", &format!("{VERSION}exit 0\n"));
    let no = StandIns::new(
        "no",
        &format!("{VERSION}echo '{{\"cniVersion\": \"1.0.0\", \"code\": 100, \"msg\": \"no\"}}'\nexit 1\n"),
    );
    let [yes, no] = [yes, no].map(|plugins| passed(&document(plugins.folder(), &arguments)));
    let both: Vec<&String> = yes.intersection(&no).collect();
    // What these ask for is the answer of the stand-ins to VERSION.
    let about_version = |name: &&&String| name.contains("/version/");
    let blind: Vec<&&String> = both.iter().filter(|name| !about_version(name)).collect();
    assert!(blind.is_empty(), "these pass with plugins that do nothing either way: {blind:#?}");
    assert!(both.len() < 10, "{both:#?}");
}

#[test]
fn cases_about_version_fail_with_plugins_that_answer_nothing_to_it() {
    let mute = StandIns::new("mute", "exit 0\n");
    let document = document(mute.folder(), &["--filter", "/version/"]);
    for case in cases(&document).iter().filter(|case| case["plugin"] == "bridge") {
        assert_eq!(case["outcome"], "failed", "{case}");
    }
}
