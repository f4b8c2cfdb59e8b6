//! What `repair` was asked for.

use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, ValueHint};

/// What to do with what is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Apply,
    /// Say what it is.
    DryRun,
}

/// The options of `repair`.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct RepairOptions {
    /// only attachments to this network
    #[arg(long, value_name = "NAME", value_hint = ValueHint::Other, value_parser = NonEmptyStringValueParser::new())]
    pub network: Option<String>,
    /// the runtime's cache directory, which contains a folder "results"; default /var/lib/cni
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub cache_dir: Option<PathBuf>,
    /// say what is missing, and change nothing
    #[arg(long)]
    dry_run: bool,
}

impl RepairOptions {
    /// What to do.
    pub const fn mode(&self) -> Mode {
        if self.dry_run { Mode::DryRun } else { Mode::Apply }
    }

    /// Whether everything that is missing is restored, in every network.
    pub const fn is_whole(&self) -> bool {
        matches!(self.mode(), Mode::Apply) && self.network.is_none()
    }
}
