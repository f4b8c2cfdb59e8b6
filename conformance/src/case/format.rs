//! The form of a case: comment, script, files.

use std::fmt;

use crate::kernel::Feature;
use crate::sandbox::Flavour;

/// What holds for every case, and a case may switch off with a reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// CHECK passes after ADD, and changes nothing.
    Check,
    /// DEL, called twice, leaves nothing of the containers.
    Restored,
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
    /// The pages whose statements it shows.
    pub pages: Vec<String>,
    /// The plugin whose page has the list.
    pub(super) example: Option<String>,
    pub(super) needs: Option<Feature>,
    pub(super) flavours: Vec<Flavour>,
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
            pages: Vec::new(),
            example: None,
            needs: None,
            flavours: flavours_of(text),
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
            (false, false) => Ok(case),
        }
    }

    /// Takes a line of the comment.
    fn take(&mut self, line: &str) -> Result<(), String> {
        let Some(comment) = line.strip_prefix('#').filter(|_| self.script.is_empty()) else { return Ok(()) };
        let comment = comment.trim();
        match comment.split_once(": ") {
            Some(("page", pages)) => self.pages.extend(pages.split_whitespace().map(str::to_owned)),
            Some(("differs", text)) => self.differs = Some(text.to_owned()),
            Some(("example", plugin)) => self.example = Some(plugin.to_owned()),
            Some(("needs", kind)) => self.needs = Some(feature(kind)?),
            Some(("flavours", names)) => {
                self.flavours = names.split_whitespace().map(flavour).collect::<Result<_, _>>()?;
            }
            Some(("off", what)) => self.off.push(standing(what)?),
            Some(_) | None => {
                self.about.push_str(if self.about.is_empty() { "" } else { " " });
                self.about.push_str(comment);
            }
        }
        Ok(())
    }

    /// The text of a file.
    pub(super) fn file(&self, name: &str) -> Option<&str> {
        self.files.iter().find(|(found, _)| found == name).map(|(_, text)| text.as_str())
    }

    /// The kinds of iptables that it is carried out with.
    pub fn flavours(&self) -> &[Flavour] {
        &self.flavours
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

fn flavour(name: &str) -> Result<Flavour, String> {
    match name {
        "nft" => Ok(Flavour::Nft),
        "legacy" => Ok(Flavour::Legacy),
        other => Err(format!("unknown flavour {other:?}: nft and legacy are known")),
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
        Some(_) | None => Err(format!("{text:?}: write \"check: WHY\" or \"restored: WHY\"")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_a_comment_a_script_and_files() {
        let page = "# What holds,\n# and why.\n# page: portmap\n# off: check: it has none\nadd web\n\n# said\ndel web\n-- a --\none\ntwo\n-- b --\n";
        let case = Case::parse("x/y", page).expect("a case");
        assert_eq!((case.about.as_str(), case.pages), ("What holds, and why.", vec!["portmap".to_owned()]));
        assert_eq!(case.script, [(5, "add web".to_owned()), (8, "del web".to_owned())]);
        assert_eq!(case.files, [("a".to_owned(), "one\ntwo\n".to_owned()), ("b".to_owned(), String::new())]);
        assert_eq!(case.off, [Standing::Check]);
    }

    #[test]
    fn what_is_no_case_is_refused_with_its_line() {
        let rows = [
            ("add web\n", "line 1: the comment that says what must hold is missing"),
            ("# Holds.\n", "line 1: the script is missing"),
            ("# Holds.\n# needs: ether\nadd web\n", "line 2: unknown kind of link \"ether\""),
            ("# Holds.\n# off: all\nadd web\n", "line 2: \"all\": write \"check: WHY\" or \"restored: WHY\""),
        ];
        for (page, text) in rows {
            assert_eq!(Case::parse("x", page).expect_err(page).to_string(), text);
        }
    }
}
