//! What the binary does under its own name: it is the administrator's tool.

use std::process::ExitCode;

use super::logger;
use super::output::{complain, print};
use super::plugins::{OUR_VERSION, PLUGINS};
use super::repair::{self, Options};

/// The exit status for a wrong command line, as of most programs.
const USAGE: u8 = 2;

/// Runs one verb of the administrator's tool.
pub fn run(mut words: impl Iterator<Item = String>) -> ExitCode {
    match words.next().as_deref() {
        None | Some("help" | "--help" | "-h") => print(&help()),
        Some("version" | "--version" | "-V") => print(&format!("cni-plugins {OUR_VERSION}\n")),
        Some("repair") => match Options::parse(words) {
            Ok(Some(options)) => {
                logger::install("cni-plugins");
                repair::run(&options)
            }
            Ok(None) => print(repair::USAGE),
            Err(error) => {
                complain(&format!("cni-plugins repair: {error}\n{}", repair::USAGE));
                ExitCode::from(USAGE)
            }
        },
        Some(other) => {
            complain(&format!("cni-plugins: unknown verb {other:?}; `cni-plugins help` lists them\n"));
            ExitCode::FAILURE
        }
    }
}

/// Nomad starts every program in the plugins' folder without arguments, and reads the first word that is a number as
/// its version. So no word here is a number.
fn help() -> String {
    let names: Vec<&str> = PLUGINS.iter().map(|plugin| plugin.kind()).collect();
    format!(
        "cni-plugins {OUR_VERSION}: CNI plugins in one binary\n\
         \n\
         Started under the name of a plugin it is that plugin, for a CNI runtime to call:\n  {}\n\
         \n\
         Verbs:\n  \
         help     print this page\n  \
         repair   put back rules of running containers that somebody has flushed;\n           \
         see `cni-plugins repair --help`\n  \
         version  print the version\n",
        names.join(" ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_word_of_the_help_is_a_number() {
        let is_number = |word: &str| word.trim_start_matches('v').chars().all(|c| c.is_ascii_digit() || c == '.');
        assert_eq!(help().split_whitespace().find(|word| is_number(word)), None);
    }
}
