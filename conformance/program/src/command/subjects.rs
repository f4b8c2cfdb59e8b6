//! What the plugins of a folder say of themselves, before anything is asked of them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use cni_conformance::case::Variant;
use cni_conformance::child::{self, Limit};
use serde_json::Value;

/// The time limit for each answer.
const LIMIT: Duration = Duration::from_secs(10);

/// The plugins of a folder.
pub struct Plugins {
    folder: PathBuf,
    known: BTreeMap<String, Plugin>,
}

struct Plugin {
    is_there: bool,
    /// `None` if its answer is invalid: then its cases show the error.
    versions: Option<Vec<String>>,
    /// Whether it says that it is one of the reference's, and not of this project.
    is_of_the_reference: bool,
}

impl Plugins {
    /// Asks all plugins that these cases need.
    pub fn of(folder: &Path, variants: &[Variant]) -> Self {
        let mut known = BTreeMap::new();
        for plugin in variants.iter().flat_map(Variant::plugins) {
            known.entry(plugin.clone()).or_insert_with(|| Plugin::ask(&folder.join(&plugin), &plugin));
        }
        Self { folder: folder.to_owned(), known }
    }

    /// What is missing for a case.
    pub fn lack(&self, variant: &Variant) -> Option<String> {
        let plugins = variant.plugins();
        let missing = plugins.iter().find(|plugin| !self.known[*plugin].is_there);
        if let Some(plugin) = missing {
            return Some(format!("there is no {plugin} in {}", self.folder.display()));
        }
        for plugin in &plugins {
            let versions = self.known[plugin].versions.as_deref();
            let unknown = |version: &String| versions.is_some_and(|versions| !versions.contains(version));
            if let Some(version) = variant.versions().into_iter().find(unknown) {
                return Some(format!("the plugin does not know version {version} of the SPEC"));
            }
        }
        let feature = variant.case.needs().filter(|feature| !feature.is_here());
        feature.map(|feature| format!("the running kernel lacks {feature}")).or_else(|| variant.lacks())
    }

    /// Whether the reference's differences are to be expected.
    pub fn are_of_the_reference(&self, variant: &Variant) -> bool {
        variant.plugins().iter().any(|plugin| self.known[plugin].is_of_the_reference)
    }
}

impl Plugin {
    fn ask(path: &Path, name: &str) -> Self {
        if !path.exists() {
            return Self { is_there: false, versions: None, is_of_the_reference: false };
        }
        let ask = |command: &[(&str, &str)], input: &[u8]| {
            let mut program = Command::new(path);
            program.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").envs(command.iter().copied());
            child::run(program, input, Limit::Kill(LIMIT))
        };
        let answer = ask(&[("CNI_COMMAND", "VERSION")], br#"{"cniVersion":"1.0.0"}"#);
        let about = ask(&[], b"");
        let about = about.stdout + &about.stderr;
        Self {
            is_there: true,
            versions: versions(&answer.stdout),
            is_of_the_reference: about.contains(&format!("CNI {name} plugin")) && !about.contains("+rs"),
        }
    }
}

fn versions(answer: &str) -> Option<Vec<String>> {
    let answer: Value = serde_json::from_str(answer).ok()?;
    let list = answer["supportedVersions"].as_array()?;
    Some(list.iter().filter_map(|version| version.as_str().map(str::to_owned)).collect())
}
