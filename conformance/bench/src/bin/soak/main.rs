//! The attack: containers come and go in eight workers, as on a very bad day, and nobody who lives may be touched.
//!
//! The networks have between them all plugins that this kernel has. Plugins are killed, rules flushed, namespaces lose their
//! names and get those of others, interfaces are renamed from inside, containers end without a DEL and come back under the same
//! id, `gc --remove` and `repair` run all the time, and a local user holds the networks' addresses in a namespace of its own.
//! After each minute the workers stop. Then no address is used twice, each living container has its addresses, rules, ports and
//! traffic, and when all but the residents have ended, nothing is left of them.
//!
//! What a worker does follows from the seed, its number and its step. When it happens does not.
//!
//! With `--reference`, the reference's plugins take part in every second minute. What they leak does not count, so:
//! - they are not killed: no DEL of theirs finds half of what they make;
//! - a container that they added keeps name and path and is not left to `gc`, since they write down neither whose an interface
//!   is nor in which namespace, so that nobody can tell later (H5, M3 and M4 are their defects too);
//! - an ADD or DEL of theirs is repeated, since they race for what all containers share, and such things may be there twice.
#![expect(clippy::print_stderr, reason = "for a person to read")]

mod checks;
mod choices;
mod guest;
mod inhabitant;
mod leases;
mod meddlers;
mod networks;
mod setting;
mod stage;
mod worker;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use cni_conformance::reference::{self, say};
use cni_conformance::{Runtime, Sandbox};

use checks::Remains;
use guest::{Caller, Guest, Order};
use meddlers::User;
use stage::{Props, Stage};
use worker::Worker;

/// Without one of the meddlers, a violation is seen to be of another.
const USAGE: &str = "usage: soak MINUTES BIN_DIR [--reference] [--seed N] [--without gc|repair|user]...";

const WORKERS: u64 = 8;

/// What the command line asks for.
struct Options {
    minutes: u64,
    folder: PathBuf,
    with_reference: bool,
    seed: u64,
    without: Vec<String>,
}

impl Options {
    fn parse(mut words: impl Iterator<Item = String>) -> Option<Self> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?;
        let (mut seed, mut with_reference) = (u64::from(now.subsec_nanos()), false);
        let (mut others, mut without) = (Vec::new(), Vec::new());
        while let Some(word) = words.next() {
            match word.as_str() {
                "--reference" => with_reference = true,
                "--without" => without.push(words.next()?),
                "--seed" => seed = words.next()?.parse().ok()?,
                _ => others.push(word),
            }
        }
        let [minutes, folder] = <[String; 2]>::try_from(others).ok()?;
        let folder = PathBuf::from(folder).canonicalize().ok()?;
        Some(Self { minutes: minutes.parse().ok()?, folder, with_reference, seed, without })
    }

    /// Tells whether a meddler is wanted.
    fn has(&self, meddler: &str) -> bool {
        self.without.iter().all(|word| word != meddler)
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [argument, id] = &words[..]
        && argument == inhabitant::ARGUMENT
    {
        inhabitant::live(id);
    }
    let Some(options) = Options::parse(words.into_iter()).filter(|options| stage::has_plugins(&options.folder)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    say(&format!("seed {}", options.seed));
    let violations = attack(&options);
    say(&match violations {
        0 => "no violation".to_owned(),
        count => format!("{count} violations; see them again: soak … --seed {}", options.seed),
    });
    if violations == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn attack(options: &Options) -> usize {
    let reference = options.with_reference.then(|| reference::find("soak")).flatten();
    let reference = reference.map(|reference| reference.folder);
    let dhcp = setting::has_dhcp_server();
    let networks = networks::all(dhcp, reference.as_deref());
    let sandbox = Sandbox::new();
    let outside = sandbox.outside();
    setting::make_devices(sandbox.host());
    setting::write_lease();
    let routers = setting::make_masters(&sandbox, &networks);
    let _servers = dhcp.then(|| setting::start_dhcp(&options.folder));
    let runtime = |folder: &PathBuf| Runtime::of_plugins(&sandbox, serde_json::Value::Null, folder);
    let stage = Stage::new(Props {
        seed: options.seed,
        host: sandbox.host().clone(),
        outside: (*outside).clone(),
        routers,
        ours: runtime(&options.folder),
        reference: reference.as_ref().map(runtime),
        folder: options.folder.clone(),
        bus: ("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/run/conformance/none".to_owned()),
        networks: &networks,
    });
    for network in &networks {
        say(&format!("network {}: {}", network.name, network.types().join(" ")));
    }
    run(options, &stage, &sandbox);
    stage.count_violations()
}

/// Minute by minute.
fn run(options: &Options, stage: &Stage<'_>, sandbox: &Sandbox) {
    let residents = residents(stage);
    let before = Remains::observe(sandbox);
    let mut user = options.has("user").then(|| User::start("resident-nomad"));
    let mut workers: Vec<_> = (1..=WORKERS).map(Worker::new).collect();
    for minute in 1..=options.minutes {
        stage.let_reference_take_part(minute % 2 == 0);
        work(&mut workers, options, stage);
        check(&workers, &residents, stage);
        leave(&mut workers, stage);
        checks::nothing_is_left(&before, sandbox, stage);
        let user = if user.as_mut().is_none_or(User::lives) {
            ""
        } else {
            "; this kernel does not let a user have network namespaces"
        };
        say(&format!("minute {minute}: {} containers, {} violations{user}", stage.births(), stage.count_violations()));
    }
}

/// A container of each network that lives all the time, behind one that has made what all share.
fn residents<'n>(stage: &Stage<'n>) -> Vec<Guest<'n>> {
    let mut residents = Vec::new();
    for (at, network) in (0_u16..).zip(stage.networks) {
        for id in [format!("first-{}", network.name), format!("resident-{}", network.name)] {
            let order = Order {
                place: &id,
                network,
                args: network.args(100, u64::from(at)),
                device: format!("{}{at}", &id[..1]),
                port: Some(19_000 + at),
                id: id.clone(),
            };
            let mut guest = Guest::enter(order, stage);
            guest.add(Caller::Ours, stage).unwrap_or_else(|said| panic!("ADD of {id}: {said}"));
            if id.starts_with("first") {
                guest.del(Caller::Ours, stage).unwrap_or_else(|said| panic!("DEL of {id}: {said}"));
                guest.end(stage);
            } else {
                residents.push(guest);
            }
        }
    }
    residents
}

