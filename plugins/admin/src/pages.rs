//! The verbs that print what the program is.

use clap::Command;
use clap::error::ErrorKind;
use clap_complete::generate;
use clap_complete::shells::{Bash, Fish, Zsh};
use clap_mangen::Man;

use crate::command_line::{Shell, command};
use cni_builtin::OUR_VERSION;

/// The page of the whole program.
///
/// Nomad starts every program in the plugins' folder without arguments, and reads the first word that is a number as its
/// version. So no word here is a number.
pub fn help(command: &mut Command) -> String {
    command.render_long_help().to_string()
}

/// The version.
pub fn version() -> String {
    format!("cni-plugins {OUR_VERSION}\n")
}

/// The completion of a shell. Tabs become blanks, since output escapes control characters.
pub fn completion(shell: Shell) -> String {
    let (mut command, mut script) = (command(), Vec::new());
    match shell {
        Shell::Bash => generate(Bash, &mut command, "cni-plugins", &mut script),
        Shell::Zsh => generate(Zsh, &mut command, "cni-plugins", &mut script),
        Shell::Fish => generate(Fish, &mut command, "cni-plugins", &mut script),
    }
    String::from_utf8_lossy(&script).replace('\t', "    ")
}

/// The manual page of the program, or of a verb.
pub fn manual(verb: Option<&str>) -> Result<String, clap::Error> {
    let mut command = command();
    command.build();
    let page = match verb {
        None => command.clone(),
        Some(verb) => command
            .find_subcommand(verb)
            .cloned()
            .ok_or_else(|| command.clone().error(ErrorKind::InvalidSubcommand, format!("there is no verb {verb:?}")))?,
    };
    let mut text = Vec::new();
    let source = format!("cni-plugins-rs {OUR_VERSION}");
    let man = Man::new(page).section("8").manual("System administration").source(source).date("");
    man.render(&mut text).map_err(|error| command.error(ErrorKind::Io, error))?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_word_of_the_help_is_a_number() {
        let is_number = |word: &str| word.trim_start_matches('v').chars().all(|c| c.is_ascii_digit() || c == '.');
        let text = help(&mut command());
        assert_eq!(text.split_whitespace().find(|word| is_number(word)), None, "{text}");
    }

    #[test]
    fn every_verb_and_option_is_in_the_completion_and_in_the_manual() {
        let all = manual(None).expect("a page").replace('\\', "");
        for verb in command().get_subcommands() {
            let name = verb.get_name();
            assert!(all.contains(&format!("cni-plugins-{name}(8)")), "{all}");
            let page = manual(Some(name)).expect("a page").replace('\\', "");
            for script in [Shell::Bash, Shell::Zsh, Shell::Fish].map(completion) {
                assert!(script.contains(name), "{name}: {script}");
                for option in verb.get_arguments().filter_map(clap::Arg::get_long) {
                    assert!(script.contains(option) && page.contains(option), "{name} {option}: {script}{page}");
                }
            }
        }
    }
}
