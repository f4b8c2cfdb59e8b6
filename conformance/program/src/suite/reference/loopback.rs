//! loopback

use serde_json::Value;

use crate::suite::case::{Template, Topic};
use crate::suite::host::PrivateHost;
use crate::suite::judge::{CaseVerdict, require};

pub const CASES: &[Template] = &[
    Template::new(
        Topic::Add,
        "loopback-addresses",
        "ADD answers with lo and its addresses 127.0.0.1 and ::1",
        addresses,
    )
    .page(&["loopback"]),
    Template::new(Topic::Del, "loopback-down", "DEL takes lo down", |host| {
        let result = host.add()?;
        host.del(&result)?;
        require(host.inside().link("lo").is_some_and(|link| !link.up), "lo down", "lo up")
    })
    .page(&["loopback"]),
];

fn addresses(host: &PrivateHost) -> CaseVerdict {
    let result = host.add()?;
    let listed: Vec<String> =
        result["ips"].as_array().into_iter().flatten().map(|ip| ip["address"].to_string()).collect();
    let whole = ["\"127.0.0.1/8\"", "\"::1/128\""].iter().all(|address| listed.iter().any(|listed| listed == address));
    require(whole && result["interfaces"][0]["name"] == "lo", "lo with 127.0.0.1/8 and ::1/128", Value::from(listed))
}
