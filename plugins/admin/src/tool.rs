//! What the binary does under its own name: it is the administrator's tool.

use std::process::ExitCode;

use super::command_line::{FAILURE, Run, USAGE, VerbSpec, parse, usage};
use super::verbs::VERBS;
use crate::output::print;
use cni_linux::output::complain;

/// Runs one verb of the administrator's tool.
pub fn run(mut words: impl Iterator<Item = String>) -> ExitCode {
    let verb = match words.next() {
        None => "help".to_owned(),
        Some(word) => match word.as_str() {
            "--help" | "-h" => "help".to_owned(),
            "--version" | "-V" => "version".to_owned(),
            _ => word,
        },
    };
    match VERBS.iter().find(|one| one.name == verb) {
        Some(verb) => run_verb(verb, words),
        None => {
            complain(&format!("cni-plugins: unknown verb {verb:?}; `cni-plugins help` lists them\n"));
            ExitCode::from(FAILURE)
        }
    }
}

fn run_verb(verb: &VerbSpec, words: impl Iterator<Item = String>) -> ExitCode {
    match parse(verb, words) {
        Ok(Some(words)) => {
            cni_linux::logger::install("cni-plugins");
            match verb.run {
                Run::Work(work) => work(&words),
                Run::Page(page) => page(&words, &VERBS),
            }
        }
        Ok(None) => print(&usage::page(verb)),
        Err(error) => {
            complain(&format!("cni-plugins {}: {error}\n{}", verb.name, usage::page(verb)));
            ExitCode::from(USAGE)
        }
    }
}
