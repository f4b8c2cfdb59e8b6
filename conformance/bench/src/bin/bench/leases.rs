//! Measures host-local alone, beside many leases.

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use cni_conformance::{Invocation, Sandbox, Verb};
use serde_json::{Value, json};

use crate::side::{BenchSide, in_turns};
use crate::table::{head, median, row};
use crate::{BenchPlan, ComparedFolders};

const OPERATIONS: [&str; 3] = ["ADD", "DEL", "DEL again"];

/// Compares both sides beside more and more leases.
pub fn compare(sides: &ComparedFolders, plan: &BenchPlan) {
    head("host-local", "leases");
    for leases in plan.leases {
        let start = |folder: &Path| {
            let folder = folder.to_owned();
            BenchSide::start(move |next, tell| work(&folder, *leases, next, tell))
        };
        let reported = in_turns(plan.rounds, [start(&sides.ours), start(&sides.reference)]);
        for (at, operation) in OPERATIONS.into_iter().enumerate() {
            let [ours, reference] =
                reported.each_ref().map(|turns| median(turns.iter().map(|turn| turn[at]).collect()));
            row(operation, *leases, ours, reference);
        }
    }
}

fn address(number: usize) -> Ipv4Addr {
    Ipv4Addr::from(0x0a00_0001 + u32::try_from(number).expect("a few leases"))
}

fn work(folder: &Path, leases: usize, next: &dyn Fn() -> Option<()>, tell: &dyn Fn([Duration; 3])) {
    let sandbox = Sandbox::new();
    let directory = Path::new("/run/cni/bench");
    fs::create_dir_all(directory).expect("a folder for the leases");
    for number in 1..=leases {
        let content = format!("lease{number}\r\neth0");
        fs::write(directory.join(address(number).to_string()), content).expect("a lease");
    }
    if leases > 0 {
        fs::write(directory.join("last_reserved_ip.0"), address(leases).to_string()).expect("a cursor");
    }
    let config: Value = json!({
        "cniVersion": "1.0.0", "name": "bench", "type": "x",
        "ipam": {"type": "host-local", "dataDir": "/run/cni", "ranges": [[{"subnet": "10.0.0.0/8"}]]},
    });
    let mut number = 0;
    while next().is_some() {
        number += 1;
        let call = |verb| {
            let call = Invocation::new(&sandbox, "host-local", verb).binaries(folder).config(&config);
            let outcome = call.container_id(&format!("new{number}")).netns("/nowhere").run();
            outcome.expect_success();
            outcome.elapsed()
        };
        tell([Verb::Add, Verb::Del, Verb::Del].map(call));
    }
}
