//! The soak test: eight workers add and delete containers while much goes wrong, and no living container may be harmed.
//!
//! Together the networks use all plugins that this kernel supports. Plugins are killed, rules are flushed, namespaces lose their
//! names and their names are used again, interfaces are renamed from inside, containers end without DEL and are added again with
//! the same id, `gc --remove` and `repair` run all the time, and a local user holds the networks' addresses in another namespace.
//! After each minute the workers stop, and the test checks that no address is used twice, that each living container has its
//! addresses, rules, ports and traffic, and that nothing is left after all containers but the residents have ended.
//!
//! The seed decides what each worker does in each step, but not when.
//!
//! With `--reference`, the reference's plugins are called too in every second minute. Their own defects must not count, so:
//! - they are not killed: their DEL finds only half of what an unfinished ADD has made;
//! - the namespace of a container that they added is not renamed, and the container always gets DEL, since they do not record the
//!   owner of an interface or its namespace;
//! - a failed ADD or DEL of theirs is repeated, since their calls disturb each other.
#![expect(clippy::print_stderr, reason = "for a person to read")]

mod background;
mod checks;
mod container;
mod context;
mod id_server;
mod leases;
mod networks;
mod setup;
mod steps;
mod worker;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use cni_conformance::reference::{self, say};
use cni_conformance::{Runtime, Sandbox};

use background::LocalUser;
use checks::StableState;
use container::{ContainerSpec, Implementation, SoakContainer};
use context::{Context, SharedState};
use worker::Worker;

/// `--without` shows which of the background jobs causes a violation.
const USAGE: &str = "usage: soak MINUTES BIN_DIR [--reference] [--seed N] [--without gc|repair|user]...";

const WORKERS: u64 = 8;

/// The command line.
struct SoakOptions {
    minutes: u64,
    folder: PathBuf,
    with_reference: bool,
    seed: u64,
    without: Vec<String>,
}

impl SoakOptions {
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

    /// Whether a background job runs.
    fn has(&self, job: &str) -> bool {
        self.without.iter().all(|word| word != job)
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [argument, id] = &words[..]
        && argument == id_server::ARGUMENT
    {
        id_server::run(id);
    }
    let Some(options) = SoakOptions::parse(words.into_iter()).filter(|options| context::has_plugins(&options.folder))
    else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    say(&format!("seed {}", options.seed));
    let violations = soak(&options);
    say(&match violations {
        0 => "no violation".to_owned(),
        count => format!("{count} violations; repeat them with soak … --seed {}", options.seed),
    });
    if violations == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn soak(options: &SoakOptions) -> usize {
    let reference = options.with_reference.then(|| reference::find("soak")).flatten();
    let reference = reference.map(|reference| reference.folder);
    let dhcp = setup::has_dhcp_server();
    let networks = networks::all(dhcp, reference.as_deref());
    let sandbox = Sandbox::new();
    let outside = sandbox.outside();
    setup::make_devices(sandbox.host());
    setup::write_lease();
    let routers = setup::make_masters(&sandbox, &networks);
    let _servers = dhcp.then(|| setup::start_dhcp(&options.folder));
    let runtime = |folder: &PathBuf| Runtime::of_plugins(&sandbox, serde_json::Value::Null, folder);
    let context = Context {
        seed: options.seed,
        host: sandbox.host().clone(),
        outside: (*outside).clone(),
        routers,
        ours: runtime(&options.folder),
        reference: reference.as_ref().map(runtime),
        folder: options.folder.clone(),
        bus: ("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/run/conformance/none".to_owned()),
        networks: &networks,
        shared: SharedState::default(),
    };
    for network in &networks {
        say(&format!("network {}: {}", network.name, network.types().join(" ")));
    }
    run(options, &context, &sandbox);
    context.count_violations()
}

/// Runs each minute: work, checks, end.
fn run(options: &SoakOptions, context: &Context<'_>, sandbox: &Sandbox) {
    let residents = residents(context);
    let before = StableState::observe(sandbox);
    let mut user = options.has("user").then(LocalUser::start);
    let mut workers: Vec<_> = (1..=WORKERS).map(Worker::new).collect();
    for minute in 1..=options.minutes {
        context.set_reference_enabled(minute % 2 == 0);
        work(&mut workers, options, context);
        check(&workers, &residents, context);
        end_all(&mut workers, context);
        checks::nothing_is_left(&before, sandbox, context);
        let user = if user.as_mut().is_none_or(LocalUser::lives) {
            ""
        } else {
            "; this kernel does not allow user namespaces"
        };
        say(&format!(
            "minute {minute}: {} containers, {} violations{user}",
            context.added_count(),
            context.count_violations()
        ));
    }
}

/// Adds a container of each network that lives until the end. One before it makes what all containers share.
fn residents<'n>(context: &Context<'n>) -> Vec<SoakContainer<'n>> {
    let mut residents = Vec::new();
    for (at, network) in (0_u16..).zip(context.networks) {
        for id in [format!("first-{}", network.name), format!("resident-{}", network.name)] {
            let spec = ContainerSpec {
                netns_name: &id,
                network,
                args: network.args(100, u64::from(at)),
                device: format!("{}{at}", &id[..1]),
                port: Some(19_000 + at),
                id: id.clone(),
            };
            let mut container = SoakContainer::create(spec, context);
            container.add(Implementation::Ours, context).unwrap_or_else(|error| panic!("ADD of {id}: {error}"));
            if id.starts_with("first") {
                container.del(Implementation::Ours, context).unwrap_or_else(|error| panic!("DEL of {id}: {error}"));
                container.end(context);
            } else {
                residents.push(container);
            }
        }
    }
    residents
}

