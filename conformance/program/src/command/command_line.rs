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
    /// Run the cases, or list them. Status 0: all passed; 1: some failed; 2: wrong arguments, or a machine that cannot run
    /// them.
    Run(RunOptions),
    /// Let two sets of plugins live through the same random histories, and show where they part first. Status 0: no difference that
    /// came again; 1: a difference; 2: wrong arguments, or a machine that cannot run them.
    Compare(CompareOptions),
    /// Print what the SPEC requires, who can break it, and how many cases show it.
    Requirements(RequirementsOptions),
    /// Run one case in this process; what `run` starts.
    #[command(hide = true)]
    Case(CaseOptions),
}

/// The options of `run`.
#[derive(Debug, Args)]
pub struct RunOptions {
    /// The folder with the plugins.
    #[arg(long, value_name = "DIR", required_unless_present = "list")]
    pub plugins: Option<PathBuf>,
    /// Only cases with this text in their names; with several, cases that have any of them.
    #[arg(long, value_name = "TEXT", num_args = 1..)]
    pub filter: Vec<String>,
    /// List the cases, and run none.
    #[arg(long)]
    pub list: bool,
    /// Print one JSON document with everything that was sent and came back.
    #[arg(long, conflicts_with = "junit")]
    pub json: bool,
    /// Print JUnit's XML.
    #[arg(long)]
    pub junit: bool,
    /// How many cases run at once [default: the number of processors]
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
    /// How many seconds one case may take.
    #[arg(long, value_name = "SECONDS", default_value = "60")]
    pub limit: NonZeroUsize,
    /// Show all that was sent to plugins and all that came back.
    #[arg(long)]
    pub verbose: bool,
    /// The configuration of a plugin that this program does not know; the cases of the SPEC run for it.
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
    #[arg(long, value_name = "DIR")]
    pub plugins: PathBuf,
    /// The folder with the plugins that they are compared with.
    #[arg(long, value_name = "DIR")]
    pub reference: PathBuf,
    /// Which histories are drawn; the same number draws the same ones.
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: u64,
    /// How many histories.
    #[arg(long, value_name = "N", default_value = "20")]
    pub cases: u64,
    /// Live through this history, as a difference shows it, instead of random ones.
    #[arg(long, value_name = "JSON", conflicts_with_all = ["seed", "cases"])]
    pub history: Option<String>,
    /// Let differences that are wanted count as well.
    #[arg(long)]
    pub strict: bool,
    /// How often both sets may live again while a difference is made small; 0: not at all.
    #[arg(long, value_name = "N", default_value = "150")]
    pub trials: usize,
}
