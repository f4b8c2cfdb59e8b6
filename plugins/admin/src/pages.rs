//! The verbs that print what the program is.

use std::process::ExitCode;

use crate::command_line::completion::{self, Shell};
use crate::command_line::{VerbSpec, Words, manual};
use crate::output::print;
use cni_builtin::{OUR_VERSION, PLUGINS};

fn plugins() -> Vec<&'static str> {
    PLUGINS.iter().map(|plugin| plugin.kind()).collect()
}

/// Prints the page of the whole program.
pub fn help(_words: &Words, verbs: &[VerbSpec]) -> ExitCode {
    print(&help_text(verbs))
}

/// Nomad starts every program in the plugins' folder without arguments, and reads the first word that is a number as
/// its version. So no word here is a number.
fn help_text(verbs: &[VerbSpec]) -> String {
    let width = verbs.iter().map(|verb| verb.name.len()).max().unwrap_or_default();
    let lines: String = verbs.iter().map(|verb| format!("  {:width$}  {}\n", verb.name, verb.summary)).collect();
    format!(
        "cni-plugins {OUR_VERSION}: CNI plugins in one binary\n\
         \n\
         Started under the name of a plugin it is that plugin, for a CNI runtime to call:\n  {}\n\
         \n\
         Verbs; `cni-plugins VERB --help` says more of one:\n{lines}",
        plugins().join(" ")
    )
}

/// Prints the version.
pub fn version(_words: &Words, _verbs: &[VerbSpec]) -> ExitCode {
    print(&format!("cni-plugins {OUR_VERSION}\n"))
}

/// Prints the completion of a shell.
pub fn completion(words: &Words, verbs: &[VerbSpec]) -> ExitCode {
    let named = |shell: &Shell| Some(shell.name()) == words.word();
    Shell::ALL.into_iter().find(named).map_or(ExitCode::FAILURE, |shell| print(&completion::script(shell, verbs)))
}

/// Prints the manual page.
pub fn manual(_words: &Words, verbs: &[VerbSpec]) -> ExitCode {
    print(&manual::page(OUR_VERSION, &plugins(), verbs))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::VERBS;

    #[test]
    fn no_word_of_the_help_is_a_number() {
        let is_number = |word: &str| word.trim_start_matches('v').chars().all(|c| c.is_ascii_digit() || c == '.');
        assert_eq!(help_text(&VERBS).split_whitespace().find(|word| is_number(word)), None);
    }

    #[test]
    fn every_verb_and_option_is_in_the_completion_and_in_the_manual() {
        let manual = manual::page(OUR_VERSION, &plugins(), &VERBS).replace('\\', "");
        for verb in VERBS {
            assert!(manual.contains(&format!(".SS cni-plugins {}", verb.name)), "{}", verb.name);
            for shell in Shell::ALL {
                let script = completion::script(shell, &VERBS);
                assert!(script.contains(verb.name), "{shell:?} {}", verb.name);
                for option in verb.options {
                    let option = option.name.trim_start_matches('-');
                    assert!(script.contains(option) && manual.contains(option), "{shell:?} {} {option}", verb.name);
                }
            }
        }
    }

    #[test]
    fn the_shells_of_the_table_are_those_that_there_are() {
        let verb = VERBS.iter().find(|verb| verb.name == "completion").expect("the verb");
        assert_eq!(verb.words, Shell::ALL.map(Shell::name));
    }
}
