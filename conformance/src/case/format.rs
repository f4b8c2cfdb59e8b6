//! The form of a case: comment, script, files.

use std::fmt;

use serde_json::Value;

use super::requirement::{self, Obligation, Passage, VERSIONS};
use crate::kernel::Feature;
use crate::sandbox::Flavour;

/// What holds for every case, and a case may switch off with a reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// CHECK passes after ADD, and changes nothing.
    Check,
    /// DEL, called twice, leaves nothing of the containers.
    Restored,
    /// DEL leaves nothing of a plugin that was killed.
    Killed,
}

/// A script with its files.
#[derive(Debug, Clone)]
pub struct Case {
    /// Its path below the folder of cases, without the ending.
    pub name: String,
    /// What must hold, and why.
    pub about: String,
    /// What the reference does where it differs, and why this is better.
    pub differs: Option<String>,
    /// Requirements of the SPEC by name.
    pub spec: Vec<String>,
    /// The plugins that it is carried out for, in the words of `Subject::is_one_of`, where it has no list of its own.
    pub subjects: Vec<String>,
    /// The versions that it is carried out in, where these are not all that have one of its requirements.
    versions: Vec<&'static str>,
    /// The plugin whose page has the list, and the list.
    pub(super) example: Option<(String, Value)>,
    pub(super) needs: Option<Feature>,
    pub(super) flavours: Vec<Flavour>,
    is_for_nftables: bool,
    /// Whether the root of a user namespace may not do what it needs.
    pub(super) needs_root: bool,
    pub(super) off: Vec<Standing>,
    /// Each command with the number of its line.
    pub(super) script: Vec<(usize, String)>,
    pub(super) files: Vec<(String, String)>,
}

/// A page that is no case.
#[derive(Debug)]
pub struct CaseError {
    line: usize,
    text: String,
}

impl fmt::Display for CaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.text)
    }
}

impl Case {
    /// Parses a page.
    ///
    /// # Errors
    /// For a heading that is unknown or has an unknown value, and for a page without a comment or a script.
    pub fn parse(name: &str, text: &str) -> Result<Self, CaseError> {
        let mut case = Self {
            name: name.to_owned(),
            about: String::new(),
            differs: None,
            spec: Vec::new(),
            subjects: Vec::new(),
            versions: Vec::new(),
            example: None,
            needs: None,
            flavours: flavours_of(text),
            is_for_nftables: false,
            needs_root: false,
            off: Vec::new(),
            script: Vec::new(),
            files: Vec::new(),
        };
        for (number, line) in (1..).zip(text.lines()) {
            if let Some(name) = line.strip_prefix("-- ").and_then(|rest| rest.strip_suffix(" --")) {
                case.files.push((name.trim().to_owned(), String::new()));
            } else if let Some((_, content)) = case.files.last_mut() {
                content.push_str(line);
                content.push('\n');
            } else {
                case.take(line.trim()).map_err(|text| CaseError { line: number, text })?;
                let is_command = !line.trim().is_empty() && !line.trim().starts_with('#');
                case.script.extend(is_command.then(|| (number, line.trim().to_owned())));
            }
        }
        match (case.about.is_empty(), case.script.is_empty()) {
            (true, _) => Err(CaseError { line: 1, text: "the comment that says what must hold is missing".to_owned() }),
            (_, true) => Err(CaseError { line: 1, text: "the script is missing".to_owned() }),
            (false, false) if case.is_for_each_plugin() && case.versions().is_empty() => {
                Err(CaseError { line: 1, text: "the requirements of a case for each plugin are missing".to_owned() })
            }
            (false, false) => Ok(case),
        }
    }

