//! `run`: runs the selected cases, each in its own process, several at once.

use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use cni_conformance::child::{self, Limit};
use cni_conformance_program::suite::case::Needs;
use cni_conformance_program::suite::dhcp_lan::SERVER;
use cni_conformance_program::suite::{Case, CaseEnding, CaseReport, Mismatch, PluginUnderTest, cases_of};
use serde_json::Value;

use crate::command_line::RunOptions;
use crate::preflight::Problem;
use crate::show::RunOutput;
use crate::tally::{FinishedCase, Tally};
use crate::{FAILED, PASSED, isolated, json, junit, preflight};

/// The time limit for a plugin to report its versions, before anything else.
const VERSION_LIMIT: Duration = Duration::from_secs(10);

/// What all cases of a run share.
struct RunPlan<'o> {
    options: &'o RunOptions,
    program: PathBuf,
    folder: PathBuf,
}

/// Runs the cases that are chosen, or lists them, and returns the exit status.
pub fn run(options: &RunOptions) -> Result<u8, Problem> {
    let subjects = preflight::subjects(&options.config)?;
    let cases: Vec<Case> = cases_of(&subjects).into_iter().filter(|case| is_chosen(case, &options.filter)).collect();
    if cases.is_empty() {
        return Err(format!("no case has {} in its name: `run --list` shows all", options.filter.join(" or ")));
    }
    if options.list {
        list(&cases);
        return Ok(PASSED);
    }
    preflight::machine()?;
    let given = options.plugins.as_deref().ok_or("--plugins is missing")?;
    let plan = RunPlan {
        options,
        program: env::current_exe().map_err(|error| format!("find this program: {error}"))?,
        folder: preflight::folder("--plugins", given)?,
    };
    plan.run(cases)
}

fn is_chosen(case: &Case, filters: &[String]) -> bool {
    let name = case.name();
    filters.is_empty() || filters.iter().any(|filter| name.contains(filter.as_str()))
}

fn list(cases: &[Case]) {
    for case in cases {
        println!("{}  {} ({})", case.name(), case.template.says, case.source());
    }
    eprintln!("{} cases", cases.len());
}

