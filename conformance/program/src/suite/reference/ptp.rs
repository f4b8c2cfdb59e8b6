//! ptp

use std::net::IpAddr;
use std::time::Duration;

use serde_json::json;

use crate::suite::case::{Template, Topic};
use crate::suite::host::PrivateHost;
use crate::suite::judge::{CaseVerdict, equal, require};
use cni_conformance::traffic::ping;

const fn add(what: &'static str, says: &'static str, run: fn(&PrivateHost) -> CaseVerdict) -> Template {
    Template::new(Topic::Add, what, says, run).page(&["ptp"])
}

pub const CASES: &[Template] = &[
    add("ptp-host-address", "the host's end has the gateway's address", |host| {
        host.add()?;
        host.host_shows("ip -4 address", "10.88.0.1/32")
    }),
    add("ptp-host-route", "the host has a route to the container's address", |host| {
        host.add()?;
        host.host_shows("ip route", "10.88.0.5 dev ")
    }),
    add("ptp-container-route", "the container's default route is by the gateway", |host| {
        host.add()?;
        host.container_shows("ip route", "default via 10.88.0.1 dev eth0")
    }),
    add("ptp-forwarding", "the host forwards packets", |host| {
        host.add()?;
        equal("net/ipv4/ip_forward", "1".to_owned(), host.sandbox.sysctl("net/ipv4/ip_forward"))
    }),
    add("ptp-mtu", "mtu is that of the interface", |host| {
        host.add_with(&json!({"mtu": 1400}))?;
        host.container_shows("ip link show eth0", "mtu 1400")
    }),
    add("ptp-masquerade", "with ipMasq the container's packets are masqueraded", |host| {
        host.add_with(&json!({"ipMasq": true}))?;
        host.host_shows("iptables --wait -t nat -S", "MASQUERADE")
    }),
    Template::new(Topic::Del, "ptp-masquerade", "DEL removes the masquerade", |host| {
        let keys = json!({"ipMasq": true});
        let result = host.add_with(&keys)?;
        host.del_with(&result, &keys)?;
        host.host_lacks("iptables --wait -t nat -S", "10.88.0.5")
    })
    .page(&["ptp"]),
    add("ptp-own-dns", "the configuration's dns goes before the IPAM plugin's", |host| {
        let result = host.add_with(&json!({"dns": {"nameservers": ["10.88.0.99"]}}))?;
        equal("dns", json!({"nameservers": ["10.88.0.99"]}), result["dns"].clone())
    }),
    add("ptp-traffic", "the host reaches the container, and the container the host", |host| {
        host.add()?;
        for (from, target) in [(&*host.guest.container, "10.88.0.1"), (host.sandbox.host(), "10.88.0.5")] {
            let target: IpAddr = target.parse().unwrap_or_else(|error| panic!("{target}: {error}"));
            require(ping(from, target, Duration::from_secs(3)), format!("an answer from {target}"), "none")?;
        }
        Ok(())
    }),
];
