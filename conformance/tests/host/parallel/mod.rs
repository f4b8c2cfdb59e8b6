//! Many containers come and go at once, on a host that has nothing before the first of them.
//!
//! The bridge, the chains, the tables, forwarding and the folders of leases and records are made by the container that comes
//! first, while others of them look. Administrators repair and collect garbage meanwhile. Nothing may be there twice.
//!
//! `CNI_PARALLEL_ROUNDS` and `CNI_PARALLEL_CONTAINERS` make it larger.

mod container;
mod traces;

use std::env;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;

use cni_conformance::keys::with;
use cni_conformance::state::{await_none, differences};
use cni_conformance::{Invocation, Outcome, Verb, leases};
use serde_json::{Value, json};

use crate::backend_host::{Backend, BackendHost};
use container::{DEADLINE, KnownContainer, Tally};

/// As many processes at once as one round starts are enough.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn from_environment(variable: &str, otherwise: usize) -> usize {
    let Ok(text) = env::var(variable) else { return otherwise };
    text.parse().unwrap_or_else(|error| panic!("{variable}={text}: {error}"))
}

fn rounds(backend: Backend) {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let containers = from_environment("CNI_PARALLEL_CONTAINERS", 10);
    for _ in 0..from_environment("CNI_PARALLEL_ROUNDS", 1) {
        let shared = Round::new(backend, 2).one_after_the_other();
        Round::new(backend, containers).at_once(&shared);
    }
}

#[test]
fn all_at_once_where_iptables_keeps_its_tables_in_nf_tables() {
    rounds(Backend::IptablesNft);
}

#[test]
fn all_at_once_where_the_programs_of_iptables_are_scripts() {
    rounds(Backend::IptablesScripts);
}

#[test]
fn all_at_once_where_iptables_is_legacy() {
    rounds(Backend::IptablesLegacy);
}

#[test]
fn all_at_once_without_iptables() {
    rounds(Backend::Nftables);
}

#[test]
fn all_at_once_beside_firewalld() {
    rounds(Backend::Firewalld);
}

/// ADDs at once, and DELs at once, on a host that has nothing yet.
struct Round {
    crowd: Crowd,
    host: BackendHost,
}

/// The containers, for threads.
struct Crowd {
    containers: Vec<KnownContainer>,
    tally: Tally,
}

impl Crowd {
    /// Does something with all containers from the same moment on.
    fn all<T: Send>(&self, work: impl Fn(&KnownContainer) -> T + Sync) -> Vec<T> {
        let start = Barrier::new(self.containers.len());
        thread::scope(|scope| {
            let begin = |one| {
                start.wait();
                work(one)
            };
            let running: Vec<_> = self.containers.iter().map(|one| scope.spawn(move || begin(one))).collect();
            running.into_iter().map(|one| one.join().expect("a call in its own thread")).collect()
        })
    }

    /// What the runtime knows at this moment is valid; as SPEC wants it, no new container is added before GC ends. As
    /// libcni does it, all plugins get the same list.
    fn collect(&self, collecting: &[(Invocation, Value)]) {
        let _nobody_comes = self.tally.registry.write().expect("nobody panics with the registry");
        let known = self.containers.iter().filter(|one| one.is_known());
        let valid: Value = known.map(|one| json!({"containerID": one.id, "ifname": "eth0"})).collect();
        collected(collecting, &valid).iter().for_each(|outcome| self.tally.note("GC", outcome));
    }
}

/// Says that the work is done, also when it panics.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Round {
    fn new(backend: Backend, count: usize) -> Self {
        let host = BackendHost::new(backend);
        let containers = (0..count).map(|number| KnownContainer::new(&host, number)).collect();
        Self { crowd: Crowd { containers, tally: Tally::default() }, host }
    }

    /// What containers that come and go alone leave for the next ones.
    fn one_after_the_other(&self) -> Vec<String> {
        let Crowd { containers, tally } = &self.crowd;
        containers.iter().for_each(|one| drop(one.add(tally)));
        containers.iter().for_each(|one| one.del(tally));
        tally.assert_all_succeed();
        traces::observe(&self.host)
    }

    fn at_once(&self, shared: &[String]) {
        let tally = &self.crowd.tally;
        let given = self.during(|crowd| crowd.all(|one| one.add(tally)));
        self.assert_living(given.concat());
        self.during(|crowd| crowd.all(|one| one.del(tally)));
        tally.assert_all_succeed();
        self.assert_nothing_left(shared);
    }

    /// Repairs, and collects garbage, again and again until `work` is done.
    fn during<T>(&self, work: impl FnOnce(&Crowd) -> T) -> T {
        let ended = AtomicBool::new(false);
        let call = |name: &str, verb| {
            let call = Invocation::new(self.host.sandbox(), name, verb).deadline(DEADLINE);
            self.host.machine.with_bus(call)
        };
        let repair = call("cni-plugins", Verb::Add).arguments(&["repair"]);
        let (collecting, crowd) = (self.collecting(), &self.crowd);
        let again = |meddle: &dyn Fn()| {
            while !ended.load(Ordering::SeqCst) {
                meddle();
            }
        };
        thread::scope(|scope| {
            let end = StopOnDrop(&ended);
            scope.spawn(|| again(&|| crowd.tally.note("repair", &repair.run())));
            scope.spawn(|| again(&|| crowd.collect(&collecting)));
            let done = work(crowd);
            drop(end);
            done
        })
    }

    /// The plugins' GC, without what is valid.
    fn collecting(&self) -> Vec<(Invocation, Value)> {
        let list = self.host.list();
        let plugins = list["plugins"].as_array().expect("plugins");
        let call = |plugin: &Value| {
            let name = plugin["type"].as_str().expect("a type");
            let call =
                Invocation::new(self.host.sandbox(), name, Verb::Gc).container_id("").ifname("").deadline(DEADLINE);
            let keys = json!({"cniVersion": "1.1.0", "name": list["name"]});
            (self.host.machine.with_bus(call), with(plugin, &keys))
        };
        plugins.iter().map(call).collect()
    }

    fn assert_living(&self, mut given: Vec<IpAddr>) {
        self.crowd.tally.assert_all_succeed();
        given.sort();
        let mut distinct = given.clone();
        distinct.dedup();
        assert_eq!(given.len(), 2 * self.crowd.containers.len(), "every container has an address of each family");
        assert_eq!(distinct, given, "no address is given twice");
        let texts: Vec<String> = given.iter().map(ToString::to_string).collect();
        assert_eq!(leases::of_network("/run/leases", "n1"), texts, "every address has its lease");
        self.crowd.containers.iter().for_each(|one| one.check(&self.crowd.tally));
        self.crowd.tally.assert_all_succeed();
        let repeated = traces::repeated_rules(&self.host);
        assert!(repeated.is_empty(), "rules are there twice: {repeated:#?}");
    }

    /// The kernel cleans up behind what is gone; GC finds nothing.
    fn assert_nothing_left(&self, shared: &[String]) {
        await_none(|| differences(shared, &traces::observe(&self.host)));
        for outcome in collected(&self.collecting(), &json!([])) {
            outcome.expect_success();
        }
        assert_eq!(traces::observe(&self.host), shared, "GC changes something");
    }
}

fn collected(collecting: &[(Invocation, Value)], valid: &Value) -> Vec<Outcome> {
    let keys = json!({"cni.dev/valid-attachments": valid, "cni.dev/attachments": valid});
    collecting.iter().map(|(call, config)| call.clone().config(&with(config, &keys)).run()).collect()
}