impl RunPlan<'_> {
    fn run(&self, cases: Vec<Case>) -> Result<u8, Problem> {
        let started = Instant::now();
        let mut show = RunOutput::new(self.options, &self.folder, &cases, self.jobs());
        let skips = self.skips(&cases);
        let done = self.work(&cases, &skips, &mut show)?;
        let tally = Tally::of(&done);
        if self.options.json {
            println!("{}", json::document(&self.folder, &done, started.elapsed()).map_err(|error| error.to_string())?);
        } else if self.options.junit {
            println!("{}", junit::document(&done, started.elapsed())?);
        } else {
            show.summary(&done, started.elapsed());
        }
        if tally.passed + tally.failed == 0 {
            return Err("no case could be run: see the reasons above".to_owned());
        }
        Ok(if tally.failed == 0 { PASSED } else { FAILED })
    }

    fn jobs(&self) -> usize {
        let processors = || thread::available_parallelism().map_or(1, usize::from);
        self.options.jobs.map_or_else(processors, usize::from)
    }

    /// Runs all cases, and returns them in their order.
    fn work(
        &self,
        cases: &[Case],
        skips: &[Option<String>],
        show: &mut RunOutput<'_>,
    ) -> Result<Vec<FinishedCase>, Problem> {
        let next = AtomicUsize::new(0);
        let (sender, receiver) = mpsc::channel();
        thread::scope(|scope| {
            for _ in 0..self.jobs() {
                let (sender, next) = (sender.clone(), &next);
                scope.spawn(move || {
                    loop {
                        let at = next.fetch_add(1, Ordering::Relaxed);
                        let Some((case, skip)) = cases.get(at).zip(skips.get(at)) else { break };
                        let done = match skip {
                            Some(reason) => Ok(FinishedCase::not_run(case, reason)),
                            None => self.one(case),
                        };
                        if sender.send((at, done)).is_err() {
                            break;
                        }
                    }
                });
            }
            drop(sender);
            in_order(&receiver, cases.len(), show)
        })
    }

    /// Runs one case in a process of its own.
    fn one(&self, case: &Case) -> Result<FinishedCase, Problem> {
        let mut command = Command::new(&self.program);
        command.arg("case").arg(case.name()).env_clear();
        if preflight::is_hidden(&self.folder) {
            command.arg("--shown").arg(&self.folder).env("CNI_BIN_DIR", isolated::SHOWN);
        } else {
            command.env("CNI_BIN_DIR", &self.folder);
        }
        for file in &self.options.config {
            command.arg("--config").arg(file);
        }
        let limit = Duration::from_secs(u64::try_from(usize::from(self.options.limit)).unwrap_or(u64::MAX));
        let left = isolated::run(command, limit).map_err(|error| format!("start the process of a case: {error}"))?;
        let report = match left.status {
            None => too_late(limit),
            Some(_) => serde_json::from_str(&left.stdout).unwrap_or_else(|error| {
                let problem = format!("its process told nothing ({error})\n{}{}", left.stdout, left.stderr);
                CaseReport { ending: CaseEnding::Broken { problem }, calls: Vec::new() }
            }),
        };
        Ok(FinishedCase::reported(case, report, left.elapsed))
    }

    /// Returns for each case why it cannot be run, if so.
    fn skips(&self, cases: &[Case]) -> Vec<Option<String>> {
        let mut versions: BTreeMap<String, Option<Vec<String>>> = BTreeMap::new();
        let mut skips = Vec::new();
        for case in cases {
            let plugin = &case.subject.plugin;
            let spoken = versions.entry(plugin.clone()).or_insert_with(|| spoken(&self.folder, plugin));
            skips.push(self.skip(case, spoken.as_deref()));
        }
        skips
    }

    fn skip(&self, case: &Case, spoken: Option<&[String]>) -> Option<String> {
        let Case { template, subject, version } = case;
        let PluginUnderTest { plugin, needs, .. } = subject.as_ref();
        if !self.folder.join(plugin).exists() {
            return Some(format!("there is no such plugin in {}", self.folder.display()));
        }
        let speaks = || spoken.is_none_or(|list| list.iter().any(|spoken| spoken == version.as_str()));
        if template.needs != Needs::Nothing && !speaks() {
            return Some(format!("the plugin does not know version {version} of the SPEC"));
        }
        let (server, package) = SERVER;
        if template.needs == Needs::DhcpServer && !Path::new(server).exists() {
            return Some(format!("there is no {server}: install the package {package}"));
        }
        let feature = needs.filter(|feature| template.needs == Needs::Add && !feature.is_here());
        feature.map(|feature| format!("the running kernel lacks what ADD needs: {feature:?}"))
    }
}

/// Hands finished cases on in the order of the list.
fn in_order(
    finished: &mpsc::Receiver<(usize, Result<FinishedCase, Problem>)>,
    total: usize,
    show: &mut RunOutput<'_>,
) -> Result<Vec<FinishedCase>, Problem> {
    let mut early = BTreeMap::new();
    let mut done: Vec<FinishedCase> = Vec::with_capacity(total);
    for (at, result) in finished {
        let result = result?;
        show.progress(done.len() + early.len() + 1, &result.case);
        early.insert(at, result);
        while let Some(next) = early.remove(&done.len()) {
            show.case(&next);
            done.push(next);
        }
    }
    Ok(done)
}

fn too_late(limit: Duration) -> CaseReport {
    let mismatch = Mismatch {
        expected: format!("an end within {} seconds", limit.as_secs()),
        got: "the case was still running, and was killed".to_owned(),
    };
    CaseReport { ending: CaseEnding::Failed(mismatch), calls: Vec::new() }
}

/// Returns the versions that a plugin reports; `None` if its answer is invalid: then its cases show the error.
fn spoken(folder: &Path, plugin: &str) -> Option<Vec<String>> {
    let path = folder.join(plugin);
    if !path.exists() {
        return None;
    }
    let mut command = Command::new(path);
    command.env_clear().env("CNI_COMMAND", "VERSION").env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    let left = child::run(command, br#"{"cniVersion":"1.0.0"}"#, Limit::Kill(VERSION_LIMIT));
    let answer: Value = serde_json::from_str(&left.stdout).ok()?;
    let list = answer["supportedVersions"].as_array()?;
    Some(list.iter().filter_map(|version| version.as_str().map(str::to_owned)).collect())
}
