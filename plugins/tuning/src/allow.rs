//! The parameters that the administrator allows: a file with one pattern on each line. Without the file every
//! parameter of the container is allowed; with an empty file, none.

use std::fmt;
use std::path::Path;

use cni_core::error::Error;
use cni_core::fail;
use cni_plugin::host::Host;
use regex_lite::Regex;

use crate::sysctl::Parameter;

mod pattern;

/// The path of the administrator's list; nodes of OpenShift have such a file.
pub const PATH: &str = "/etc/cni/tuning/allowlist.conf";

/// The lines of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct AllowList(Vec<String>);

/// Verifies that the administrator allows all of these.
pub fn verify(parameters: &[Parameter], host: &mut dyn Host) -> Result<(), Error> {
    if parameters.is_empty() {
        return Ok(());
    }
    let Some(text) = host.files().administrators_file(Path::new(PATH))? else { return Ok(()) };
    let list = AllowList::parse(&text);
    parameters.iter().try_for_each(|parameter| list.verify(parameter.name.key()))
}

impl AllowList {
    /// Parses the lines; there are no comments.
    fn parse(text: &str) -> Self {
        Self(text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect())
    }

    fn verify(&self, key: &str) -> Result<(), Error> {
        for line in &self.0 {
            if matches(line, key)? {
                return Ok(());
            }
        }
        let text = format!("Only the following sysctls are allowed: [{}]", self.0.join(" "));
        Err(fail!(InvalidConfig, "Sysctl {key} is not allowed. {text}", details: "no line of {PATH} matches it"))
    }
}

/// Whether a line matches a part of a key.
///
/// # Errors
/// For a line that is no pattern, or means not the same to our engine.
pub fn matches(line: &str, key: &str) -> Result<bool, Error> {
    let no_pattern = |fault: &dyn fmt::Display| fail!(InvalidConfig, "error parsing regexp: {fault}", details: "the line {line:?} of {PATH}");
    let pattern = pattern::translate(line).map_err(|fault| no_pattern(&fault))?;
    Ok(Regex::new(&pattern).map_err(|fault| no_pattern(&fault))?.is_match(key))
}

#[cfg(test)]
mod tests;
