//! What the SPEC requires of plugins and of runtimes: `conformance/requirements.txt`, one block for each sentence with a MUST or a SHOULD.

use std::fmt;
use std::sync::OnceLock;

use serde::Serialize;

/// The versions of the SPEC that cases are about: the first with CHECK, the next, and the first with GC and STATUS.
pub const VERSIONS: [&str; 3] = ["0.4.0", "1.0.0", "1.1.0"];

/// What a requirement obliges to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Obligation {
    /// There may be reasons to do otherwise.
    Should,
    /// There is no way around it.
    Must,
}

/// Where a version of the SPEC states a requirement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Passage {
    /// The version.
    pub version: &'static str,
    /// The obligation in that version.
    pub obligation: Obligation,
    /// The heading in that version.
    pub section: &'static str,
}

/// One requirement of the SPEC.
#[derive(Debug, Serialize)]
pub struct Requirement {
    /// Its name, as cases write it.
    pub name: &'static str,
    /// The requirement, in our words.
    pub says: &'static str,
    /// Its passages, one for each version that has it.
    pub passages: Vec<Passage>,
}

impl Requirement {
    /// Whether a plugin can break it; others are for runtimes and authors of configurations.
    pub fn is_for_plugins(&self) -> bool {
        !self.name.starts_with("runtime-")
    }

    /// Where a version says it, if it does.
    pub fn passage(&self, version: &str) -> Option<&Passage> {
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

/// Every requirement of the three versions.
///
/// # Panics
/// If a line of the table cannot be read.
pub fn all() -> &'static [Requirement] {
    static PARSED: OnceLock<Vec<Requirement>> = OnceLock::new();
    PARSED.get_or_init(|| parse(include_str!("../../requirements.txt")))
}

/// The requirement of this name.
pub fn named(name: &str) -> Option<&'static Requirement> {
    all().iter().find(|requirement| requirement.name == name)
}

fn parse(table: &'static str) -> Vec<Requirement> {
    let mut found: Vec<Requirement> = Vec::new();
    for line in table.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match (line.strip_prefix("    "), found.last_mut()) {
            (Some(line), Some(requirement)) => requirement.passages.push(passage(line)),
            (_, _) => {
                let (name, says) = line.split_once(": ").unwrap_or_else(|| panic!("requirements.txt: {line:?}"));
                found.push(Requirement { name, says, passages: Vec::new() });
            }
        }
    }
    found
}

fn passage(line: &'static str) -> Passage {
    let mut words = line.splitn(3, ' ');
    match (words.next(), words.next(), words.next()) {
        (Some(version), Some("MUST"), Some(section)) => Passage { version, obligation: Obligation::Must, section },
        (Some(version), Some("SHOULD"), Some(section)) => Passage { version, obligation: Obligation::Should, section },
        _ => panic!("requirements.txt: {line:?}"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{VERSIONS, all};

    #[test]
    fn each_requirement_has_one_name_and_one_place_in_a_version() {
        let mut names = BTreeSet::new();
        for requirement in all() {
            assert!(names.insert(requirement.name), "{} is there twice", requirement.name);
            let versions: BTreeSet<_> = requirement.passages.iter().map(|passage| passage.version).collect();
            assert!(!versions.is_empty() && versions.len() == requirement.passages.len(), "{}", requirement.name);
            assert!(versions.iter().all(|version| VERSIONS.contains(version)), "{}", requirement.name);
        }
        assert!(names.len() > 80, "{} requirements", names.len());
    }
}
