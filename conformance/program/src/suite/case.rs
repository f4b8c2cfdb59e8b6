//! Templates, and their cases: one for each plugin and version.

use std::fmt;
use std::sync::Arc;

use cni_catalog::test_data;

use super::host::PrivateHost;
use super::judge::CaseVerdict;
use super::requirement::{self, Passage};
use super::subject::{PluginKind, PluginUnderTest};
use super::version::SpecVersion;

/// The origin of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// The text of the SPEC.
    Spec,
    /// What the pages of the reference plugins promise.
    Reference,
    /// Failures of real hosts.
    Robustness,
}

/// The topic of a case, in the order in which cases run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topic {
    /// VERSION, and the version of configurations.
    Version,
    /// Variables and standard input.
    Parameters,
    /// Error objects.
    Errors,
    /// ADD
    Add,
    /// The result of ADD.
    Result,
    /// CHECK
    Check,
    /// DEL
    Del,
    /// STATUS
    Status,
    /// GC
    Gc,
    /// Plugins that are called by plugins.
    Delegation,
}

/// The source of a template.
#[derive(Debug, Clone, Copy)]
pub enum CaseSource {
    /// Requirements of the SPEC by name; the first says which versions the case is for.
    Spec(&'static [&'static str]),
    /// A page of the reference set.
    Reference(&'static str),
    /// No text.
    Robustness,
}

/// The plugins that a template is for.
#[derive(Debug, Clone, Copy)]
pub enum PluginSelection {
    /// Every one.
    All,
    /// Plugins of these kinds, including unknown ones.
    Kinds(&'static [PluginKind]),
    /// Those that ask an IPAM plugin, and that the suite knows.
    Delegating,
    /// Known plugins that call an IPAM plugin, except these.
    DelegatingBut(&'static [&'static str]),
    /// These.
    Only(&'static [&'static str]),
    /// Plugins whose rows say how to remove what they make.
    Damageable,
    /// Plugins whose rows say what they make.
    WithEffects,
    /// Known plugins, except these.
    AllBut(&'static [&'static str]),
}

/// What must work before a case makes sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// Nothing, not even that the plugin knows the version.
    Nothing,
    /// The plugin knows the version.
    Version,
    /// The plugin knows the version, and ADD can work on this machine.
    Add,
    /// The plugin supports the version, and there is [a server](super::dhcp_lan::SERVER) to test it with.
    DhcpServer,
}

/// One thing that plugins must do.
#[derive(Debug)]
pub struct Template {
    /// The topic.
    pub topic: Topic,
    /// The middle of its cases' names.
    pub what: &'static str,
    /// The requirement, in a sentence.
    pub says: &'static str,
    /// Its source.
    pub source: CaseSource,
    /// The plugins that it is for.
    pub who: PluginSelection,
    /// What must work before.
    pub needs: Needs,
    /// Whether one version stands for all, since the plugin does not get as far as the configuration, or does not look
    /// at its version.
    pub once: bool,
    /// Finds out whether the plugin does it.
    pub run: fn(&PrivateHost) -> CaseVerdict,
}

/// A template for one plugin and version.
#[derive(Debug, Clone)]
pub struct Case {
    /// The requirement.
    pub template: &'static Template,
    /// The plugin.
    pub subject: Arc<PluginUnderTest>,
    /// The version of its configuration.
    pub version: SpecVersion,
}

impl Template {
    /// Makes a template for every plugin whose ADD works; its source must be set too.
    pub const fn new(
        topic: Topic,
        what: &'static str,
        says: &'static str,
        run: fn(&PrivateHost) -> CaseVerdict,
    ) -> Self {
        Self {
            topic,
            what,
            says,
            source: CaseSource::Robustness,
            who: PluginSelection::All,
            needs: Needs::Add,
            once: false,
            run,
        }
    }