    /// Takes a line of the comment.
    fn take(&mut self, line: &str) -> Result<(), String> {
        let Some(comment) = line.strip_prefix('#').filter(|_| self.script.is_empty()) else { return Ok(()) };
        let comment = comment.trim();
        match comment.split_once(": ") {
            Some(("differs", text)) => self.differs = Some(text.to_owned()),
            Some(("spec", names)) => {
                for name in names.split_whitespace() {
                    requirement::named(name).ok_or_else(|| format!("conformance/requirements.txt has no {name:?}"))?;
                    self.spec.push(name.to_owned());
                }
            }
            Some(("for", plugins)) => self.subjects.extend(plugins.split_whitespace().map(str::to_owned)),
            Some(("versions", versions)) => {
                self.versions = versions.split_whitespace().map(version).collect::<Result<_, _>>()?;
            }
            Some(("example", plugin)) => self.example = Some((plugin.to_owned(), Value::Null)),
            Some(("needs", "root")) => self.needs_root = true,
            Some(("needs", kind)) => self.needs = Some(feature(kind)?),
            Some(("flavours", names)) => {
                let (nftables, names): (Vec<&str>, _) = names.split_whitespace().partition(|name| *name == "nftables");
                self.is_for_nftables = !nftables.is_empty();
                self.flavours = names.into_iter().map(flavour).collect::<Result<_, _>>()?;
            }
            Some(("off", what)) => self.off.push(standing(what)?),
            Some((word, _)) if !self.about.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase()) => {
                return Err(format!("unknown heading {word:?}: conformance/cases/README.md has all"));
            }
            Some(_) | None => {
                self.about.push_str(if self.about.is_empty() { "" } else { " " });
                self.about.push_str(comment);
            }
        }
        Ok(())
    }

    /// Takes the example of a page, where the case asks for one; `page` reads that of a plugin.
    ///
    /// # Panics
    /// If the page has no example.
    #[must_use]
    pub fn with_example(mut self, page: impl FnOnce(&str) -> String) -> Self {
        if let Some((plugin, list)) = &mut self.example {
            *list = crate::page::example(&page(plugin));
        }
        self
    }

    /// The same list with another script, of which nothing is required but that it can be carried out.
    #[must_use]
    pub fn with_script(mut self, name: String, lines: Vec<String>) -> Self {
        if let Some((_, list)) = &mut self.example {
            list["cniVersion"] = "1.0.0".into();
        }
        let off = vec![Standing::Check, Standing::Restored];
        Self { name, script: (1..).zip(lines).collect(), differs: None, off, ..self }
    }

    /// The lines of its script.
    pub fn script(&self) -> impl Iterator<Item = &str> {
        self.script.iter().map(|(_, line)| line.as_str())
    }

    /// What its script does before the first ADD.
    pub fn preparation(&self) -> Vec<String> {
        self.script().take_while(|line| !line.starts_with("add ")).map(str::to_owned).collect()
    }

    /// Whether it is carried out for each of several plugins, since it has no list of its own.
    pub fn is_for_each_plugin(&self) -> bool {
        !self.subjects.is_empty()
    }

    /// The versions that a case for each plugin is carried out in: those with the first of its requirements, where it does not say others.
    pub fn versions(&self) -> Vec<&'static str> {
        if !self.versions.is_empty() {
            return self.versions.clone();
        }
        let first = self.spec.first().and_then(|name| requirement::named(name));
        first.into_iter().flat_map(|requirement| &requirement.passages).map(|passage| passage.version).collect()
    }

    /// Where a version states what it shows.
    pub fn passages(&self, version: &str) -> Vec<&'static Passage> {
        let all = self.spec.iter().filter_map(|name| requirement::named(name));
        all.filter_map(|requirement| requirement.passage(version)).collect()
    }

    /// What it obliges to in a version, if it shows requirements of the SPEC.
    pub fn obligation(&self, version: &str) -> Option<Obligation> {
        self.passages(version).into_iter().map(|passage| passage.obligation).max()
    }

    /// The lists that it is carried out with, as they are at first.
    pub fn lists(&self) -> Vec<Value> {
        let files = self.files.iter().filter(|(name, _)| name.ends_with(".conflist"));
        let parsed = files.filter_map(|(_, text)| serde_json::from_str(text).ok());
        parsed.chain(self.example.iter().map(|(_, list)| list.clone())).collect()
    }

    /// Whether a script of the case plays this plugin.
    pub(super) fn plays(&self, plugin: &str) -> bool {
        self.script.iter().any(|(_, line)| line.starts_with(&format!("plugin {plugin} ")))
    }

    /// The versions that the script sets.
    pub(super) fn versions_set(&self) -> impl Iterator<Item = String> {
        let words = self.script.iter().flat_map(|(_, line)| line.split_whitespace());
        words.filter_map(|word| word.split_once("cniVersion=").map(|(_, version)| version.to_owned()))
    }

    /// Whether the script has this line.
    pub(super) fn has_line(&self, line: &str) -> bool {
        self.script.iter().any(|(_, text)| text == line)
    }

    /// Whether it runs the administrator's tool, which reads the runtime's cache.
    pub(super) fn has_tool(&self) -> bool {
        self.script.iter().any(|(_, line)| line.starts_with("tool "))
    }

    /// Whether it cannot do without an ADD that works.
    pub fn needs_add(&self) -> bool {
        let adds = |line: &str| line.starts_with("add ") || line.starts_with("at-once ");
        let calls = |line: &str| line.starts_with("call ") && line.contains(" ADD");
        self.script.iter().any(|(_, line)| adds(line) || calls(line))
    }

    /// The text of a file.
    pub(super) fn file(&self, name: &str) -> Option<&str> {
        self.files.iter().find(|(found, _)| found == name).map(|(_, text)| text.as_str())
    }

    /// The kinds of iptables that it is carried out with.
    pub fn flavours(&self) -> &[Flavour] {
        &self.flavours
    }

    /// Whether it is carried out with the back end nftables too.
    pub const fn is_for_nftables(&self) -> bool {
        self.is_for_nftables
    }

    /// In how many ways it is carried out, if it has a list.
    pub fn ways(&self) -> usize {
        self.flavours.len() + usize::from(self.is_for_nftables)
    }

    /// The same case with the back end nftables of each plugin that has a choice.
    #[must_use]
    pub fn in_nftables(mut self) -> Self {
        let choices = [("\"portmap\"", "backend"), ("\"firewall\"", "backend"), ("\"ipMasq\": true", "ipMasqBackend")];
        for (_, text) in self.files.iter_mut().filter(|(name, _)| name.ends_with(".conflist")) {
            for (word, key) in choices {
                *text = text.replace(word, &format!("{word}, \"{key}\": \"nftables\""));
            }
        }
        self
    }

    /// What the kernel must have.
    pub const fn needs(&self) -> Option<Feature> {
        self.needs
    }
}

