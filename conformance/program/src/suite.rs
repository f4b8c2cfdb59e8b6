//! The cases of the program `cni-conformance`: what a plugin must do, as tables.
//!
//! A [`Template`] is one thing that plugins of some kind must do in some versions of the SPEC; a [`Case`] is a
//! template for one plugin and one version, on its own [`PrivateHost`]. The requirements of the SPEC are a table too
//! ([`requirement::all`]). A test compares the two: each requirement that a plugin can break has a case, and no case
//! names an unknown requirement.

pub mod case;
pub mod damage;
pub mod dhcp_lan;
pub mod host;
pub mod ipam;
pub mod judge;
pub mod reference;
pub mod report;
pub mod requirement;
pub mod robustness;
mod settled;
pub mod spec;
pub mod subject;
pub mod version;

pub use case::{Case, CaseSource, Group, Template, Topic, cases_of};
pub use host::{CaseContainer, PrivateHost};
pub use judge::{CaseVerdict, Mismatch};
pub use report::{CaseEnding, CaseReport};
pub use requirement::{Breaker, Obligation, Requirement};
pub use subject::{PluginKind, PluginUnderTest};
pub use version::SpecVersion;

/// Every template, in the order in which its cases run.
pub fn templates() -> impl Iterator<Item = &'static Template> {
    let groups = [spec::TABLES, reference::TABLES, robustness::TABLES];
    groups.into_iter().flatten().flat_map(|table| table.iter())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use super::{Breaker, Case, CaseSource, PluginUnderTest, SpecVersion, Template, cases_of, requirement, templates};
    use cni_conformance::plugins;

    fn all() -> Vec<Case> {
        cases_of(&plugins::ALL.map(|plugin| Arc::new(PluginUnderTest::of(plugin))))
    }

    #[test]
    fn whatever_a_plugin_can_break_has_a_case() {
        let shown: BTreeSet<&str> = templates().flat_map(|template| template.requirements()).copied().collect();
        for requirement in requirement::all() {
            let wanted = requirement.breaker == Breaker::Plugin;
            assert_eq!(shown.contains(requirement.id), wanted, "{}", requirement.id);
        }
    }

    #[test]
    fn each_version_of_a_requirement_has_a_case() {
        let mut shown = BTreeSet::new();
        for case in all() {
            let versions = if case.template.once { SpecVersion::ALL.to_vec() } else { vec![case.version] };
            let names = case.template.requirements().iter();
            shown.extend(names.flat_map(|name| versions.iter().map(move |version| (*name, *version))));
        }
        for requirement in requirement::all().filter(|requirement| requirement.breaker == Breaker::Plugin) {
            for passage in requirement.passages {
                assert!(
                    shown.contains(&(requirement.id, passage.version)),
                    "{} in {}",
                    requirement.id,
                    passage.version
                );
            }
        }
    }

    #[test]
    fn no_case_names_a_requirement_that_is_not_there() {
        for template in templates() {
            for name in template.requirements() {
                assert!(requirement::named(name).is_some(), "{name} of {}", template.what);
            }
        }
    }

    #[test]
    fn each_plugin_has_cases() {
        let cases = all();
        for plugin in plugins::ALL {
            let of_plugin = cases.iter().filter(|case| case.subject.plugin == plugin).count();
            assert!(of_plugin >= 20, "{plugin} has {of_plugin} cases");
        }
    }

    #[test]
    fn the_page_of_each_plugin_has_cases() {
        for plugin in plugins::ALL {
            let of_page =
                |template: &&Template| matches!(template.source, CaseSource::Reference(page) if page == plugin);
            let has_effects = !cni_catalog::test_data(plugin).effects.is_empty();
            assert!(
                has_effects || templates().filter(of_page).count() > 0,
                "plugins/{plugin}/plugin.json: no effects, and no case in suite/reference"
            );
        }
    }

    /// So that the name of a case chooses this case alone.
    #[test]
    fn no_name_is_part_of_another() {
        let mut names: Vec<String> = all().iter().map(Case::name).collect();
        names.sort();
        for pair in names.windows(2) {
            assert!(!pair[1].starts_with(&pair[0]), "{} and {}", pair[0], pair[1]);
        }
        let whats: BTreeSet<_> = templates().map(|template| (template.topic.to_string(), template.what)).collect();
        assert!(whats.len() > 60, "{}", whats.len());
    }

    #[test]
    fn every_template_has_a_case() {
        let cases = all();
        for template in templates() {
            assert!(cases.iter().any(|case| std::ptr::eq(case.template, template)), "{}", template.what);
        }
    }
}
