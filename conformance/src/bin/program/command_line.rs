//! The words that the program understands.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// Finds out whether CNI plugins do what the SPEC and their pages say, each case on a private host.
#[derive(Debug, Parser)]
#[command(name = "cni-conformance", version, arg_required_else_help = true)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What the program can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the cases, or list them. Status 0: all passed; 1: some failed; 2: wrong arguments, or a machine that cannot run
    /// them.
    Run(RunOptions),
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
    /// Its name, as `run --list` shows it.
    pub name: String,
}
