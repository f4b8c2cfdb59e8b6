//! `compare`: runs the same random histories with two sets of plugins.

use std::io::{IsTerminal, Write, stderr};
use std::panic;

use cni_conformance_program::histories::again::{Recurrence, recurrence};
use cni_conformance_program::histories::difference::Acceptance;
use cni_conformance_program::histories::minimise::{Trials, minimise};
use cni_conformance_program::histories::{ComparedSets, Comparison, Difference, History, PluginSet, draw, situations};

use crate::command_line::CompareOptions;
use crate::preflight::{self, Problem};
use crate::{FAILED, PASSED};

/// Compares, and returns the exit status.
pub fn run(options: &CompareOptions) -> Result<u8, Problem> {
    let acceptance = if options.strict { Acceptance::Strict } else { Acceptance::Accept };
    let plugins = PluginSet::open(preflight::visible_folder("--plugins", &options.plugins)?)?;
    let reference = PluginSet::open(preflight::visible_folder("--reference", &options.reference)?)?;
    preflight::machine()?;
    let pair = ComparedSets { plugins, reference, acceptance };
    // A plugin that no runtime could go on with ends a life, and the difference tells why.
    panic::set_hook(Box::new(|_| {}));
    match &options.history {
        Some(text) => Ok(again(&pair, &History::parse(text).map_err(|problem| format!("--history: {problem}"))?)),
        None => Ok(drawn(&pair, options)),
    }
}

fn again(pair: &ComparedSets, history: &History) -> u8 {
    match pair.difference(history) {
        Comparison::Same => println!("no difference in {} steps", history.steps.len()),
        Comparison::Ended { step } => println!("no difference up to step {}, in which both have failed", step + 1),
        Comparison::Different(first) => match confirmed(pair, history, first) {
            Some(difference) => {
                show(history, &difference);
                return FAILED;
            }
            None => println!("no difference in {} steps{}", history.steps.len(), and_seen_once(1)),
        },
    }
    PASSED
}

fn drawn(pair: &ComparedSets, options: &CompareOptions) -> u8 {
    let (mut steps, mut seen_once, mut passed_over) = (0, 0, situations::LeftOut::default());
    for number in 0..options.cases {
        progress(&format!("history {} of {}", number + 1, options.cases));
        let history = draw::history(options.seed, number, pair.telling().level);
        let history = if pair.accepts() { passed_over.without(history) } else { history };
        match pair.difference(&history) {
            Comparison::Same => {}
            Comparison::Ended { step } => passed_over.ended(history.steps.len() - step),
            Comparison::Different(difference) => {
                progress("");
                let (at, of) = (difference.step + 1, history.steps.len());
                let (number, cases) = (number + 1, options.cases);
                println!("seed {}, history {number} of {cases}: a difference at step {at} of {of}", options.seed);
                match confirmed(pair, &history, difference) {
                    Some(difference) => {
                        tell(pair, options, &history, difference);
                        return FAILED;
                    }
                    None => seen_once += 1,
                }
            }
        }
        steps += history.steps.len();
    }
    progress("");
    let (seed, cases, once) = (options.seed, options.cases, and_seen_once(seen_once));
    println!("seed {seed}: no difference in {cases} histories of {steps} steps{once}");
    print!("{passed_over}");
    PASSED
}

/// A note about differences that were reported although they were not repeatable.
fn and_seen_once(count: usize) -> String {
    match count {
        0 => String::new(),
        1 => ", one that did not come again".to_owned(),
        more => format!(", {more} that did not come again"),
    }
}

/// Runs the history again, and returns the difference that it shows then; one that is not repeatable is reported here.
fn confirmed(pair: &ComparedSets, history: &History, first: Difference) -> Option<Difference> {
    let found = recurrence(history, &first, &mut |history| pair.difference(history));
    if !matches!(found, Recurrence::AtOnce(_)) {
        tell_all(pair, history, &first);
    }
    match found {
        Recurrence::AtOnce(difference) => Some(difference),
        Recurrence::Otherwise(difference) => {
            println!("lived once more, there is a difference at step {}", difference.step + 1);
            Some(difference)
        }
        Recurrence::Never => None,
    }
}

/// Leaves out nothing of what may never be seen again.
fn tell_all(pair: &ComparedSets, history: &History, difference: &Difference) {
    println!("seen once, and not when both lived it again:");
    show_steps(history, difference.step);
    difference.changes.iter().for_each(|change| println!("  {change}"));
    tell_command(pair, history);
}

/// Says on a terminal how far it is, in place of what it said before.
fn progress(text: &str) {
    let mut terminal = stderr();
    if terminal.is_terminal() {
        // A closed terminal needs no message.
        drop(write!(terminal, "\r\x1b[K{text}").and_then(|()| terminal.flush()));
    }
}

/// Makes the history small, and shows it with the command that lives through it again.
fn tell(pair: &ComparedSets, options: &CompareOptions, history: &History, difference: Difference) {
    let mut cut = history.clone();
    cut.steps.truncate(difference.step + 1);
    let mut tried = 0;
    let mut live = |candidate: &History| {
        tried += 1;
        progress(&format!("trial {tried} of at most {}", options.trials));
        if candidate_is_allowed(pair, candidate) { pair.difference(candidate) } else { Comparison::Same }
    };
    let (small, last) = minimise(cut, difference, &mut Trials::new(options.trials, &mut live));
    progress("");
    println!("the smallest history that shows it, found in {tried} trials:");
    show(&small, &last);
    tell_command(pair, &small);
}

fn tell_command(pair: &ComparedSets, history: &History) {
    let strict = match pair.acceptance {
        Acceptance::Strict => " --strict",
        Acceptance::Accept => "",
    };
    println!(
        "again:\n  cni-conformance compare --plugins {} --reference {}{strict} --history '{}'",
        pair.plugins.folder.display(),
        pair.reference.folder.display(),
        history.to_line()
    );
}

/// Whether a smaller history may be tried: it must have no intended differences.
fn candidate_is_allowed(pair: &ComparedSets, candidate: &History) -> bool {
    !pair.accepts() || situations::LeftOut::default().without(candidate.clone()) == *candidate
}

fn show(history: &History, difference: &Difference) {
    show_steps(history, difference.step);
    print!("{difference}");
}

fn show_steps(history: &History, parting: usize) {
    for (name, list) in &history.networks {
        println!("  network {name}: {list}");
    }
    for (name, member) in &history.containers {
        println!("  container {name}: {}", serde_json::json!(member));
    }
    for (at, step) in history.steps.iter().enumerate() {
        let here = if at == parting { "   <- here the two differ" } else { "" };
        println!("  {}. {step}{here}", at + 1);
    }
    println!("  (- the reference, + the plugins)");
}
