//! The program's command line.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// Finds out whether CNI plugins do what the SPEC and their pages say, each case on a private host.
#[derive(Debug, Parser)]
#[command(name = "cni-conformance", version, arg_required_else_help = true)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: ProgramCommand,
}

/// What the program can do.
#[derive(Debug, Subcommand)]
pub enum ProgramCommand {
    /// Run cases, or list them. Status 0: none failed; 1: some failed; 2: wrong arguments, or a machine that cannot run them.
    Run(RunOptions),
    /// Run a case up to its end, or to its failing line, and then a shell on its host.
    Shell(ShellOptions),
    /// Run cases and drawn histories with two sets of plugins, and show what differs. Status 0: nothing differs; 1: something does; 2: wrong
    /// arguments, or a machine that cannot run them.
    Compare(CompareOptions),
    /// Print what the SPEC requires, and which cases show it.
    Requirements(RequirementsOptions),
    /// Print the page of differences to the reference, as the cases have it by now.
    Better,
    /// Run one case in this process; what `run` starts.
    #[command(hide = true)]
    Case(CaseOptions),
}

/// Which cases.
#[derive(Debug, Args)]
pub struct Choice {
    /// Only cases with one of these texts in their names.
    #[arg(value_name = "WORD")]
    pub words: Vec<String>,
    /// All cases, also those that are about no requirement of the SPEC.
    #[arg(long)]
    pub all: bool,
    /// Of all cases, only those that say what the reference does otherwise.
    #[arg(long)]
    pub differences: bool,
    /// The configuration of a plugin that this program does not know; the cases of the SPEC run for it.
    #[arg(long, value_name = "FILE")]
    pub config: Vec<PathBuf>,
}

/// How cases run.
#[derive(Debug, Args)]
pub struct Limits {
    /// How many cases run at once [default: the number of processors]
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
    /// How many seconds one case may take.
    #[arg(long, value_name = "SECONDS", default_value = "120")]
    pub limit: NonZeroUsize,
}

/// The options of `run`.
#[derive(Debug, Args)]
pub struct RunOptions {
    #[command(flatten)]
    pub choice: Choice,
    #[command(flatten)]
    pub limits: Limits,
    /// The folder with the plugins.
    #[arg(long, value_name = "DIR", default_value = "/opt/cni/bin")]
    pub plugins: PathBuf,
    /// List the cases, and run none.
    #[arg(long)]
    pub list: bool,
    /// Print one JSON document with everything that was sent and came back.
    #[arg(long, conflicts_with = "junit")]
    pub json: bool,
    /// Print JUnit's XML.
    #[arg(long)]
    pub junit: bool,
    /// Show all that was sent to plugins and all that came back.
    #[arg(long)]
    pub verbose: bool,
    /// Leave the host of each case that fails, and print the command that enters it.
    #[arg(long)]
    pub keep: bool,
}

/// The options of `shell`.
#[derive(Debug, Args)]
pub struct ShellOptions {
    /// The name of the case, as `run --all --list` shows it.
    pub name: String,
    /// The folder with the plugins.
    #[arg(long, value_name = "DIR", default_value = "/opt/cni/bin")]
    pub plugins: PathBuf,
    /// The configuration of a plugin that this program does not know.
    #[arg(long, value_name = "FILE")]
    pub config: Vec<PathBuf>,
}

/// The options of `case`.
#[derive(Debug, Args)]
pub struct CaseOptions {
    /// The configuration of a plugin that this program does not know.
    #[arg(long)]
    pub config: Vec<PathBuf>,
    /// The folder of plugins, when it must be seen elsewhere than private hosts hide it.
    #[arg(long)]
    pub shown: Option<PathBuf>,
    /// Keep the host if the case fails.
    #[arg(long)]
    pub keep: bool,
    /// Its name, as `run --list` shows it.
    pub name: String,
}

/// The options of `requirements`.
#[derive(Debug, Args)]
pub struct RequirementsOptions {
    /// As one JSON document.
    #[arg(long)]
    pub json: bool,
}

/// The options of `compare`.
#[derive(Debug, Args)]
pub struct CompareOptions {
    /// The folder with the plugins under test.
    pub plugins: PathBuf,
    /// The folder with the plugins that they are compared with.
    pub reference: PathBuf,
    /// How many histories are drawn: ADD and DEL of three containers in turn.
    #[arg(long, value_name = "N", default_value = "20")]
    pub drawn: usize,
    /// The first seed: history `drawn/SEED`, then the following ones.
    #[arg(long, value_name = "SEED", default_value = "1")]
    pub seed: u64,
    #[command(flatten)]
    pub choice: Choice,
    #[command(flatten)]
    pub limits: Limits,
}
