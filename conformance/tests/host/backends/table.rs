//! The one table: back ends, families and commands.

use cni_conformance::table::work_out;
use cni_conformance::{Standalone, Verb};
use serde_json::json;

use crate::backends::backend_host::BackendHost;
use crate::backends::network::{Backend, Stack};
use crate::backends::{add, check, del, gc};

/// Works out a cell, and tells what it saw.
type Cell = fn(&BackendHost) -> String;

const COMMANDS: [(&str, Cell); 4] =
    [("ADD", add::work_out), ("CHECK", check::work_out), ("DEL", del::work_out), ("GC", gc::work_out)];

#[test]
fn every_command_works_on_every_back_end_in_every_family() {
    let mut cells = Vec::new();
    for backend in Backend::ALL {
        for stack in Stack::ALL {
            for (command, cell) in COMMANDS {
                cells.push(([backend.name(), stack.name(), command].map(str::to_owned), (backend, stack, cell)));
            }
        }
    }
    work_out(["back end", "families", "command"], cells, |(backend, stack, cell)| {
        let machine = BackendHost::new(backend, stack);
        let seen = cell(&machine);
        match backend {
            Backend::IptablesNft | Backend::IptablesLegacy | Backend::Nftables => seen,
            Backend::Firewalld => format!("{seen}; {}", why_ports_stand_elsewhere(&machine)),
        }
    });
}

/// The reference's portmap refuses it as well.
fn why_ports_stand_elsewhere(machine: &BackendHost) -> String {
    let portmap = Standalone::new(machine.sandbox(), "portmap", "own", &json!({}), &json!({"backend": "firewalld"}));
    let error = portmap.call(Verb::Add).run().expect_error(7, "unrecognized backend \"firewalld\"");
    format!("ports by iptables: {}", error.msg)
}
