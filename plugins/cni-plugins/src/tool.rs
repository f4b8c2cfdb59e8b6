//! What the binary does under its own name: it tells what it is.

use std::process::ExitCode;

use super::{OUR_VERSION, PLUGINS};

/// Runs one verb of the administrator's tool.
#[expect(clippy::print_stdout, reason = "started by a person, not as a plugin: stdout is for reading")]
pub fn run(verb: Option<&str>) -> ExitCode {
    match verb {
        None | Some("help" | "--help" | "-h") => {
            print!("{}", help());
            ExitCode::SUCCESS
        }
        Some("version" | "--version" | "-V") => {
            println!("cni-plugins {OUR_VERSION}");
            ExitCode::SUCCESS
        }
        Some(other) => {
            eprintln!("cni-plugins: unknown verb {other:?}; `cni-plugins help` lists them");
            ExitCode::FAILURE
        }
    }
}

fn help() -> String {
    let names: Vec<&str> = PLUGINS.iter().map(|plugin| plugin.kind()).collect();
    format!(
        "cni-plugins {OUR_VERSION}: CNI plugins in one binary\n\
         \n\
         Started under the name of a plugin it is that plugin, for a CNI runtime to call:\n  {}\n\
         \n\
         Verbs:\n  help     this page\n  version  the version\n",
        names.join(" ")
    )
}
