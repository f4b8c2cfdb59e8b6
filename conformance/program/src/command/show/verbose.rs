//! `--verbose`: prints everything that plugins received and printed.

use cni_conformance::transcript::Exchange;
use cni_conformance_program::suite::CaseEnding;

use crate::tally::FinishedCase;

use super::paint::{Colour, Painter};

/// Prints one case with its calls.
pub fn print(painter: &Painter, done: &FinishedCase) {
    println!("\n{}", painter.paint(Colour::Bold, &done.case.name()));
    println!("  {} ({})", done.case.template.says, done.case.source());
    for (at, call) in done.calls.iter().enumerate() {
        print_call(painter, at + 1, call);
    }
    match &done.ending {
        CaseEnding::Passed => println!("  {}", painter.paint(Colour::Green, "passed")),
        CaseEnding::Failed(mismatch) => {
            println!("  {}", painter.paint(Colour::Red, "failed"));
            print_text("expected", &mismatch.expected);
            print_text("got", &mismatch.got);
        }
        CaseEnding::Broken { problem } => {
            println!("  {}", painter.paint(Colour::Red, "the case could not do its work"));
            print_text("problem", problem);
        }
        CaseEnding::NotRun { reason } => println!("  {}: {reason}", painter.paint(Colour::Yellow, "not run")),
    }
}

fn print_call(painter: &Painter, number: usize, call: &Exchange) {
    println!("  {} {}", painter.paint(Colour::Dim, &format!("call {number}:")), call.command.join(" "));
    for (key, value) in &call.environment {
        println!("    {key}={value}");
    }
    print_text("standard input", &call.stdin);
    let Some(answer) = &call.answer else {
        println!("    it was still running at the end");
        return;
    };
    let status = answer.status.map_or_else(|| "a signal".to_owned(), |status| format!("status {status}"));
    println!("    ended with {status} after {} ms", answer.milliseconds);
    print_text("standard output", &answer.stdout);
    print_text("standard error", &answer.stderr);
}

fn print_text(name: &str, text: &str) {
    let text = text.trim_end();
    if !text.is_empty() {
        println!("    {name}: {}", text.replace('\n', "\n      "));
    }
}
