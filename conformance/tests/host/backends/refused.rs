//! Invalid values on every back end: one clear error, and nothing changed.
//!
//! An error names the key and the value, with code 6 or 7. Values that only iptables or nft can check are refused by
//! them (101, 104), and the error names the key too.

use cni_conformance::keys::with;
use cni_conformance::standalone::bridge_result;
use cni_conformance::state::assert_same;
use cni_conformance::table::work_out;
use cni_conformance::{Sandbox, Skeleton, Standalone, State, Verb};
use serde_json::{Value, json};

mod firewall;
mod portmap;

const UNREADABLE: u64 = 6;
const UNUSABLE: u64 = 7;
const REFUSED_BY_KERNEL: u64 = 101;
const REFUSED_BY_PROGRAM: u64 = 104;

const V4: &[&str] = &["10.88.0.5/24"];
const V6: &[&str] = &["fd00:88::5/64"];

/// A value, and the error for it.
struct Row {
    plugin: &'static str,
    backend: &'static str,
    addresses: &'static [&'static str],
    keys: Value,
    code: u64,
    msg: String,
    details: String,
}

fn row(plugin: &'static str, backend: &'static str, keys: Value, code: u64, msg: &str, details: &str) -> Row {
    Row { plugin, backend, addresses: V4, keys, code, msg: msg.to_owned(), details: details.to_owned() }
}

impl Row {
    /// The names of its cell.
    fn names(&self) -> [String; 3] {
        let keys = self.keys["runtimeConfig"]["portMappings"].get(0).unwrap_or(&self.keys);
        [self.plugin.to_owned(), self.backend.to_owned(), keys.to_string()]
    }

    fn lone<'s>(&self, sandbox: &'s Sandbox) -> Standalone<'s> {
        let Self { plugin, backend, addresses, keys, .. } = self;
        let mut all = json!({"backend": backend});
        if *plugin == "portmap" {
            all["runtimeConfig"] = mapping(&json!({}));
        }
        Standalone::new(sandbox, plugin, "ctr1", &bridge_result("br0", addresses), &with(&all, keys))
    }
}

/// One mapping with other keys.
fn mapping(keys: &Value) -> Value {
    let mapping = json!({"hostPort": 8080, "containerPort": 80, "protocol": "tcp"});
    json!({"portMappings": [with(&mapping, keys)]})
}

/// On a bare host, and on one where another container has rules. CHECK says the same of what ADD does not even try.
#[test]
fn values_that_cannot_be_used_are_refused_and_change_nothing() {
    let cells = portmap::rows().into_iter().chain(firewall::rows()).map(|row| (row.names(), row)).collect();
    work_out(["plugin", "back end", "value"], cells, |row| {
        let sandbox = Sandbox::new();
        let said = is_refused(&row, &sandbox);
        neighbour(&row, &sandbox).add();
        assert_eq!(is_refused(&row, &sandbox), said, "beside another container");
        said
    });
}

/// A container with the same keys but for those of the row.
fn neighbour<'s>(row: &Row, sandbox: &'s Sandbox) -> Standalone<'s> {
    let backend = if row.backend == "firewalld" { "none" } else { row.backend };
    let keys = match row.plugin {
        "portmap" => json!({"backend": backend, "runtimeConfig": mapping(&json!({}))}),
        _ => json!({"backend": backend}),
    };
    Standalone::new(sandbox, row.plugin, "ctr2", &bridge_result("br0", &["10.88.0.6/24", "fd00:88::6/64"]), &keys)
}

fn is_refused(row: &Row, sandbox: &Sandbox) -> String {
    let Row { code, msg, details, .. } = row;
    let before = State::of_host(sandbox);
    let error = row.lone(sandbox).call(Verb::Add).run().expect_error(*code, msg);
    assert!(error.msg == *msg && error.details.contains(details), "not {msg:?}, {details:?}: {error:?}");
    if [UNREADABLE, UNUSABLE].contains(code) {
        let checked = row.lone(sandbox).call(Verb::Check).run().error();
        assert_eq!(checked, error, "CHECK");
        assert_same(&before, &State::of_host(sandbox));
    } else {
        // There is a lock around what was tried.
        Skeleton::on_bridge("br0").assert_nothing_else(&before, || State::of_host(sandbox));
    }
    format!("{}: {}", error.code, error.msg)
}

/// A mapping that no address of the container can have, as in the reference, which leaves it out.
#[test]
fn a_host_ip_of_a_family_that_the_container_lacks_maps_nothing() {
    let mut cells = Vec::new();
    for backend in ["iptables", "nftables"] {
        for (addresses, host_ips) in [(V4, ["fd00::1", "::"]), (V6, ["192.0.2.1", "0.0.0.0"])] {
            for host_ip in host_ips {
                cells.push(([backend, addresses[0], host_ip].map(str::to_owned), (backend, addresses, host_ip)));
            }
        }
    }
    work_out(["back end", "container", "hostIP"], cells, |(backend, addresses, host_ip)| {
        let sandbox = Sandbox::new();
        let before = State::of_host(&sandbox);
        let keys = json!({"backend": backend, "runtimeConfig": mapping(&json!({"hostIP": host_ip}))});
        let portmap = Standalone::new(&sandbox, "portmap", "ctr1", &bridge_result("br0", addresses), &keys);
        assert_eq!(portmap.call(Verb::Add).run().result(), portmap.config["prevResult"]);
        portmap.check();
        assert_same(&before, &State::of_host(&sandbox));
        portmap.del();
        assert_same(&before, &State::of_host(&sandbox));
        "passed through, no rule".to_owned()
    });
}
