//! Carries out one case in this process: `case` for `run`, with a report and nothing else on standard output, and `shell` for people.

use std::cell::Cell;
use std::env;
use std::os::unix::process::CommandExt;
use std::panic;
use std::process::{Command, Stdio};

use cni_conformance::case::{Failure, Variant};
use cni_conformance::transcript;

use crate::command_line::{CaseOptions, ShellOptions};
use crate::embedded::all_variants;
use crate::isolated::SHOWN;
use crate::preflight::Problem;
use crate::report::ProcessReport;
use crate::{FAILED, PASSED, UNABLE, drawn, isolated, preflight};

/// The folder of iptables on private hosts, before all others.
const TOOLS: &str = "/run/conformance/bin";

/// Runs the case, and returns the exit status.
pub fn run(options: &CaseOptions) -> u8 {
    // A line of the script that does not hold is told in the report.
    panic::set_hook(Box::new(|_| {}));
    transcript::start();
    let variant = match find(options) {
        Ok(variant) => variant,
        Err(problem) => {
            eprintln!("{problem}");
            return UNABLE;
        }
    };
    let kept = Cell::new(None);
    let keep = |failure: Option<&Failure>| {
        if options.keep && failure.is_some() {
            kept.set(hold());
        }
    };
    let failure = variant.run_until(&keep).err();
    match serde_json::to_string(&ProcessReport {
        failure,
        kept: kept.get(),
        calls: transcript::so_far(),
        said: transcript::said(),
    }) {
        Ok(text) => println!("{text}"),
        Err(error) => eprintln!("write a report: {error}"),
    }
    PASSED
}

/// Starts a process that keeps the host until it is killed.
fn hold() -> Option<u32> {
    let mut command = Command::new("/bin/sleep");
    command.arg("infinity").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    command.spawn().ok().map(|process| process.id())
}

fn find(options: &CaseOptions) -> Result<Variant, String> {
    if !options.keep {
        isolated::settle().map_err(|error| format!("make a process namespace of its own: {error}"))?;
    }
    if let Some(folder) = &options.shown {
        isolated::show(folder).map_err(|error| format!("show {} at {SHOWN}: {error}", folder.display()))?;
    }
    named(&options.name, all_variants(&options.config)?)
}

fn named(name: &str, mut variants: Vec<Variant>) -> Result<Variant, Problem> {
    variants.retain(|variant| variant.name() == name);
    variants
        .pop()
        .or_else(|| drawn::named(name))
        .ok_or_else(|| format!("there is no case {name}: `run --all --list` shows all"))
}

/// The command that enters a host that is kept.
pub fn enter(process: u32) -> String {
    format!("nsenter --target {process} --mount --net env PATH={TOOLS}:$PATH sh   # kill {process} ends it")
}

/// Runs a case up to its end, or to its failing line, and a shell on its host.
pub fn shell(options: &ShellOptions) -> Result<u8, Problem> {
    preflight::machine()?;
    let folder = preflight::visible_folder("--plugins", &options.plugins)?;
    let variant = named(&options.name, all_variants(&options.config)?)?;
    let this = env::current_exe().map_err(|error| format!("find this program: {error}"))?;
    if env::var_os("CNI_BIN_DIR").is_none_or(|set| set != folder.as_os_str()) {
        // The harness takes the folder from this variable.
        let problem = Command::new(this).args(env::args_os().skip(1)).env("CNI_BIN_DIR", &folder).exec();
        return Err(format!("start again: {problem}"));
    }
    panic::set_hook(Box::new(|_| {}));
    let was_there = Cell::new(false);
    let done = variant.run_until(&|failure| {
        match failure {
            Some(failure) => println!("{failure}"),
            None => println!("{}: its script has passed", variant.name()),
        }
        if !was_there.replace(true) {
            println!(
                "this is its host: names of containers are those of `ip netns`; the plugins are in {}",
                folder.display()
            );
            open();
        }
    });
    Ok(if done.is_ok() { PASSED } else { FAILED })
}

fn open() {
    let shell = env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into());
    let path = env::var("PATH").unwrap_or_default();
    if let Err(error) = Command::new(&shell).env("PATH", format!("{TOOLS}:{path}")).status() {
        eprintln!("start {}: {error}", shell.display());
    }
}