/// Runs all workers for a minute, beside `gc --remove` and `repair`, unless the reference's plugins are called, which take no lock.
fn work<'n>(workers: &mut [Worker<'n>], options: &SoakOptions, context: &Context<'n>) {
    let has = |job: &str| options.has(job) && !context.is_reference_enabled();
    let (until, stop) = (Instant::now() + Duration::from_secs(60), AtomicBool::new(false));
    thread::scope(|scope| {
        let collect = has("gc").then(|| scope.spawn(|| background::collect(context, &stop)));
        let repair = has("repair").then(|| scope.spawn(|| background::repair(context, &stop)));
        let working: Vec<_> = workers.iter_mut().map(|worker| scope.spawn(|| worker.run(until, context))).collect();
        for worker in working {
            worker.join().expect("a worker does not panic");
        }
        stop.store(true, Ordering::Relaxed);
        for job in collect.into_iter().chain(repair) {
            if job.join().is_err() {
                context.violation(&[], "gc or repair has not ended");
            }
        }
    });
}

/// Checks the living containers.
fn check<'n>(workers: &[Worker<'n>], residents: &[SoakContainer<'n>], context: &Context<'n>) {
    checks::tool_succeeds(context);
    let living = || workers.iter().flat_map(|worker| &worker.containers).chain(residents);
    let deleted = workers.iter().flat_map(|worker| &worker.deleted);
    checks::no_address_twice(living().chain(deleted), context);
    checks::all_containers_work(living(), context);
}

/// Ends all containers but the residents: every second one with DEL, the others without.
fn end_all<'n>(workers: &mut [Worker<'n>], context: &Context<'n>) {
    for worker in workers {
        worker.deleted.drain(..).for_each(|container| container.end(context));
        for (at, container) in worker.containers.drain(..).enumerate() {
            if at % 2 == 0 || container.is_of_reference {
                let deleted = container.del(Implementation::Ours, context);
                deleted.unwrap_or_else(|error| {
                    context.violation(&[&container.id], &format!("DEL of {}: {error}", container.id))
                });
            }
            container.end(context);
        }
    }
    checks::age_leases(context);
    checks::tool_succeeds(context);
}
