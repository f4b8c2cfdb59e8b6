//! The requirements of the SPEC: one row for each sentence with a MUST or a SHOULD, and the program that can break it.

mod add;
mod check;
mod del;
mod delegation;
mod errors;
mod network;
mod parameters;
mod results;
mod runtimes;
mod version;

use std::fmt;

use super::version::SpecVersion::{self, V0_4_0, V1_0_0, V1_1_0};

/// The obligation of a requirement: MUST or SHOULD.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Obligation {
    /// There is no way around it.
    Must,
    /// There may be reasons to do otherwise.
    Should,
}

/// The program that breaks a requirement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Breaker {
    /// The plugin; there are cases for it.
    Plugin,
    /// The runtime, or the author of the configuration.
    Runtime,
}

/// Where a version of the SPEC states a requirement.
#[derive(Debug, Clone, Copy)]
pub struct Passage {
    /// The version.
    pub version: SpecVersion,
    /// The obligation in that version.
    pub obligation: Obligation,
    /// The heading in that version.
    pub section: &'static str,
}

/// One requirement of the SPEC.
#[derive(Debug)]
pub struct Requirement {
    /// Its name in templates.
    pub id: &'static str,
    /// The requirement, in our words.
    pub says: &'static str,
    /// The program that can break it.
    pub breaker: Breaker,
    /// Its passages, one for each version that has it.
    pub passages: &'static [Passage],
}

impl Requirement {
    /// Returns where a version says it, if it does.
    pub fn passage(&self, version: SpecVersion) -> Option<&Passage> {
        self.passages.iter().find(|passage| passage.version == version)
    }
}

impl fmt::Display for Obligation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Must => "MUST",
            Self::Should => "SHOULD",
        })
    }
}

impl fmt::Display for Passage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of SPEC {}, \"{}\"", self.obligation, self.version, self.section)
    }
}

const TABLES: [&[Requirement]; 10] = [
    parameters::ALL,
    version::ALL,
    errors::ALL,
    add::ALL,
    results::ALL,
    del::ALL,
    check::ALL,
    network::ALL,
    delegation::ALL,
    runtimes::ALL,
];

/// Every requirement of the three versions.
pub fn all() -> impl Iterator<Item = &'static Requirement> {
    TABLES.into_iter().flatten()
}

/// Returns the requirement of this name.
pub fn named(id: &str) -> Option<&'static Requirement> {
    all().find(|requirement| requirement.id == id)
}

/// A MUST of the oldest version, under this heading.
const fn must_0_4(section: &'static str) -> Passage {
    Passage { version: V0_4_0, obligation: Obligation::Must, section }
}

const fn should_0_4(section: &'static str) -> Passage {
    Passage { version: V0_4_0, obligation: Obligation::Should, section }
}

const fn must_1_0(section: &'static str) -> Passage {
    Passage { version: V1_0_0, obligation: Obligation::Must, section }
}

const fn should_1_0(section: &'static str) -> Passage {
    Passage { version: V1_0_0, obligation: Obligation::Should, section }
}

const fn must_1_1(section: &'static str) -> Passage {
    Passage { version: V1_1_0, obligation: Obligation::Must, section }
}

const fn should_1_1(section: &'static str) -> Passage {
    Passage { version: V1_1_0, obligation: Obligation::Should, section }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_requirement_has_one_name_and_one_place_in_a_version() {
        let mut names = BTreeSet::new();
        for requirement in all() {
            assert!(names.insert(requirement.id), "{} is there twice", requirement.id);
            assert!(!requirement.passages.is_empty(), "{} stands nowhere", requirement.id);
            let versions: BTreeSet<_> = requirement.passages.iter().map(|passage| passage.version).collect();
            assert_eq!(versions.len(), requirement.passages.len(), "{}", requirement.id);
        }
    }
}