    /// Names the requirements that it shows.
    #[must_use]
    pub const fn spec(mut self, requirements: &'static [&'static str]) -> Self {
        self.source = CaseSource::Spec(requirements);
        self
    }

    /// Is what the page of one plugin promises.
    #[must_use]
    pub const fn page(mut self, plugin: &'static [&'static str; 1]) -> Self {
        self.source = CaseSource::Reference(plugin[0]);
        self.who = PluginSelection::Only(plugin);
        self
    }

    /// Is what all pages of the reference set promise.
    #[must_use]
    pub const fn set(mut self, pages: &'static str) -> Self {
        self.source = CaseSource::Reference(pages);
        self
    }

    /// Restricts the template to these plugins.
    #[must_use]
    pub const fn of(mut self, who: PluginSelection) -> Self {
        self.who = who;
        self
    }

    /// Shows in one version what holds in all.
    #[must_use]
    pub const fn once(mut self) -> Self {
        self.once = true;
        self
    }

    /// Needs less than an ADD that works.
    #[must_use]
    pub const fn needs(mut self, needs: Needs) -> Self {
        self.needs = needs;
        self
    }

    /// Returns where its cases come from.
    pub fn group(&self) -> Group {
        match self.source {
            CaseSource::Spec(_) => Group::Spec,
            CaseSource::Reference(_) => Group::Reference,
            CaseSource::Robustness => Group::Robustness,
        }
    }

    /// Returns the requirements that its cases show.
    pub fn requirements(&self) -> &'static [&'static str] {
        match self.source {
            CaseSource::Spec(names) => names,
            CaseSource::Reference(_) | CaseSource::Robustness => &[],
        }
    }

    fn is_for(&self, subject: &PluginUnderTest) -> bool {
        let chosen = match self.who {
            PluginSelection::All => true,
            PluginSelection::Kinds(kinds) => kinds.contains(&subject.kind),
            PluginSelection::Delegating => subject.delegates(),
            PluginSelection::DelegatingBut(names) => subject.delegates() && !names.contains(&subject.plugin.as_str()),
            PluginSelection::Only(names) => subject.known && names.contains(&subject.plugin.as_str()),
            PluginSelection::Damageable => subject.known && test_data(&subject.plugin).damage.is_some(),
            PluginSelection::WithEffects => subject.known && !test_data(&subject.plugin).effects.is_empty(),
            PluginSelection::AllBut(names) => subject.known && !names.contains(&subject.plugin.as_str()),
        };
        chosen && (self.needs != Needs::Add || subject.stands_alone())
    }

    /// The versions with the first of its requirements; without one, the version that every set of plugins knows.
    fn versions(&self) -> Vec<SpecVersion> {
        match self.requirements().first().and_then(|name| requirement::named(name)) {
            Some(requirement) if !self.once => requirement.passages.iter().map(|passage| passage.version).collect(),
            Some(_) | None => vec![SpecVersion::V1_0_0],
        }
    }
}

impl Case {
    /// Returns its name, which is no part of another case's name: group, topic, what, plugin and version.
    pub fn name(&self) -> String {
        let Template { topic, what, .. } = self.template;
        format!("{}/{topic}/{what}/{}/{}", self.template.group(), self.subject.plugin, self.version)
    }

    /// Returns the passage of the SPEC, for cases from there.
    pub fn passage(&self) -> Option<&'static Passage> {
        requirement::named(self.template.requirements().first()?)?.passage(self.version)
    }

    /// Returns where it comes from, in words.
    pub fn source(&self) -> String {
        match (self.template.source, self.passage()) {
            (CaseSource::Spec(_), Some(passage)) => passage.to_string(),
            (CaseSource::Spec(names), None) => names.join(", "),
            (CaseSource::Reference(page), _) => format!("the reference set's page of {page}"),
            (CaseSource::Robustness, _) => "what goes wrong on real hosts".to_owned(),
        }
    }
}

/// Returns the cases of all templates for these plugins by group and topic, those of a template together.
pub fn cases_of(subjects: &[Arc<PluginUnderTest>]) -> Vec<Case> {
    let mut cases = Vec::new();
    for template in super::templates() {
        for subject in subjects.iter().filter(|subject| template.is_for(subject)) {
            let case = |version| Case { template, subject: Arc::clone(subject), version };
            cases.extend(template.versions().into_iter().map(case));
        }
    }
    cases.sort_by_key(|case| (case.template.group(), case.template.topic));
    cases
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Spec => "spec",
            Self::Reference => "reference",
            Self::Robustness => "robustness",
        })
    }
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Version => "version",
            Self::Parameters => "parameters",
            Self::Errors => "errors",
            Self::Add => "add",
            Self::Result => "result",
            Self::Check => "check",
            Self::Del => "del",
            Self::Status => "status",
            Self::Gc => "gc",
            Self::Delegation => "delegation",
        })
    }
}
