//! The program, and what it came to.

use std::path::Path;
use std::process::Command;

/// A folder with programs that are no plugins.
pub const OTHERS: &str = "/usr/bin";

/// One run.
#[derive(Debug)]
pub struct Run {
    status: Option<i32>,
    pub said: String,
}

/// Compares two folders.
pub fn compare(plugins: &Path, reference: &Path, options: &[&str]) -> Run {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cni-conformance"));
    command.arg("compare").arg("--plugins").arg(plugins).arg("--reference").arg(reference).args(options);
    // The program needs no other folders.
    let output = command.env_remove("CNI_BIN_DIR").env_remove("CNI_REFERENCE_DIR").output().expect("start the program");
    let said = [output.stdout, output.stderr].concat();
    Run { status: output.status.code(), said: String::from_utf8_lossy(&said).into_owned() }
}

impl Run {
    /// Requires this status and these words.
    #[track_caller]
    pub fn ends_with(&self, status: i32, words: &str) {
        assert_eq!(self.status, Some(status), "{}", self.said);
        assert!(self.said.contains(words), "must say {words:?}: {}", self.said);
    }

    /// The history that the command in the output lives through again.
    #[track_caller]
    pub fn history(&self) -> &str {
        let (_, rest) = self.said.split_once("--history '").unwrap_or_else(|| panic!("no history: {}", self.said));
        rest.split_once('\'').unwrap_or_else(|| panic!("no end of the history: {}", self.said)).0
    }
}