/// All work for a minute, beside `gc --remove` and `repair`.
fn work<'n>(workers: &mut [Worker<'n>], options: &Options, stage: &Stage<'n>) {
    let (until, stop) = (Instant::now() + Duration::from_secs(60), AtomicBool::new(false));
    thread::scope(|scope| {
        let collect = options.has("gc").then(|| scope.spawn(|| meddlers::collect(stage, &stop)));
        let repair = options.has("repair").then(|| scope.spawn(|| meddlers::repair(stage, &stop)));
        let working: Vec<_> = workers.iter_mut().map(|worker| scope.spawn(|| worker.run(until, stage))).collect();
        for worker in working {
            worker.join().expect("a worker does not panic");
        }
        stop.store(true, Ordering::Relaxed);
        for meddler in collect.into_iter().chain(repair) {
            if meddler.join().is_err() {
                stage.violation(&[], "gc or repair has not ended");
            }
        }
    });
}

/// What must hold of those who live.
fn check<'n>(workers: &[Worker<'n>], residents: &[Guest<'n>], stage: &Stage<'n>) {
    checks::tool_is_content(stage);
    let living = || workers.iter().flat_map(|worker| &worker.guests).chain(residents);
    let ghosts = workers.iter().flat_map(|worker| &worker.ghosts);
    checks::no_address_twice(living().chain(ghosts), stage);
    checks::all_work(living(), stage);
}

/// All but the residents end: every second by DEL, the others without.
fn leave<'n>(workers: &mut [Worker<'n>], stage: &Stage<'n>) {
    for worker in workers {
        worker.ghosts.drain(..).for_each(|ghost| ghost.end(stage));
        for (at, guest) in worker.guests.drain(..).enumerate() {
            if at % 2 == 0 || guest.is_of_reference {
                let deleted = guest.del(Caller::Ours, stage);
                deleted.unwrap_or_else(|said| stage.violation(&[&guest.id], &format!("DEL of {}: {said}", guest.id)));
            }
            guest.end(stage);
        }
    }
    checks::age_leases(stage);
    checks::tool_is_content(stage);
}
