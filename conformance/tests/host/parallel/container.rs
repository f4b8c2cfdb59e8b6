//! One container, how it is added, checked and deleted, and what failed.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, RwLock};
use std::thread;
use std::time::Duration;

use cni_conformance::Outcome;
use cni_conformance::cnitool::ToolCall;
use serde_json::json;

use crate::backend_host::BackendHost;

/// A hundred containers may come at once on two processors.
pub const DEADLINE: Duration = Duration::from_secs(300);

/// How much later than the one before a container comes that is late.
const LATE: Duration = Duration::from_millis(20);

/// What failed, from any thread.
#[derive(Debug, Default)]
pub struct Tally {
    failures: Mutex<Vec<String>>,
    /// Read by who makes a container known, and written by who must not be surprised by a new one.
    pub registry: RwLock<()>,
}

impl Tally {
    /// Notes a call.
    pub fn note(&self, what: &str, outcome: &Outcome) {
        if !outcome.succeeded() {
            self.failures.lock().expect("nobody panics with it").push(format!("{what}: {outcome}"));
        }
    }

    #[track_caller]
    pub fn assert_all_succeed(&self) {
        let failures = self.failures.lock().expect("nobody panics with it");
        assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
    }
}

/// A container that a runtime knows, with its calls.
pub struct KnownContainer {
    name: String,
    pub id: String,
    /// Three of four come at the same moment, the others into the midst of them.
    delay: Duration,
    /// The runtime knows it from before its ADD to after its DEL.
    known: AtomicBool,
    calls: [ToolCall; 3],
}

impl KnownContainer {
    pub fn new(host: &BackendHost, number: usize) -> Self {
        let container = host.sandbox().container(&format!("c{number}"));
        let port = 8000 + number;
        let ports = ["tcp", "udp"].map(|protocol| json!({"hostPort": port, "containerPort": 80, "protocol": protocol}));
        let call = |verb| {
            let tool = host.tool().capabilities(json!({"portMappings": ports})).deadline(DEADLINE);
            tool.prepare(verb, container.path())
        };
        // The container ID that `cnitool` makes of the namespace's path.
        let line = format!("printf %s {} | sha512sum", container.path());
        let sum = host.sandbox().exec(&["sh", "-c", &line]).expect_success().stdout;
        Self {
            name: container.name().to_owned(),
            id: format!("cnitool-{}", &sum[..20]),
            delay: if number % 4 == 3 { LATE * u32::try_from(number).expect("few containers") } else { Duration::ZERO },
            known: AtomicBool::new(false),
            calls: ["add", "check", "del"].map(call),
        }
    }

    pub fn is_known(&self) -> bool {
        self.known.load(Ordering::SeqCst)
    }

    /// Adds it, and returns its addresses.
    pub fn add(&self, tally: &Tally) -> Vec<IpAddr> {
        thread::sleep(self.delay);
        {
            let _while_no_garbage_is_collected = tally.registry.read().expect("nobody panics with the registry");
            self.known.store(true, Ordering::SeqCst);
        }
        let outcome = self.calls[0].run();
        tally.note(&self.name, &outcome);
        if !outcome.succeeded() {
            return Vec::new();
        }
        let result = outcome.result();
        let ips = result["ips"].as_array().expect("a result has addresses").iter();
        let texts = ips.filter_map(|ip| ip["address"].as_str()?.split('/').next());
        texts.map(|text| text.parse().expect("an address")).collect()
    }

    pub fn check(&self, tally: &Tally) {
        tally.note(&self.name, &self.calls[1].run());
    }

    pub fn del(&self, tally: &Tally) {
        tally.note(&self.name, &self.calls[2].run());
        self.known.store(false, Ordering::SeqCst);
    }
}
