//! The cases that are built into this program.

use std::path::PathBuf;
use std::sync::Arc;

use cni_conformance::case::{Case, Subject, Variant, variants};
use cni_conformance::plugins;

use crate::preflight::{self, Problem};

include!(concat!(env!("OUT_DIR"), "/cases.rs"));

/// All cases, in the order of their names.
///
/// # Panics
/// If one is no case, which the tests of this program show.
pub fn cases() -> Vec<Case> {
    CASES.iter().map(|(name, text)| parse(name, text)).collect()
}

fn parse(name: &str, text: &str) -> Case {
    let case = Case::parse(name, text).unwrap_or_else(|error| panic!("{name}: {error}"));
    case.with_example(|plugin| {
        let page = PAGES.iter().find(|(of, _)| *of == plugin);
        page.unwrap_or_else(|| panic!("{name}: no page of {plugin}")).1.to_owned()
    })
}

/// All ways to carry them out, for the plugins that this project knows, and for others by their configurations.
pub fn all_variants(configurations: &[PathBuf]) -> Result<Vec<Variant>, Problem> {
    let mut subjects: Vec<Arc<Subject>> = plugins::ALL.iter().map(|plugin| Arc::new(Subject::known(plugin))).collect();
    for file in configurations {
        subjects.push(Arc::new(preflight::foreign(file)?));
    }
    Ok(variants(cases(), &subjects))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use cni_conformance::case::requirement;

    use super::{all_variants, cases};

    #[test]
    fn what_a_plugin_can_break_has_a_case_in_each_version() {
        let cases = cases();
        for requirement in requirement::all() {
            let mut shown = BTreeSet::new();
            for case in cases.iter().filter(|case| case.spec.iter().any(|name| name == requirement.name)) {
                // One version stands for all where the plugin does not get as far as the configuration.
                let stands_for_all = !case.is_for_each_plugin() || case.versions() == ["1.0.0"];
                shown.extend(if stands_for_all { requirement::VERSIONS.to_vec() } else { case.versions() });
            }
            for passage in &requirement.passages {
                let name = requirement.name;
                assert_eq!(shown.contains(passage.version), requirement.is_for_plugins(), "{name} {}", passage.version);
            }
        }
    }

    #[test]
    fn names_are_different_and_each_plugin_has_some() {
        let all = all_variants(&[]).expect("variants");
        let names: BTreeSet<String> = all.iter().map(super::Variant::name).collect();
        assert_eq!(names.len(), all.len());
        for plugin in cni_conformance::plugins::ALL {
            let of_plugin = names.iter().filter(|name| name.contains(&format!("/{plugin}/"))).count();
            assert!(of_plugin >= 20, "{plugin} has {of_plugin} runs");
        }
    }
}
