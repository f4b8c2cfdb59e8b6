//! One container, and how it is added, checked and deleted.

use std::net::IpAddr;
use std::path::Path;
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cni_conformance::cnitool::ToolCall;
use cni_conformance::{Container, Outcome};
use serde_json::{Value, json};

use crate::parallel::host::{ParallelHost, Sides};
use crate::parallel::tally::Tally;
use crate::parallel::traces;

/// The reference starts fifty processes for one container, and a hundred containers come at once on two processors.
pub const DEADLINE: Duration = Duration::from_secs(300);

/// How much later than the one before a container comes that is late.
const LATE: Duration = Duration::from_millis(20);

/// How often a runtime tries what the reference does not manage at once.
const TRIES: usize = 30;

/// Read by who makes a container known, and written by who must not be surprised by a new one.
pub type Registry = RwLock<()>;

/// How many containers are the reference's at most: more of them take minutes.
const OF_REFERENCE: usize = 16;

/// Whose plugins a container is added by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    Ours,
    Reference,
}

/// A container that a runtime knows, with its calls.
pub struct KnownContainer {
    pub name: String,
    pub id: String,
    pub side: Side,
    /// Three of four come at the same moment, the others into the midst of them.
    pub delay: Duration,
    /// The runtime knows it from before its ADD to after its DEL.
    known: AtomicBool,
    add: ToolCall,
    check: ToolCall,
    del: ToolCall,
    /// By the other side, where both work on one host.
    del_by_other: ToolCall,
}

impl KnownContainer {
    pub fn new(host: &ParallelHost, sides: &Sides, number: usize, container: &Container) -> Self {
        let (side, folder, other) = match sides {
            Sides::Both(folder) if number.is_multiple_of(2) && number < 2 * OF_REFERENCE => {
                (Side::Reference, Some(folder.as_path()), None)
            }
            Sides::Both(folder) => (Side::Ours, None, Some(folder.as_path())),
            Sides::Ours => (Side::Ours, None, None),
        };
        let port = 8000 + number;
        let ports = ["tcp", "udp"].map(|protocol| json!({"hostPort": port, "containerPort": 80, "protocol": protocol}));
        let tool =
            |folder: Option<&Path>| host.tool(folder).capabilities(json!({"portMappings": ports})).deadline(DEADLINE);
        let call = |folder, verb| tool(folder).prepare(verb, container.path());
        Self {
            name: container.name().to_owned(),
            id: id_of(host, container),
            side,
            delay: if number % 4 == 3 { LATE * u32::try_from(number).expect("few containers") } else { Duration::ZERO },
            known: AtomicBool::new(false),
            add: call(folder, "add"),
            check: call(folder, "check"),
            del: call(folder, "del"),
            del_by_other: call(other, "del"),
        }
    }

    pub fn is_known(&self) -> bool {
        self.known.load(Ordering::SeqCst)
    }

    /// Adds it, and returns its addresses. As a runtime, it deletes what the reference could not add, and tries again.
    pub fn add(&self, registry: &Registry, tally: &Tally) -> Vec<IpAddr> {
        self.become_known(registry);
        for _ in 0..TRIES {
            let outcome = self.timed(&self.add, tally);
            match self.side {
                _ if outcome.succeeded() => return addresses(&outcome.result()),
                Side::Ours => break,
                Side::Reference => {
                    tally.abandoned_by_reference(traces::leases_of(&self.id));
                    self.take_away(&self.del, self.side, tally);
                }
            }
        }
        Vec::new()
    }

    fn become_known(&self, registry: &Registry) {
        let _while_no_garbage_is_collected = registry.read().expect("nobody panics with the registry");
        self.known.store(true, Ordering::SeqCst);
    }

    pub fn check(&self, tally: &Tally) {
        self.timed(&self.check, tally);
    }

    /// Deletes it; what the reference does not manage is tried again.
    pub fn del(&self, tally: &Tally) {
        self.take_away(&self.del, self.side, tally);
        self.known.store(false, Ordering::SeqCst);
    }

    /// Deletes it by the side that has not added it.
    pub fn del_by_other(&self, tally: &Tally) {
        let other = match self.side {
            Side::Ours => Side::Reference,
            Side::Reference => Side::Ours,
        };
        self.take_away(&self.del_by_other, other, tally);
        self.known.store(false, Ordering::SeqCst);
    }

    fn take_away(&self, call: &ToolCall, side: Side, tally: &Tally) {
        for _ in 0..TRIES {
            let outcome = call.run();
            tally.called(side, &self.name, &outcome);
            if outcome.succeeded() || side == Side::Ours {
                break;
            }
        }
    }

    fn timed(&self, call: &ToolCall, tally: &Tally) -> Outcome {
        let started = Instant::now();
        let outcome = call.run();
        tally.called(self.side, &self.name, &outcome);
        tally.took(self.side, started.elapsed());
        outcome
    }
}

/// The container ID that `cnitool` makes of the namespace's path.
fn id_of(host: &ParallelHost, container: &Container) -> String {
    let line = format!("printf %s {} | sha512sum", container.path());
    let sum = host.sandbox().exec(&["sh", "-c", &line]).expect_success().stdout;
    format!("cnitool-{}", &sum[..20])
}

fn addresses(result: &Value) -> Vec<IpAddr> {
    let ips = result["ips"].as_array().expect("a result has addresses").iter();
    let texts = ips.filter_map(|ip| ip["address"].as_str()?.split('/').next());
    texts.map(|text| text.parse().expect("an address")).collect()
}
