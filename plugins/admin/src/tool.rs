//! What the binary does under its own name: it is the administrator's tool.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::FromArgMatches;
use cni_linux::output::{complain, install_logger};

use crate::command_line::{CommandLine, Verb, command};
use crate::output::print;
use crate::{check, doctor, gc, install, list, metrics, pages, repair, trace};

/// Runs one verb of the administrator's tool.
pub fn run(words: impl Iterator<Item = OsString>) -> ExitCode {
    let words: Vec<OsString> = words.collect();
    let mut command = command();
    if words.is_empty() {
        return print(&pages::help(&mut command));
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
    match verb {
        Verb::List(options) => list::run(options),
        Verb::Gc(options) => gc::run(options),
        Verb::Repair(options) => repair::run(options),
        Verb::Doctor(options) => doctor::run(options),
        Verb::Metrics(options) => metrics::run(options),
        Verb::Trace(options) => trace::run(options),
        Verb::Check(options) => check::run(options),
        Verb::Schema => check::print_schema(),
        Verb::Install(options) => install::install(options),
        Verb::Uninstall(options) => install::uninstall(options),
        Verb::Completion { shell } => print(&pages::completion(*shell)),
        Verb::Manual { verb } => match pages::manual(verb.as_deref()) {
            Ok(page) => print(&page),
            Err(answer) => say(&answer),
        },
        Verb::Version => print(&pages::version()),
    }
}
