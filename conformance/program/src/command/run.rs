//! `run`: carries out the selected cases, each in its own process, several at once.

use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use cni_conformance::case::{Failure, Variant};
use cni_conformance::child::{self, Limit};

use crate::command_line::{Choice, Limits, RunOptions};
use crate::embedded::all_variants;
use crate::preflight::Problem;
use crate::report::{Done, Ending, ProcessReport, Tally};
use crate::show::Show;
use crate::subjects::Plugins;
use crate::{FAILED, PASSED, isolated, json, junit, preflight};

/// Runs the cases that are chosen, or lists them, and returns the exit status.
pub fn run(options: &RunOptions) -> Result<u8, Problem> {
    let variants = chosen(&options.choice)?;
    if options.list {
        list(&variants);
        return Ok(PASSED);
    }
    preflight::machine()?;
    let started = Instant::now();
    let folder = preflight::folder("--plugins", &options.plugins)?;
    let mut show = Show::new(options, &folder, &variants);
    let all =
        Runner::new(&folder, &options.choice, &options.limits, options.keep)?.run(&variants, &mut |n, done| {
            show.progress(n, done);
        })?;
    let tally = Tally::of(&all);
    if options.json {
        println!("{}", json::document(&folder, &all, started.elapsed()).map_err(|error| error.to_string())?);
    } else if options.junit {
        println!("{}", junit::document(&all, started.elapsed())?);
    } else {
        show.summary(&all, started.elapsed());
    }
    if tally.passed + tally.all_failed() + tally.differs == 0 {
        return Err("no case could be run: see the reasons above".to_owned());
    }
    let unshown = if options.choice.differences { unshown(&all) } else { Vec::new() };
    for name in &unshown {
        eprintln!("{name} says what the reference does otherwise, and passes with it");
    }
    Ok(if tally.all_failed() == 0 && unshown.is_empty() { PASSED } else { FAILED })
}

/// The cases that pass with the reference's plugins wherever they were run.
fn unshown(all: &[Done]) -> Vec<&str> {
    let differs = |done: &Done| matches!(done.ending, Ending::Differs(_));
    let passes = |done: &Done| done.ending == Ending::Passed;
    let cases = all.chunk_by(|one, other| one.variant.case.name == other.variant.case.name);
    let without = cases.filter(|runs| runs.iter().any(passes) && !runs.iter().any(differs));
    let names = without.filter_map(|runs| Some(runs.first()?.variant.case.name.as_str()));
    // Plugins of others differ in nothing.
    if all.iter().any(differs) { names.collect() } else { Vec::new() }
}

/// Those of the SPEC, or all, that have one of the words in their names.
pub fn chosen(choice: &Choice) -> Result<Vec<Variant>, Problem> {
    let Choice { words, all, differences, config } = choice;
    let mut variants = all_variants(config)?;
    let is_named = |variant: &Variant| words.iter().any(|word| variant.name().contains(word.as_str()));
    let is_meant = |variant: &Variant| match (differences, all) {
        (true, _) => variant.case.differs.is_some(),
        (false, true) => true,
        (false, false) => !variant.case.spec.is_empty(),
    };
    variants.retain(|variant| is_meant(variant) && (words.is_empty() || is_named(variant)));
    if variants.is_empty() {
        let hint = if *all { "" } else { "; without `--all` only those of the SPEC are meant" };
        return Err(format!(
            "no case that is meant has {} in its name: `run --all --list` shows all{hint}",
            words.join(" or ")
        ));
    }
    Ok(variants)
}

fn list(variants: &[Variant]) {
    for variant in variants {
        println!("{}  {} {}", variant.name(), variant.case.about, variant.case.spec.join(" "));
    }
    eprintln!("{} runs", variants.len());
}

/// What all cases of a run share.
pub struct Runner<'o> {
    program: PathBuf,
    folder: &'o Path,
    choice: &'o Choice,
    limits: &'o Limits,
    keep: bool,
}

