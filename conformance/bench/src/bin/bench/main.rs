//! Compares the speed of two folders of plugins, in one run and in turns: on a noisy machine the ratios are stable,
//! the times are not.
//!
//! Each side has its own sandbox. On both sides these plugins add the containers that fill the host, since the
//! reference would take most of an hour; the rules are the same.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "tables for a person to read")]

mod chain;
mod leases;
mod many;
mod side;
mod table;
mod tool;

use std::fs;
use std::path::{Path, PathBuf};

use many::Crowds;

const USAGE: &str = "usage: bench OURS REFERENCE [--quick] [--tool [--others N]] [--many [--others N]]";

/// How many containers there are, and how many more have died, when the administrator's tool is timed.
const TOOL: (usize, usize) = (1500, 300);

/// What is measured.
struct BenchPlan {
    /// How often each operation is measured.
    rounds: usize,
    containers: &'static [usize],
    leases: &'static [usize],
    /// How many containers come at once.
    crowds: Crowds<'static>,
}

const WHOLE: BenchPlan = BenchPlan {
    rounds: 15,
    containers: &[0, 300, 1000],
    leases: &[0, 1000, 10_000],
    crowds: Crowds { containers: 64, at_a_time: &[8], others: &[0] },
};

const QUICK: BenchPlan = BenchPlan {
    rounds: 7,
    containers: &[0, 100],
    leases: &[1000],
    crowds: Crowds { containers: 24, at_a_time: &[8], others: &[0] },
};

/// The two folders.
struct ComparedFolders {
    ours: PathBuf,
    reference: PathBuf,
}

fn main() {
    let (mut folders, mut plan) = (Vec::new(), WHOLE);
    let (mut is_tool, mut many) = (false, None);
    let mut others: Option<usize> = None;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--quick" => plan = QUICK,
            "--tool" => is_tool = true,
            "--many" => many = Some(many::MANY),
            "--others" => others = arguments.next().and_then(|number| number.parse().ok()),
            _ => folders.push(PathBuf::from(argument)),
        }
    }
    let Ok([ours, reference]) = <[PathBuf; 2]>::try_from(folders) else {
        eprintln!("{USAGE}");
        std::process::exit(2);
    };
    if is_tool {
        tool::measure(&ours, others.unwrap_or(TOOL.0), TOOL.1);
        return;
    }
    let sides = ComparedFolders { ours, reference };
    if let Some(crowds) = many {
        many::measure(&sides, &crowds.beside(others.as_slice()));
        return;
    }
    println!("medians of {} turns; a ratio of 4 means that the reference takes four times as long", plan.rounds);
    sizes(&sides);
    chain::compare(&sides, &plan);
    leases::compare(&sides, &plan);
    many::measure(&sides, &plan.crowds);
}

/// The size of what is installed for Nomad's chain; one file under many names counts once.
fn sizes(sides: &ComparedFolders) {
    use std::collections::BTreeMap;
    use std::os::unix::fs::MetadataExt;
    let size = |folder: &Path| {
        let names = ["loopback", "bridge", "host-local", "firewall", "portmap"];
        let files = names.map(|name| fs::metadata(folder.join(name)).expect("the folder has the plugin"));
        let unique: BTreeMap<u64, u64> = files.iter().map(|file| (file.ino(), file.len())).collect();
        unique.values().sum::<u64>()
    };
    let megabytes = |folder| size(folder) as f64 / 1e6;
    println!(
        "\nsize of the five plugins: ours {:.1} MB, reference {:.1} MB",
        megabytes(&sides.ours),
        megabytes(&sides.reference)
    );
}
