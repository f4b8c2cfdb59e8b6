//! Leases of host-local that are torn, or belong to others.

use std::fs;

use crate::suite::case::{Template, Topic};
use crate::suite::host::{CaseContainer, PrivateHost};
use crate::suite::judge::{CaseVerdict, JudgeOutcome, equal, require};
use crate::suite::subject::LEASES;
use cni_conformance::Verb;

const fn case(topic: Topic, what: &'static str, says: &'static str, run: fn(&PrivateHost) -> CaseVerdict) -> Template {
    Template::new(topic, what, says, run).of(crate::suite::case::PluginSelection::Only(&["host-local"]))
}

pub const CASES: &[Template] = &[
    case(Topic::Add, "foreign-files", "files that are not leases are ignored", |host| {
        put(host, "README", "not a lease");
        put(host, "10.88.0.9.tmp", "");
        host.add().map(drop)
    }),
    case(Topic::Add, "empty-lease", "the address of an empty lease is not assigned again", |host| {
        put(host, "10.88.0.2", "");
        let result = host.add()?;
        require(result["ips"][0]["address"] == "10.88.0.3/24", "10.88.0.3/24", &result)
    }),
    case(Topic::Add, "broken-memory", "invalid text in the file of the last reserved address does no harm", |host| {
        put(host, "last_reserved_ip.0", "nonsense");
        host.add().map(drop)
    }),
    case(
        Topic::Del,
        "foreign-lease",
        "DEL keeps the lease of a container whose id begins with the same text",
        |host| {
            put(host, "10.88.0.9", "ctr10\r\neth0");
            let result = host.add()?;
            host.del(&result)?;
            let kept = fs::read_to_string(format!("{LEASES}/n1/10.88.0.9")).unwrap_or_default();
            equal("the lease of ctr10", "ctr10\r\neth0".to_owned(), kept)
        },
    ),
    case(Topic::Add, "many-at-once", "twenty ADDs at once give twenty addresses", many),
    case(
        Topic::Add,
        "twice",
        "a second ADD of the same container and interface is refused, and the lease stays",
        |host| {
            let result = host.add()?;
            host.call(Verb::Add).run().must_print_error()?;
            host.check(&result)
        },
    ),
];

fn put(_: &PrivateHost, name: &str, text: &str) {
    let folder = format!("{LEASES}/n1");
    fs::create_dir_all(&folder)
        .and_then(|()| fs::write(format!("{folder}/{name}"), text))
        .unwrap_or_else(|error| panic!("write {folder}/{name}: {error}"));
}

fn many(host: &PrivateHost) -> CaseVerdict {
    let containers: Vec<CaseContainer> = (0..20).map(|at| host.another(&format!("many{at}"), 100 + at)).collect();
    let calls: Vec<_> = containers.iter().map(|container| host.call_for(Verb::Add, container)).collect();
    let mut addresses = Vec::new();
    for outcome in cni_conformance::at_once(&calls) {
        addresses.push(outcome.must_print_object()?["ips"][0]["address"].to_string());
    }
    addresses.sort();
    addresses.dedup();
    require(addresses.len() == containers.len(), "twenty addresses", addresses.join(" "))
}