impl<'o> Runner<'o> {
    /// Runs with the plugins of a folder.
    pub fn new(folder: &'o Path, choice: &'o Choice, limits: &'o Limits, keep: bool) -> Result<Self, Problem> {
        let program = env::current_exe().map_err(|error| format!("find this program: {error}"))?;
        Ok(Self { program, folder, choice, limits, keep })
    }

    /// Runs all, tells of each as it ends, and returns them in their order.
    pub fn run(&self, variants: &[Variant], tell: &mut dyn FnMut(usize, &Done)) -> Result<Vec<Done>, Problem> {
        let (next, plugins) = (AtomicUsize::new(0), Plugins::of(self.folder, variants));
        let (sender, receiver) = mpsc::channel();
        thread::scope(|scope| {
            for _ in 0..self.jobs() {
                let (sender, next, plugins) = (sender.clone(), &next, &plugins);
                scope.spawn(move || {
                    loop {
                        let at = next.fetch_add(1, Ordering::Relaxed);
                        let Some(variant) = variants.get(at) else { break };
                        if sender.send((at, self.one(variant, plugins))).is_err() {
                            break;
                        }
                    }
                });
            }
            drop(sender);
            let mut all = BTreeMap::new();
            for (at, done) in receiver {
                let done = done?;
                tell(all.len() + 1, &done);
                all.insert(at, done);
            }
            Ok(all.into_values().collect())
        })
    }

    fn jobs(&self) -> usize {
        let processors = || thread::available_parallelism().map_or(1, usize::from);
        self.limits.jobs.map_or_else(processors, usize::from)
    }

    /// Runs one in a process of its own.
    fn one(&self, variant: &Variant, plugins: &Plugins) -> Result<Done, Problem> {
        if let Some(reason) = plugins.lack(variant) {
            return Ok(Done {
                variant: variant.clone(),
                ending: Ending::NotHad { reason },
                calls: Vec::new(),
                said: Vec::new(),
                kept: None,
                elapsed: Duration::ZERO,
            });
        }
        let mut command = if self.keep { Command::new(&self.program) } else { isolated::command(&self.program) };
        command.arg("case").arg(variant.name()).env_clear();
        if preflight::is_hidden(self.folder) {
            command.arg("--shown").arg(self.folder).env("CNI_BIN_DIR", isolated::SHOWN);
        } else {
            command.env("CNI_BIN_DIR", self.folder);
        }
        for file in &self.choice.config {
            command.arg("--config").arg(file);
        }
        if self.keep {
            command.arg("--keep");
        }
        let limit = Duration::from_secs(u64::try_from(usize::from(self.limits.limit)).unwrap_or(u64::MAX));
        let left = child::run(command, b"", Limit::Kill(limit));
        let failure = |text: String| Failure { place: variant.name(), line: String::new(), text };
        let report = match left.code {
            None if left.elapsed >= limit => {
                let text =
                    format!("expected: an end within {} seconds\nfound:    it was still running", limit.as_secs());
                ProcessReport { failure: Some(failure(text)), kept: None, calls: Vec::new(), said: Vec::new() }
            }
            Some(_) | None => serde_json::from_str(&left.stdout).unwrap_or_else(|error| {
                let text = format!("its process told nothing ({error})\n{}{}", left.stdout, left.stderr);
                ProcessReport { failure: Some(failure(text)), kept: None, calls: Vec::new(), said: Vec::new() }
            }),
        };
        let ProcessReport { failure, kept, calls, said } = report;
        let ending = match failure {
            None => Ending::Passed,
            Some(failure) if variant.case.differs.is_some() && plugins.are_of_the_reference(variant) => {
                Ending::Differs(failure)
            }
            Some(failure) => Ending::Failed(failure),
        };
        Ok(Done { variant: variant.clone(), ending, calls, said, kept, elapsed: left.elapsed })
    }
}
