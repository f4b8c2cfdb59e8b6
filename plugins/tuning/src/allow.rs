//! The parameters that the administrator allows: a file with one pattern on each line. Without the file every
//! parameter of the container is allowed; with an empty file, none.

use std::path::Path;

use cni_core::error::{Code, Error, Failure};
use cni_plugin::host::Host;
use regex_lite::Regex;

use crate::error::TuningError;
use crate::sysctl::Parameter;

mod pattern;

use pattern::PatternFault;

/// The path of the administrator's list; nodes of OpenShift have such a file.
pub const PATH: &str = "/etc/cni/tuning/allowlist.conf";

/// A line that is no pattern. It is an error when it is reached, and never allows anything.
#[derive(Debug, thiserror::Error)]
pub enum AllowListError {
    /// It means nothing, or not the same to our engine.
    #[error("error parsing regexp: {fault}")]
    Fault { line: String, fault: PatternFault },
    /// Our engine does not take it.
    #[error("error parsing regexp: {source}")]
    Engine {
        line: String,
        #[source]
        source: regex_lite::Error,
    },
}

impl Failure for AllowListError {
    fn code(&self) -> Code {
        match self {
            Self::Fault { .. } | Self::Engine { .. } => Code::InvalidConfig,
        }
    }

    fn details(&self) -> String {
        match self {
            Self::Fault { line, .. } | Self::Engine { line, .. } => format!("the line {line:?} of {PATH}"),
        }
    }
}

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
        Err(TuningError::NotAllowed { key: key.to_owned(), patterns: self.0.clone(), list: PATH }.into())
    }
}

/// Whether a line matches a part of a key.
pub fn matches(line: &str, key: &str) -> Result<bool, AllowListError> {
    let pattern = pattern::translate(line).map_err(|fault| AllowListError::Fault { line: line.to_owned(), fault })?;
    let pattern = Regex::new(&pattern).map_err(|source| AllowListError::Engine { line: line.to_owned(), source })?;
    Ok(pattern.is_match(key))
}

#[cfg(test)]
mod tests;