/// Only rules depend on the flavour.
fn flavours_of(text: &str) -> Vec<Flavour> {
    let makers = ["\"ipMasq\"", "\"portmap\"", "\"firewall\"", "\"macspoofchk\"", "\"consul-cni\""];
    if makers.iter().any(|maker| text.contains(maker)) { Flavour::ALL.to_vec() } else { vec![Flavour::Nft] }
}

fn version(text: &str) -> Result<&'static str, String> {
    let known = VERSIONS.into_iter().find(|version| *version == text);
    known.ok_or_else(|| format!("unknown version {text:?}: {} are known", VERSIONS.join(", ")))
}

fn flavour(name: &str) -> Result<Flavour, String> {
    match name {
        "nft" => Ok(Flavour::Nft),
        "legacy" => Ok(Flavour::Legacy),
        other => Err(format!("unknown flavour {other:?}: nft, legacy and nftables are known")),
    }
}

fn feature(kind: &str) -> Result<Feature, String> {
    match kind {
        "bridge-vlan" => Ok(Feature::BridgeVlans),
        kind => Feature::of_link(kind).ok_or_else(|| format!("unknown kind of link {kind:?}")),
    }
}

fn standing(text: &str) -> Result<Standing, String> {
    match text.split_once(": ") {
        Some(("check", _)) => Ok(Standing::Check),
        Some(("restored", _)) => Ok(Standing::Restored),
        Some(("killed", _)) => Ok(Standing::Killed),
        Some(_) | None => Err(format!("{text:?}: write \"check: WHY\", \"restored: WHY\" or \"killed: WHY\"")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_a_comment_a_script_and_files() {
        let page = "# What holds,\n# and why.\n# off: check: it has none\nadd web\n\n# said\ndel web\n-- a --\none\ntwo\n-- b --\n";
        let case = Case::parse("x/y", page).expect("a case");
        assert_eq!(case.about, "What holds, and why.");
        assert_eq!(case.script, [(4, "add web".to_owned()), (7, "del web".to_owned())]);
        assert_eq!(case.files, [("a".to_owned(), "one\ntwo\n".to_owned()), ("b".to_owned(), String::new())]);
        assert_eq!(case.off, [Standing::Check]);
    }

    #[test]
    fn what_is_no_case_is_refused_with_its_line() {
        let rows = [
            ("add web\n", "line 1: the comment that says what must hold is missing"),
            ("# Holds.\n", "line 1: the script is missing"),
            ("# Holds.\n# needs: ether\nadd web\n", "line 2: unknown kind of link \"ether\""),
            ("# Holds.\n# spec: no-such\nadd web\n", "line 2: conformance/requirements.txt has no \"no-such\""),
            (
                "# Holds.\n# need: vlan\nadd web\n",
                "line 2: unknown heading \"need\": conformance/cases/README.md has all",
            ),
            (
                "# Holds.\n# off: all\nadd web\n",
                "line 2: \"all\": write \"check: WHY\", \"restored: WHY\" or \"killed: WHY\"",
            ),
        ];
        for (page, text) in rows {
            assert_eq!(Case::parse("x", page).expect_err(page).to_string(), text);
        }
    }
}
