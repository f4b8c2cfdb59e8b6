//! static

use serde_json::{Value, json};

use crate::suite::case::{Template, Topic};
use crate::suite::host::PrivateHost;
use crate::suite::judge::{CaseVerdict, JudgeOutcome, equal};
use cni_conformance::Verb;

const fn add(what: &'static str, says: &'static str, run: fn(&PrivateHost) -> CaseVerdict) -> Template {
    Template::new(Topic::Add, what, says, run).page(&["static"])
}

pub const CASES: &[Template] = &[
    add("static-addresses", "all addresses of the configuration are given, of both families", |host| {
        let addresses = json!([{"address": "10.88.0.5/24"}, {"address": "fd00:88::5/64", "gateway": "fd00:88::1"}]);
        let result = host.add_with(&json!({"ipam": {"type": "static", "addresses": addresses}}))?;
        gives(&result, &["10.88.0.5/24", "fd00:88::5/64"])
    }),
    add("static-args", "the address in CNI_ARGS is given", |host| {
        let config = bare(host);
        let call = host.call(Verb::Add).args("IP=10.88.0.9/24;GATEWAY=10.88.0.1").config(&config);
        let result = call.run().must_print_object()?;
        gives(&result, &["10.88.0.9/24"])?;
        equal("gateway", json!("10.88.0.1"), result["ips"][0]["gateway"].clone())
    }),
    add("static-runtime", "the addresses in runtimeConfig go before those of the configuration", |host| {
        let result = host.add_with(&json!({"runtimeConfig": {"ips": ["10.88.0.11/24"]}}))?;
        gives(&result, &["10.88.0.11/24"])
    }),
    add("static-cni-args", "the addresses in args.cni go before those of the configuration", |host| {
        let result = host.add_with(&json!({"args": {"cni": {"ips": ["10.88.0.12/24"]}}}))?;
        gives(&result, &["10.88.0.12/24"])
    }),
    add("static-dns", "dns of the configuration is told", |host| {
        let ipam =
            json!({"type": "static", "addresses": [{"address": "10.88.0.5/24"}], "dns": {"domain": "example.org"}});
        let result = host.add_with(&json!({"ipam": ipam}))?;
        equal("dns", json!({"domain": "example.org"}), result["dns"].clone())
    }),
    add("static-bad-address", "what is no address is refused", |host| {
        let ipam = json!({"type": "static", "addresses": [{"address": "10.88.0.5.6/24"}]});
        host.try_to_add_with(&json!({"ipam": ipam})).must_print_error().map(drop)
    }),
];

fn bare(host: &PrivateHost) -> Value {
    cni_conformance::keys::with(&host.config(), &json!({"ipam": {"type": "static"}}))
}

fn gives(result: &Value, addresses: &[&str]) -> CaseVerdict {
    let given: Vec<&str> =
        result["ips"].as_array().into_iter().flatten().filter_map(|ip| ip["address"].as_str()).collect();
    equal("addresses", addresses.join(" "), given.join(" "))
}
