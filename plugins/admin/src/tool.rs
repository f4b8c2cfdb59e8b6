//! What the binary does under its own name: it is the administrator's tool.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Command, FromArgMatches};
use clap_complete::generate;
use clap_complete::shells::{Bash, Fish, Zsh};
use clap_mangen::Man;
use cni_builtin::OUR_VERSION;
use cni_linux::output::{complain, install_logger};

use crate::command_line::{CommandLine, Shell, Verb, command};
use crate::output::{failed, print};
use crate::{check, doctor, gc, install, list, metrics, repair, trace};

/// Runs one verb of the administrator's tool.
pub fn run(words: impl Iterator<Item = OsString>) -> ExitCode {
    let words: Vec<OsString> = words.collect();
    let mut command = command();
    if words.is_empty() {
        return print(&help(&mut command));
    }
    let line = [OsString::from("cni-plugins")].into_iter().chain(words);
    let read = command.try_get_matches_from_mut(line).and_then(|found| CommandLine::from_arg_matches(&found));
    match read {
        Ok(CommandLine { verb }) => run_verb(&verb),
        Err(answer) => say(&answer),
    }
}

/// Prints help that was asked for, or what is wrong with the command line.
fn say(answer: &clap::Error) -> ExitCode {
    let text = answer.render().to_string();
    if !answer.use_stderr() {
        return print(&text);
    }
    complain(&text);
    u8::try_from(answer.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
}

fn run_verb(verb: &Verb) -> ExitCode {
    install_logger("cni-plugins");
    let (name, done) = match verb {
        Verb::List(options) => ("list", list::run(options)),
        Verb::Gc(options) => ("gc", gc::run(options)),
        Verb::Repair(options) => ("repair", repair::run(options)),
        Verb::Doctor(options) => ("doctor", doctor::run(options)),
        Verb::Metrics(options) => ("metrics", metrics::run(options)),
        Verb::Trace(options) => ("trace", trace::run(options)),
        Verb::Install(options) => ("install", install::install(options)),
        Verb::Uninstall(options) => ("uninstall", install::uninstall(options)),
        Verb::Check(options) => return check::run(options),
        Verb::Schema => return check::print_schema(),
        Verb::Completion { shell } => return print(&completion(*shell)),
        Verb::Manual { verb } => {
            return manual(verb.as_deref()).map_or_else(|answer| say(&answer), |page| print(&page));
        }
        Verb::Version => return print(&format!("cni-plugins {OUR_VERSION}\n")),
    };
    done.unwrap_or_else(|problem| failed(&format!("cni-plugins {name}"), &problem))
}

/// The page of the whole program.
///
/// Nomad starts every program in the plugins' folder without arguments, and reads the first word that is a number as its
/// version. So no word here is a number.
fn help(command: &mut Command) -> String {
    command.render_long_help().to_string()
}

/// The completion of a shell. Tabs become blanks, since output escapes control characters.
fn completion(shell: Shell) -> String {
    let (mut command, mut script) = (command(), Vec::new());
    match shell {
        Shell::Bash => generate(Bash, &mut command, "cni-plugins", &mut script),
        Shell::Zsh => generate(Zsh, &mut command, "cni-plugins", &mut script),
        Shell::Fish => generate(Fish, &mut command, "cni-plugins", &mut script),
    }
    String::from_utf8_lossy(&script).replace('\t', "    ")
}

/// The manual page of the program, or of a verb.
fn manual(verb: Option<&str>) -> Result<String, clap::Error> {
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
