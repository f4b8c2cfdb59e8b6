//! portmap

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};

use crate::suite::case::{Template, Topic};
use crate::suite::host::PrivateHost;
use crate::suite::judge::{CaseVerdict, require};
use cni_conformance::Outside;
use cni_conformance::traffic::{Echo, Transport, ask_within};

/// Shows all rules of table nat.
const RULES: &str = "iptables --wait -t nat -S";

const fn add(what: &'static str, says: &'static str, run: fn(&PrivateHost) -> CaseVerdict) -> Template {
    Template::new(Topic::Add, what, says, run).page(&["portmap"])
}

pub const CASES: &[Template] = &[
    add("port-dnat", "the host's port leads to the container's", |host| {
        host.add()?;
        host.host_shows(RULES, "--dport 8085 -j DNAT --to-destination 10.88.0.5:80")
    }),
    add("port-udp", "a mapping of UDP is one of UDP", |host| {
        host.add_with(&mapping(&json!({"protocol": "udp"})))?;
        host.host_shows(RULES, "-p udp -m udp --dport 8085 -j DNAT")
    }),
    add("port-host-ip", "hostIP limits the mapping to one address of the host", |host| {
        host.add_with(&mapping(&json!({"hostIP": "192.0.2.1"})))?;
        host.host_shows(RULES, "-d 192.0.2.1/32 -p tcp")
    }),
    add("port-masquerade", "packets that come back to their sender are marked for masquerade", |host| {
        host.add()?;
        host.host_shows(RULES, "-j CNI-HOSTPORT-SETMARK")?;
        host.host_shows(RULES, "--mark 0x2000/0x2000 -j MASQUERADE")
    }),
    add("port-mark-bit", "markMasqBit chooses the mark", |host| {
        host.add_with(&json!({"markMasqBit": 14}))?;
        host.host_shows(RULES, "--mark 0x4000/0x4000 -j MASQUERADE")
    }),
    add("port-no-snat", "without snat no packet is marked", |host| {
        host.add_with(&json!({"snat": false}))?;
        host.host_lacks(RULES, "-j CNI-HOSTPORT-SETMARK")
    }),
    add("port-conditions", "conditionsV4 come with the mapping", |host| {
        host.add_with(&json!({"conditionsV4": ["-s", "198.51.100.0/24"]}))?;
        host.host_shows(RULES, "-s 198.51.100.0/24")
    }),
    add("port-none", "without mappings there are no rules", |host| {
        host.add_with(&json!({"runtimeConfig": {"portMappings": []}}))?;
        host.host_lacks(RULES, "DNAT --to-destination")
    }),
    add("port-reached", "a machine outside reaches the container by the host's port", reached),
    Template::new(Topic::Del, "port-gone", "DEL removes the mapping and leaves the chains that all share", |host| {
        let result = host.add()?;
        host.del(&result)?;
        host.host_lacks(RULES, "10.88.0.5")?;
        host.host_shows(RULES, "-N CNI-HOSTPORT-DNAT")
    })
    .page(&["portmap"]),
];

fn mapping(keys: &Value) -> Value {
    let mapping = json!({"hostPort": 8085, "containerPort": 80, "protocol": "tcp"});
    json!({"runtimeConfig": {"portMappings": [cni_conformance::keys::with(&mapping, keys)]}})
}

fn reached(host: &PrivateHost) -> CaseVerdict {
    let outside = host.sandbox.outside();
    host.sandbox.set_sysctl("net/ipv4/ip_forward", "1");
    let server: SocketAddr = ([0, 0, 0, 0], 80).into();
    let _server = Echo::start(&host.guest.container, Transport::Tcp, server);
    host.add()?;
    let port = (Outside::HOST_V4, 8085).into();
    let answer = ask_within(&outside, Transport::Tcp, port, Duration::from_secs(3));
    require(answer.is_ok(), format!("an answer at {port}"), format!("{answer:?}"))
}
