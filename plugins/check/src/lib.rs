//! Checks network configuration lists against the rows of the plugins, and makes a JSON Schema of the rows.
//!
//! CNI ignores unknown keys, so a misspelt key has no effect and no error. This crate compares a list with
//! `plugins/*/plugin.json`: unknown keys, types, limits, formats, capabilities, and the order of plugins. Keys of
//! plugins without a row are not judged. This crate reads no file: `cni-plugins check` does.
#![forbid(unsafe_code)]

mod finding;
mod list;
mod nearest;
mod network;
mod object;
mod plugin;
mod ranges;
pub mod schema;
mod tree;
mod value;

pub use finding::Finding;
pub use network::Network;

/// The findings in one file, and what to compare with other files.
#[derive(Debug, Default)]
pub struct Judgement {
    pub findings: Vec<Finding>,
    pub network: Network,
}

/// Judges the text of a file: a configuration list, or a single configuration.
pub fn judge(text: &str) -> Judgement {
    let mut judgement = Judgement::default();
    match serde_json::from_str(text) {
        Ok(list) => list::judge(&list, &mut judgement.network, &mut judgement.findings),
        Err(error) => judgement.findings.push(Finding::new(
            format!("line {}, column {}", error.line(), error.column()),
            format!("this is not JSON: {error}"),
            "correct the syntax; no runtime can read the file".to_owned(),
        )),
    }
    judgement
}
