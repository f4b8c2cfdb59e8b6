//! `cni-conformance`: finds out whether CNI plugins do what the SPEC and their pages say.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program for people at a terminal")]

mod command_line;
mod compare;
mod isolated;
mod json;
mod junit;
mod one_case;
mod preflight;
mod run;
mod show;
mod tally;

use std::process::ExitCode;

use clap::Parser;

use command_line::{Arguments, Command};

/// All passed.
const PASSED: u8 = 0;
/// Some cases failed.
const FAILED: u8 = 1;
/// The command line is wrong, or this machine cannot run cases.
const UNABLE: u8 = 2;

fn main() -> ExitCode {
    let status = match Arguments::parse().command {
        Command::Run(options) => run::run(&options),
        Command::Compare(options) => compare::run(&options),
        Command::Case(options) => Ok(one_case::run(&options)),
    };
    ExitCode::from(status.unwrap_or_else(|problem| {
        eprintln!("cni-conformance: {problem}");
        UNABLE
    }))
}
