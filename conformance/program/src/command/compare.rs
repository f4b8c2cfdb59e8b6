//! `compare`: runs the same cases with two sets of plugins, and shows which pass with one alone.

use std::io::{IsTerminal, Write, stderr};

use crate::command_line::CompareOptions;
use crate::preflight::{self, Problem};
use crate::report::Ending;
use crate::run::{Runner, chosen};
use crate::{FAILED, PASSED, drawn};

/// Compares, and returns the exit status.
pub fn run(options: &CompareOptions) -> Result<u8, Problem> {
    let folders = [&options.plugins, &options.reference].map(|folder| preflight::visible_folder("compare", folder));
    let [plugins, reference] = folders;
    let (plugins, reference) = (plugins?, reference?);
    preflight::machine()?;
    let mut variants = chosen(&options.choice)?;
    variants.extend(drawn::histories(options.seed, options.drawn));
    let run = |folder| {
        let runner = Runner::new(folder, &options.choice, &options.limits, false)?;
        runner.run(&variants, &mut |count, done| {
            progress(&format!("{}: {count} of {}  {}", folder.display(), variants.len(), done.variant.name()));
        })
    };
    let (ours, theirs) = (run(&plugins)?, run(&reference)?);
    progress("");
    let (mut both, mut differ) = (0, 0);
    for (ours, theirs) in ours.iter().zip(&theirs) {
        let name = ours.variant.name();
        match (&ours.ending, &theirs.ending) {
            (Ending::Passed, Ending::Passed) => {
                match drawn::difference(ours, theirs).filter(|_| name.starts_with("drawn/")) {
                    Some(text) => {
                        println!("they differ: {name}\n  {text}");
                        differ += 1;
                    }
                    None => both += 1,
                }
            }
            (Ending::Passed, Ending::Failed(failure)) => {
                println!("only the first passes: {name}\n  {failure}");
                differ += 1;
            }
            (Ending::Failed(failure), Ending::Passed) => {
                println!("only the second passes: {name}\n  {failure}");
                differ += 1;
            }
            _ => {}
        }
    }
    let rest = variants.len() - both - differ;
    println!(
        "{both} runs of cases and histories are the same with both, {differ} are not; {rest} fail with both, or could not be run"
    );
    Ok(if differ == 0 { PASSED } else { FAILED })
}

/// Says on a terminal how far it is, in place of what it said before.
fn progress(text: &str) {
    let mut terminal = stderr();
    if terminal.is_terminal() {
        // A closed terminal needs no message.
        drop(write!(terminal, "\r\x1b[K{text}").and_then(|()| terminal.flush()));
    }
}
