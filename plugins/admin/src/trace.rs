//! `cni-plugins trace`: the path of packets through the packet filter, and why they end where they do.
//!
//! Packets are marked for nf_tables' trace in a table that the kernel deletes with this process. `packet_path.rs` assembles
//! each path from the kernel's messages; `judge.rs` says in one sentence what happened to the packet. Both have no effects.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use crate::inventory::Inventory;
use crate::life::require_host;
use crate::output::report;
use crate::result_cache::Scope;

mod case;
mod follow;
mod judge;
mod owner;
mod packet;
mod packet_path;
mod probe;
mod queries;
mod rendering;
mod rules;
mod traced_flow;

use traced_flow::{TraceTarget, TracedFlow};

/// The exit status of a wrong command line.
const WRONG: u8 = 2;

/// How long packets of others are waited for, and the answer to the probe.
const SECONDS: u64 = 10;
const PROBE_SECONDS: u64 = 3;

/// The options of `trace`.
#[derive(Args, Debug)]
pub struct TraceOptions {
    /// a port of the host, as PORT or PORT/udp; or a container, or CONTAINER to ADDRESS[:PORT][/udp]
    #[arg(required = true, num_args = 1..=3, value_name = "PORT|CONTAINER")]
    what: Vec<String>,
    /// send a packet instead of waiting for one
    #[arg(long)]
    probe: bool,
    /// how many seconds to wait for packets; default 10, and 3 for the answer to --probe
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: Option<u64>,
    #[command(flatten)]
    scope: Scope,
    /// print one JSON document, for programs
    #[arg(long)]
    json: bool,
}

/// Follows packets, and prints their paths.
pub fn run(options: &TraceOptions) -> Result<ExitCode, String> {
    let target = match TraceTarget::parse(&options.what) {
        Ok(target) => target,
        Err(sentence) => {
            report("error", [sentence]);
            return Ok(ExitCode::from(WRONG));
        }
    };
    require_host()?;
    let found = Inventory::observe(&options.scope);
    report("cni-plugins trace", &found.unknown);
    let course = TracedFlow::find(&target, &found)?;
    let patience = Duration::from_secs(options.seconds.unwrap_or(if options.probe { PROBE_SECONDS } else { SECONDS }));
    let mut report = follow::follow(&course, &found, options.probe, patience).map_err(|error| error.in_full())?;
    report.verdict.helps = report.verdict.helps.map(|helps| options.scope.advised(&helps));
    Ok(report.print(options.json))
}
