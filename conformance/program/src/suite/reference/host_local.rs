//! host-local

use std::fs;

use serde_json::{Value, json};

use crate::suite::case::{Template, Topic};
use crate::suite::host::PrivateHost;
use crate::suite::judge::{CaseVerdict, JudgeOutcome, Mismatch, equal, require};
use crate::suite::subject::{LEASES, host_local};
use cni_conformance::Verb;
use cni_conformance::keys::with;

const fn case(topic: Topic, what: &'static str, says: &'static str, run: fn(&PrivateHost) -> CaseVerdict) -> Template {
    Template::new(topic, what, says, run).page(&["host-local"])
}

pub const CASES: &[Template] = &[
    case(Topic::Add, "first-address", "the first address is the one behind the gateway's", |host| {
        gives(host, &json!({}), &["10.88.0.2/24"])
    }),
    case(Topic::Add, "next-address", "the next container gets the next address", |host| {
        let second = host.another("ctr2", 6);
        host.add()?;
        equal("address", json!("10.88.0.3/24"), host.add_of(&second)?["ips"][0]["address"].clone())
    }),
    case(
        Topic::Add,
        "lease-file",
        "a lease is a file named after the address, with container and interface in it",
        lease,
    ),
    case(Topic::Add, "range", "addresses come from rangeStart on, up to rangeEnd", |host| {
        let range = json!([[{"subnet": "10.88.0.0/24", "rangeStart": "10.88.0.40", "rangeEnd": "10.88.0.41"}]]);
        gives(host, &json!({"ranges": range}), &["10.88.0.40/24"])
    }),
    case(Topic::Add, "gateway", "the gateway of the configuration is told, and never given", |host| {
        let range = json!([[{"subnet": "10.88.0.0/24", "gateway": "10.88.0.2"}]]);
        let result = host.add_with(&ipam(&json!({"ranges": range})))?;
        let ip = &result["ips"][0];
        require(ip["gateway"] == "10.88.0.2" && ip["address"] == "10.88.0.1/24", "10.88.0.1/24 by 10.88.0.2", ip)
    }),
    case(Topic::Add, "exhausted", "ADD fails when all addresses are given", |host| {
        let keys = ipam(&json!({"ranges": [[{"subnet": "10.88.0.0/30"}]]}));
        let second = host.another("ctr2", 6);
        host.add_with(&keys)?;
        host.call_for(Verb::Add, &second).config(&with(&host.config(), &keys)).run().must_print_error().map(drop)
    }),
    case(Topic::Add, "requested-by-args", "the address in CNI_ARGS is given", |host| {
        let result = host.call(Verb::Add).args("IP=10.88.0.77").run().must_print_object()?;
        equal("address", json!("10.88.0.77/24"), result["ips"][0]["address"].clone())
    }),
    case(Topic::Add, "requested-by-runtime", "the address in runtimeConfig is given", |host| {
        let result = host.add_with(&json!({"runtimeConfig": {"ips": ["10.88.0.78/24"]}}))?;
        equal("address", json!("10.88.0.78/24"), result["ips"][0]["address"].clone())
    }),
    case(Topic::Add, "requested-elsewhere", "an address outside of the ranges is refused", |host| {
        host.call(Verb::Add).args("IP=192.0.2.1").run().must_print_error().map(drop)
    }),
    case(Topic::Add, "requested-taken", "an address that is given already is refused", |host| {
        let second = host.another("ctr2", 6);
        host.add()?;
        host.call_for(Verb::Add, &second).args("IP=10.88.0.2").run().must_print_error().map(drop)
    }),
    case(Topic::Add, "two-sets", "each set of ranges gives an address", |host| {
        let ranges = json!([[{"subnet": "10.88.0.0/24"}], [{"subnet": "fd00:88::/64"}]]);
        gives(host, &json!({"ranges": ranges}), &["10.88.0.2/24", "fd00:88::2/64"])
    }),
    case(Topic::Add, "old-keys", "subnet beside type is a range as well", |host| {
        let ipam = json!({"ipam": {"type": "host-local", "subnet": "10.99.0.0/24", "dataDir": LEASES}});
        let result = host.add_with(&ipam)?;
        equal("address", json!("10.99.0.2/24"), result["ips"][0]["address"].clone())
    }),
    case(Topic::Add, "resolv-conf", "resolvConf is read for the dns of the result", |host| {
        let file = "/run/conformance/resolv.conf";
        fs::write(file, "nameserver 192.0.2.53\nsearch example.org\n")
            .unwrap_or_else(|error| panic!("{file}: {error}"));
        let result = host.add_with(&ipam(&json!({"resolvConf": file})))?;
        let dns = json!({"nameservers": ["192.0.2.53"], "search": ["example.org"]});
        equal("dns", dns, result["dns"].clone())
    }),
    case(Topic::Add, "no-subnet", "a range without a subnet is refused", |host| {
        host.try_to_add_with(&ipam(&json!({"ranges": [[{"gateway": "10.88.0.1"}]]}))).must_print_error().map(drop)
    }),
    case(Topic::Add, "overlapping-ranges", "ranges that overlap are refused", |host| {
        let ranges = json!([[{"subnet": "10.88.0.0/24"}], [{"subnet": "10.88.0.128/25"}]]);
        host.try_to_add_with(&ipam(&json!({"ranges": ranges}))).must_print_error().map(drop)
    }),
    case(Topic::Del, "lease-freed", "DEL frees the address for another container", |host| {
        let keys = ipam(&json!({"ranges": [[{"subnet": "10.88.0.0/30"}]]}));
        let second = host.another("ctr2", 6);
        let result = host.add_with(&keys)?;
        host.del_with(&result, &keys)?;
        host.call_for(Verb::Add, &second).config(&with(&host.config(), &keys)).run().must_print_object().map(drop)
    }),
    case(Topic::Del, "lease-of-others", "DEL leaves the leases of other containers", |host| {
        let second = host.another("ctr2", 6);
        let result = host.add()?;
        let other = host.add_of(&second)?;
        host.del(&result)?;
        host.check_of(&second, &other)
    }),
];

/// Other keys of `ipam`.
fn ipam(keys: &Value) -> Value {
    json!({"ipam": with(&host_local(), keys)})
}

fn gives(host: &PrivateHost, keys: &Value, addresses: &[&str]) -> CaseVerdict {
    let result = host.add_with(&ipam(keys))?;
    let given: Vec<&str> =
        result["ips"].as_array().into_iter().flatten().filter_map(|ip| ip["address"].as_str()).collect();
    equal("addresses", addresses.join(" "), given.join(" "))
}

fn lease(host: &PrivateHost) -> CaseVerdict {
    host.add()?;
    let file = format!("{LEASES}/n1/10.88.0.2");
    let text = fs::read_to_string(&file)
        .map_err(|error| Mismatch { expected: format!("the file {file}"), got: error.to_string() })?;
    equal("lines of the lease", "ctr1 eth0".to_owned(), text.split_whitespace().collect::<Vec<_>>().join(" "))
}
