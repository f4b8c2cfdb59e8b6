//! Compares the speed of two folders of plugins, in one run and in turns: on a noisy machine the ratios are stable,
//! the times are not.
//!
//! Each side has its own sandbox. On both sides these plugins add the containers that fill the host, since the
//! reference would take most of an hour; the rules are the same.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "tables for a person to read")]

mod chain;
#[cfg(target_arch = "x86_64")]
mod floor;
mod leases;
mod many;
mod packets;
mod picture;
mod side;
mod table;
mod tool;

/// The recorder of the floor reads the registers of x86-64.
#[cfg(not(target_arch = "x86_64"))]
mod floor {
    use std::path::Path;

    pub fn compare(_: &crate::ComparedFolders, _: &Path, _: &[usize], _: usize) -> Vec<crate::FloorCost> {
        panic!("--floor needs x86-64")
    }

    pub fn record(_: &Path, _: &Path) -> ! {
        panic!("--record needs x86-64")
    }
}

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use chain::Load;
use many::Crowds;
use picture::{Line, Picture, Stroke};

const USAGE: &str = "usage: bench OURS REFERENCE [--quick] [--tool [--others N]] [--many [--others N]] [--floor REPLAY [--others N]] [--pictures DIR]";

/// The title and the axis across of both pictures of costs.
const COST: &str = "Time for one container of Nomad's (milliseconds, logarithmic)";
const OTHERS: &str = "other containers on the host";

/// What the four plugins together took for a command beside so many containers.
struct FloorCost {
    operation: &'static str,
    others: usize,
    /// The floor, ours, and the reference.
    times: [Option<Duration>; 3],
}

/// How many containers there are, and how many more have died, when the administrator's tool is timed.
const TOOL: (usize, usize) = (1500, 300);

/// What is measured.
struct BenchPlan {
    /// How often each operation is measured.
    rounds: usize,
    containers: &'static [usize],
    connections: &'static [usize],
    leases: &'static [usize],
    /// How many containers come at once.
    crowds: Crowds<'static>,
    /// How many containers there are when packets are timed.
    packets: Option<usize>,
}

const WHOLE: BenchPlan = BenchPlan {
    rounds: 15,
    containers: &[0, 300, 1000],
    connections: &[20_000, 200_000],
    leases: &[0, 1000, 10_000],
    crowds: Crowds { containers: 64, at_a_time: &[8], others: &[0] },
    packets: Some(1000),
};

const QUICK: BenchPlan = BenchPlan {
    rounds: 7,
    containers: &[0, 100],
    connections: &[20_000],
    leases: &[1000],
    crowds: Crowds { containers: 24, at_a_time: &[8], others: &[0] },
    packets: None,
};

/// The two folders.
struct ComparedFolders {
    ours: PathBuf,
    reference: PathBuf,
}

fn main() {
    let (mut folders, mut plan, mut pictures) = (Vec::new(), WHOLE, None);
    let (mut is_tool, mut many, mut replay) = (false, None, None);
    let mut others: Option<usize> = None;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--quick" => plan = QUICK,
            "--tool" => is_tool = true,
            "--many" => many = Some(many::MANY),
            "--others" => others = arguments.next().and_then(|number| number.parse().ok()),
            "--floor" => replay = arguments.next().map(PathBuf::from),
            "--record" => record(arguments),
            "--pictures" => pictures = arguments.next().map(PathBuf::from),
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
    if let Some(replay) = replay {
        let containers = others.as_ref().map_or(plan.containers, std::slice::from_ref);
        let costs = floor::compare(&sides, &replay, containers, QUICK.rounds);
        if let Some(directory) = pictures {
            write(&directory.join("floor.svg"), &floor_picture(&costs));
        }
        return;
    }
    if let Some(crowds) = many {
        many::measure(&sides, &crowds.beside(others.as_slice()));
        return;
    }
    println!("medians of {} turns; a ratio of 4 means that the reference takes four times as long", plan.rounds);
    sizes(&sides);
    let costs = chain::compare(&sides, &plan);
    leases::compare(&sides, &plan);
    many::measure(&sides, &plan.crowds);
    let packets = plan.packets.map(|containers| packets::measure(&sides.ours, containers));
    if let Some(directory) = pictures {
        write(&directory.join("cost.svg"), &cost_picture(&costs));
        if let Some(packets) = packets {
            write(&directory.join("packets.svg"), &packets);
        }
    }
}

/// Is how the measurement of the floor starts a plugin: `bench --record FOLDER PLUGIN`.
fn record(arguments: impl Iterator<Item = String>) -> ! {
    let paths: Vec<_> = arguments.map(PathBuf::from).collect();
    let [folder, program] = &paths[..] else { panic!("--record needs a folder and a program") };
    floor::record(folder, program)
}

fn write(path: &Path, picture: &Picture) {
    path.parent().map_or(Ok(()), fs::create_dir_all).expect("a folder for the pictures");
    fs::write(path, picture.svg()).unwrap_or_else(|error| panic!("write {}: {error}", path.display()));
    println!("\nwrote {}", path.display());
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

fn cost_picture(costs: &[chain::Measurement]) -> Picture {
    let line = |at: usize, operation: &str, is_ours: bool| {
        let of = costs.iter().filter(|cost| cost.operation == operation);
        let points = of.filter_map(|cost| match cost.load {
            Load::Containers(others) => {
                let time = if is_ours { cost.ours.wall } else { cost.reference.wall };
                Some((others as f64, time.as_secs_f64() * 1000.0))
            }
            Load::Connections(_) => None,
        });
        let (who, stroke) = if is_ours { ("these plugins", Stroke::Thick) } else { ("Go", Stroke::Thin) };
        let colour = 2 * at + usize::from(!is_ours);
        Line { name: format!("{operation}, {who}"), stroke, colour, points: points.collect() }
    };
    let operations = chain::OPERATIONS.iter().enumerate();
    let lines = operations.flat_map(|(at, operation)| [line(at, operation, true), line(at, operation, false)]);
    Picture { title: COST.to_owned(), across: OTHERS.to_owned(), logarithmic: true, lines: lines.collect() }
}

/// Ours, the reference and the floor.
fn floor_picture(costs: &[FloorCost]) -> Picture {
    let mut lines = Vec::new();
    for (at, operation) in chain::OPERATIONS.into_iter().enumerate() {
        for (who, side, stroke) in
            [("Go", 2, Stroke::Thin), ("these plugins", 1, Stroke::Thick), ("the floor", 0, Stroke::Dashed)]
        {
            let of = costs.iter().filter(|cost| cost.operation == operation);
            let points = of.filter_map(|cost| Some((cost.others as f64, cost.times[side]?.as_secs_f64() * 1000.0)));
            let (name, colour) = (format!("{operation}, {who}"), 2 * at + usize::from(side == 2));
            lines.push(Line { name, stroke, colour, points: points.collect() });
        }
    }
    Picture { title: COST.to_owned(), across: OTHERS.to_owned(), logarithmic: true, lines }
}
