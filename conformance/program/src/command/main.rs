//! `cni-conformance`: tests whether CNI plugins do what the SPEC and their pages say.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program for people at a terminal")]

mod better;
mod command_line;
mod compare;
mod drawn;
mod embedded;
mod isolated;
mod json;
mod junit;
mod one_case;
mod preflight;
mod report;
mod requirements;
mod run;
mod show;
mod subjects;

use std::panic;
use std::process::{self, ExitCode};

use clap::Parser;
use cni_conformance::sandbox::become_root;

use command_line::{Arguments, ProgramCommand};

/// None failed.
const PASSED: u8 = 0;
/// Some cases failed.
const FAILED: u8 = 1;
/// The command line is wrong, or this machine cannot run cases.
const UNABLE: u8 = 2;

fn main() -> ExitCode {
    end_with_reader();
    // Where that fails, what needs it says so.
    drop(become_root());
    let status = match Arguments::parse().command {
        ProgramCommand::Run(options) => run::run(&options),
        ProgramCommand::Shell(options) => one_case::shell(&options),
        ProgramCommand::Compare(options) => compare::run(&options),
        ProgramCommand::Requirements(options) => requirements::run(&options).map(|()| PASSED),
        ProgramCommand::Better => {
            better::run();
            Ok(PASSED)
        }
        ProgramCommand::Case(options) => Ok(one_case::run(&options)),
    };
    ExitCode::from(status.unwrap_or_else(|problem| {
        eprintln!("cni-conformance: {problem}");
        UNABLE
    }))
}

/// Ends the program quietly if the reader of standard output has closed it, as `| head` does; otherwise a print panics.
fn end_with_reader() {
    let other = panic::take_hook();
    panic::set_hook(Box::new(move |problem| {
        let text = problem.payload().downcast_ref::<String>().map_or("", String::as_str);
        if text.starts_with("failed printing to stdout") && text.contains("Broken pipe") {
            process::exit(i32::from(UNABLE));
        }
        other(problem);
    }));
}
